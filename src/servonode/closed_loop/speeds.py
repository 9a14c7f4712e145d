"""Bases that take speeds, plant.command = "velocity": what of a launch file they can do, and what is sent to them."""

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.device_terms import acts_in_device, sends_readings
from servonode.closed_loop.launch_error import KeyRefused, choices, per_name
from servonode.closed_loop.launch_keys import LaunchFile, Plant
from servonode.closed_loop.static_checks import SPREAD, Examination
from servonode.controllers.engine.realize import random_states
from servonode.mechanics.description import MachineDescription
from servonode.mechanics.machine import Machine
from servonode.plants.drivers import DRIVERS
from servonode.plants.drivers.installed import find_driver
from servonode.plants.speeds import Drives, independent, speeds_after

AHEAD_S = 1e-6  # over which the effect of efforts on speeds is judged
POSES = 20  # random states near the initial one in which it is
SLOW = 0.3  # share of a difference that is made up in a period, below which it is warned of
OF_EFFORTS = ("rate_limit", "quantum", "dead_zone")  # keys of [plant.actuator] in the unit of an effort


def drives_of(plant: Plant, machine: MachineDescription) -> Drives | None:
    """The velocity loops of drives that take speeds; None: they take efforts.

    Raises:
        KeyRefused: a name that is no input, or a key of drives that take the other.
    """
    limit, bandwidth = plant.safety.speed_limit, plant.actuator.bandwidth
    if plant.command == "effort":
        for section, key, value in (("safety", "speed_limit", limit), ("actuator", "bandwidth", bandwidth)):
            if value is not None:
                text = 'is for drives that take speeds, and plant.command is "effort"; leave it out, or set '
                raise KeyRefused(f"plant.{section}", key, f'{text}plant.command = "velocity"')
        return None
    for key in OF_EFFORTS:
        if getattr(plant.actuator, key) is not None:
            text = 'is of efforts, and with plant.command = "velocity" the drives take speeds; leave it out'
            raise KeyRefused("plant.actuator", key, text)
    names = machine.input_names
    return Drives(
        per_name("plant.safety", "speed_limit", limit, names, np.inf),
        per_name("plant.actuator", "bandwidth", bandwidth, names, np.inf),
    )


def check_speeds(launch: LaunchFile, machine: Machine, start: Array) -> None:
    """Refuse what drives that take speeds cannot do, where plant.command says that they do.

    Raises:
        KeyRefused: there is nothing whose speed they could set, or inputs whose speeds depend on each other.
    """
    plant, description = launch.plant, machine.description
    if plant.command == "effort":
        return
    obstacle = ""
    if not launch.controller:
        obstacle = "the speeds are those after a control period, and there is no [controller]; add one"
    elif not find_driver(plant.driver).speeds:
        able = choices(f'"{name}"' for name, each in DRIVERS.items() if each.speeds)
        obstacle = f'driver "{plant.driver}" sends efforts alone; choose {able}'
    elif acts_in_device(plant):
        obstacle = "the law acts in the machine's firmware, with efforts; leave plant.device.law out"
    elif sends_readings(plant):
        obstacle = "an estimate from readings alone needs the efforts of the drives; leave plant.device.sends out"
    else:
        rng = np.random.default_rng(0)
        states = [start, *random_states(description, start, rng, POSES, SPREAD)]
        gains = [speeds_after(machine, 0.0, x, AHEAD_S)[1] for x in states]
        idle = [name for i, name in enumerate(description.input_names) if not any(gain[i, i] > 0 for gain in gains)]
        if idle:
            obstacle = f"{', '.join(idle)} changes no velocity of its own that a drive could hold"
        elif not independent(gains[0]) or not any(map(independent, gains[1:])):
            obstacle = f"the speeds of {', '.join(description.input_names)} depend on each other, so that no drive can "
            obstacle += "hold its own (more inputs than motions, or a singular pose)"
        obstacle += '; use command = "effort", or a machine with one drive for each motion' if obstacle else ""
    if obstacle:
        raise KeyRefused("plant", "command", f'"velocity" is not possible: {obstacle}')


def examine_speeds(drives: Drives, machine: Machine, period: float, found: Examination) -> None:
    """Add what `check` says of drives that take speeds; period [s]."""
    slow = []
    for name, limit, share in zip(machine.description.input_names, drives.limit, drives.share(period), strict=True):
        most = "" if np.isinf(limit) else f", at most {limit:g} in its SI unit"
        text = f"{name} is sent as the speed of what it moves{most}; in a period its drive makes up {share:.0%} of it"
        found.add("good", "speeds", text)
        slow += [name] if share < SLOW else []
    if slow:
        text = f"the drives of {', '.join(slow)} are slow beside a period of {period:g} s: differences of speed are "
        text += "sent several times too large; lengthen controller.period, or check plant.actuator.bandwidth"
        found.add("warn", "speeds", text)
