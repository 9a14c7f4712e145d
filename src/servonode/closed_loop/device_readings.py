"""Machines that send only sensor readings: whether a launch file allows it, and how the state is estimated."""

import math

import numpy as np
import numpy.typing as npt

from servonode.closed_loop.estimation import Estimation, silences, state_wait
from servonode.closed_loop.launch_file import LaunchError, check_names, per_name
from servonode.closed_loop.launch_keys import Estimator, LaunchFile
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.estimated import EstimateTerms
from servonode.plants.drivers.frozen_sensors import Foresight
from servonode.plants.drivers.installed import find_driver

Array = npt.NDArray[np.float64]
SECTION, KEY = "plant.device", "sends"
READINGS = "readings"
TELLS = 4.0  # quanta, likewise
SURE = 8.0  # standard deviations by which a reading must change that nothing else explains


def sends_readings(launch: LaunchFile) -> bool:
    """Whether the machine sends no state, and its driver can do with that."""
    return launch.plant.device.sends == READINGS and find_driver(launch.plant.driver).uses("device", KEY)


def check_device_readings(launch: LaunchFile, estimation: Estimation | None) -> None:
    """Refuse a machine whose state could not be estimated, as it sends no readings, or readings alone.

    Raises:
        LaunchError: packets of the state with an [estimator]; readings alone without one, or with a plant node that
            may be restarted; a name that does not fit.
    """
    if estimation is not None:
        names = [estimation.settings.sensors[i].name for i in estimation.settings.used]
        check_names(launch.file, "estimator.sensor_timeout", _keys(launch).sensor_timeout, names)
        std_limits(launch, estimation)
    if not sends_readings(launch):
        if estimation is not None and find_driver(launch.plant.driver).transport is not None:
            text = f'packets of driver = "{launch.plant.driver}" carry the state or readings, never both; give '
            text += f'{SECTION}.{KEY} = "{READINGS}" with firmware that sends its readings, or leave this section out'
            raise LaunchError(launch.file, "estimator", None, text)
        return
    if estimation is None:
        text = (
            f'"{READINGS}" says that the machine sends no state, and there is no [estimator] that would find it; add '
        )
        raise LaunchError(launch.file, SECTION, KEY, f'{text}one, or have the machine send its state and say "state"')
    if launch.supervision.plant != "never":
        text = "a plant node that is restarted has lost its estimate, and where the machine is would not be known; "
        raise LaunchError(
            launch.file, "supervision", "plant", f'{text}give "never" with {SECTION}.{KEY} = "{READINGS}"'
        )


def estimate_terms(launch: LaunchFile, estimation: Estimation | None) -> EstimateTerms | None:
    """On what terms the plant node estimates the machine's state; None where the machine sends it."""
    if estimation is None or not sends_readings(launch):
        return None
    settings, machine = estimation.settings, estimation.observer.machine.description
    step, steps = launch.step_ns / 1e9, silences(launch, _keys(launch), settings.sensors)
    silence = {settings.sensors[i].name: steps[i] for i in settings.used}
    names = tuple(each.name for each in settings.sensors)
    observed = estimation.observer.machine
    return EstimateTerms(
        estimation.estimator, machine.input_names, machine.columns, names, silence, std_limits(launch, estimation),
        math.ceil(state_wait(launch) / step), step, lambda x, u, seconds: _unseen(observed, x, u, seconds),
        _foresight(launch, estimation),
    )  # fmt: skip


def _foresight(launch: LaunchFile, estimation: Estimation) -> Foresight:
    """What the equations predict of the readings of the sensors in use."""
    observer, settings, step_ns = estimation.observer, estimation.settings, launch.step_ns
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
        math.ceil(launch.plant.safety.frozen_time * 1e9 / step_ns), step_ns / 1e9,
    )  # fmt: skip


def _unseen(machine: Machine, x: Array, u: Array, seconds: float) -> Array:
    """How a state may have moved in a time in which nobody saw it (2, n): on as it did, and to rest."""
    description = machine.description
    moves = [float(name in description.velocities) for name in description.columns]
    return np.array([machine.derivatives(0.0, x, u)[:-1] * seconds, x[:-1] * moves])


def std_limits(launch: LaunchFile, estimation: Estimation) -> tuple[float, ...]:
    """The largest standard deviation of each state of an estimate that is accepted; inf: none.

    Raises:
        LaunchError: a name that the machine does not have.
    """
    names = estimation.observer.machine.description.columns
    return per_name(launch.file, "estimator", "std_limit", _keys(launch).std_limit, names, math.inf)


def _keys(launch: LaunchFile) -> Estimator:
    assert launch.estimator is not None
    return launch.estimator
