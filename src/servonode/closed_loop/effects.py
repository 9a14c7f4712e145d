"""The effects of drives on inputs and of sensors on states, from [plant.actuator] and [plant.sensor]."""

import numpy as np

from servonode.closed_loop.launch_error import KeyRefused, per_name
from servonode.closed_loop.launch_keys import Actuator, Sensor
from servonode.mechanics.description import MachineDescription
from servonode.plants.effects import ActuatorEffects, SensorEffects

MOST_WAITING = 1_000_000  # plant steps that a drive or a sensor may be late by


def actuator_effects(drive: Actuator, machine: MachineDescription, step: float) -> ActuatorEffects:
    """What the drives make of commands, by input; step [s]: of the plant.

    Raises:
        KeyRefused: a name that is no input, or a delay of too many steps.
    """
    names = machine.input_names

    def by_input(key: str, default: float) -> tuple[float, ...]:
        return per_name("plant.actuator", key, getattr(drive, key), names, default)

    effects = ActuatorEffects(
        limit=by_input("limit", np.inf),
        rate_limit=by_input("rate_limit", np.inf),
        lag=by_input("lag", 0.0),
        delay=by_input("delay", 0.0),
        quantum=by_input("quantum", 0.0),
        dead_zone=by_input("dead_zone", 0.0),
    )
    _check_delay("plant.actuator", max(effects.delay, default=0.0), step)
    return effects


def sensor_effects(sensor: Sensor, machine: MachineDescription, step: float) -> SensorEffects:
    """What the sensors make of the state; step [s]: of the plant.

    Raises:
        KeyRefused: a name that is not a state, or a delay of too many steps.
    """
    names = machine.state_names

    def by_state(key: str) -> tuple[float, ...]:
        return per_name("plant.sensor", key, getattr(sensor, key), names, 0.0)

    effects = SensorEffects(
        noise=by_state("noise"),
        bias=by_state("bias"),
        quantum=by_state("quantum"),
        delay=sensor.delay,
        drop=sensor.drop,
    )
    _check_delay("plant.sensor", effects.delay, step)
    return effects


def _check_delay(section: str, delay: float, step: float) -> None:
    """Refuse a delay [s] of more steps than are kept in memory."""
    if delay > MOST_WAITING * step:
        text = f"{delay:g} s are {delay / step:.3g} plant steps of {step:g} s, of which at most {MOST_WAITING:.0e} can "
        raise KeyRefused(section, "delay", f"{text}wait; give at most {MOST_WAITING * step:g}")
