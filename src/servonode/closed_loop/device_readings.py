"""Machines that send only sensor readings: whether a launch file allows it, and how the state is estimated."""

import math

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.estimation import Estimation
from servonode.closed_loop.launch_error import KeyRefused
from servonode.closed_loop.launch_keys import Plant
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.estimated import EstimateTerms
from servonode.plants.drivers.frozen_sensors import Foresight
from servonode.plants.drivers.installed import find_driver

SECTION, KEY = "plant.device", "sends"
READINGS = "readings"
TELLS = 4.0  # quanta, likewise
SURE = 8.0  # standard deviations by which a reading must change that nothing else explains


def sends_readings(plant: Plant) -> bool:
    """Whether the machine sends no state, and its driver can do with that."""
    return plant.device.sends == READINGS and find_driver(plant.driver).uses("device", KEY)


def check_device_readings(plant: Plant, restarted: bool, estimation: Estimation | None) -> None:
    """Refuse a machine whose state could not be estimated, as it sends no readings, or readings alone.

    restarted: whether the plant node may be.

    Raises:
        KeyRefused: packets of the state with an [estimator]; readings alone without one, or with a plant node that
            may be restarted.
    """
    if not sends_readings(plant):
        if estimation is not None and find_driver(plant.driver).transport is not None:
            text = f'packets of driver = "{plant.driver}" carry the state or readings, never both; give '
            text += f'{SECTION}.{KEY} = "{READINGS}" with firmware that sends its readings, or leave this section out'
            raise KeyRefused("estimator", None, text)
        return
    if estimation is None:
        text = f'"{READINGS}" says that the machine sends no state, and there is no [estimator] that would find it; '
        raise KeyRefused(SECTION, KEY, f'{text}add one, or have the machine send its state and say "state"')
    if restarted:
        text = "a plant node that is restarted has lost its estimate, and where the machine is would not be known; "
        raise KeyRefused("supervision", "plant", f'{text}give "never" with {SECTION}.{KEY} = "{READINGS}"')


def estimate_terms(plant: Plant, estimation: Estimation | None) -> EstimateTerms | None:
    """On what terms the plant node estimates the machine's state; None where the machine sends it."""
    if estimation is None or not sends_readings(plant):
        return None
    settings, observed = estimation.settings, estimation.observer.machine
    machine, step = observed.description, settings.step_ns / 1e9
    silence = {settings.sensors[i].name: estimation.silence[i] for i in settings.used}
    names = tuple(each.name for each in settings.sensors)
    return EstimateTerms(
        estimation.estimator, machine.input_names, machine.columns, names, silence, estimation.std_limits,
        math.ceil(estimation.wait / step), step, lambda x, u, seconds: _unseen(observed, x, u, seconds),
        _foresight(estimation, plant.safety.frozen_time),
    )  # fmt: skip


def _foresight(estimation: Estimation, frozen_time: float) -> Foresight:
    """What the equations predict of the readings of the sensors in use, which may stay the same so long [s]."""
    observer, settings = estimation.observer, estimation.settings
    step_ns = settings.step_ns
    machine, sensors = observer.machine, settings.sensors
    advance = machine.advancer(observer.integrator)

    def measure(k: int, x: Array, u: Array) -> Array:
        z = np.zeros(observer.n_z)
        observer.measure(k * step_ns / 1e9, x, u, z)
        return z

    return Foresight(
        lambda k, n, x, u: advance(k, n, step_ns, x, u, machine.c), measure,
        {sensors[i].name: i for i in settings.used},
        {sensors[i].name: TELLS * sensors[i].quantum + SURE * sensors[i].noise for i in settings.used},
        math.ceil(frozen_time * 1e9 / step_ns), step_ns / 1e9,
    )  # fmt: skip


def _unseen(machine: Machine, x: Array, u: Array, seconds: float) -> Array:
    """How a state may have moved in a time in which nobody saw it (2, n): on as it did, and to rest."""
    description = machine.description
    moves = [float(name in description.velocities) for name in description.columns]
    return np.array([machine.derivatives(0.0, x, u)[:-1] * seconds, x[:-1] * moves])
