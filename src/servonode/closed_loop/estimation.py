"""The sensors of a run and its estimator, by [plant.sensors] and [estimator]."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from servonode.bus.messages import MAX_ITEMS
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.launch_file import LaunchError, check_names, per_name, worded
from servonode.closed_loop.launch_keys import Estimator as Keys
from servonode.closed_loop.launch_keys import LaunchFile, SensorErrors
from servonode.closed_loop.watches import command_timeout
from servonode.estimators.estimator import Estimator
from servonode.estimators.kalman import ExtendedKalmanFilter
from servonode.estimators.settings import EstimatorSettings, Gate
from servonode.mechanics.description import MachineDescription, SensorDescription, unpacked
from servonode.mechanics.machine import Machine
from servonode.mechanics.observer import Observer, load_observer
from servonode.plants import MachineSource
from servonode.plants.sensors import SensorEffects, SensorSuite

Array = npt.NDArray[np.float64]
MOST_READINGS = MAX_ITEMS // 2 - 1  # of a sensor in a state message; rounded to steps, one more than expected may come
LONGEST_PAST = 100_000  # plant steps that readings may be late by
COUNTED = ("nis", "readings", "nees", "dimensions")
SPARE = 2  # control periods of the past that are kept beyond the slowest sensor,
SPARE_S = 0.1  # and at least so much [s], for links
LEAST_GATE = 2.0  # standard deviations: a narrower gate rejects more than one good reading in 22


@dataclass(frozen=True)
class Sensing:
    """The sensors of the simulated machine."""

    observer: Observer
    effects: tuple[SensorEffects, ...]
    seed: int

    def suite(self) -> SensorSuite:
        """The sensors, fresh."""
        return SensorSuite(self.observer, self.effects, self.seed)


@dataclass(frozen=True)
class Estimation:
    """The estimator of a run: the observer of the controller's model of the machine, and its settings."""

    observer: Observer
    settings: EstimatorSettings

    def estimator(self) -> Estimator:
        """A fresh estimator at its start."""
        return Estimator(self.settings, ExtendedKalmanFilter(self.observer, self.settings))

    @property
    def columns(self) -> list[str]:
        """What a record keeps of an estimate: states, standard deviations, NIS and NEES with their dimensions.

        Then how many readings the gate has rejected so far, by sensor that has one.
        """
        names = self.observer.machine.description.columns
        rejected = (f"rejected_{name}" for name in self.settings.gated)
        return [*(f"estimate_{name}" for name in names), *(f"std_{name}" for name in names), *COUNTED, *rejected]


def sensing_of(launch: LaunchFile, source: MachineSource, machine: Machine) -> Sensing | None:
    """The sensors of the simulated machine; None where nobody reads them.

    Raises:
        LaunchError: the machine has no such sensor, or a delay is too long.
    """
    if launch.estimator is None and not launch.plant.sensors:
        return None
    return all_sensing(launch, source, machine)


def all_sensing(launch: LaunchFile, source: MachineSource, machine: Machine) -> Sensing:
    """The sensors of the machine as the launch file specifies them, whether or not anybody reads them.

    Raises:
        LaunchError: as `sensing_of`, or the machine defines no sensors, or its motion cannot be linearised.
    """
    stated = sensors_of(launch, machine.description)
    return Sensing(
        _observer(launch, source, machine), tuple(_effects(launch, each) for each in stated), launch.run.seed
    )


def sensors_of(launch: LaunchFile, machine: MachineDescription) -> tuple[SensorDescription, ...]:
    """The sensors of a machine with what the launch file specifies of them.

    Raises:
        LaunchError: the machine has none, or none of a name.
    """
    names = [each.name for each in machine.sensors]
    section = "plant.sensors" if launch.plant.sensors else "estimator"
    if not names:
        text = f"machine {machine.name} defines no sensors; give its Model sensors=(...), or leave this section out"
        raise LaunchError(launch.file, section, None, text)
    check_names(launch.file, "plant.sensors", launch.plant.sensors, names)
    return tuple(_stated(launch, each) for each in machine.sensors)


def _stated(launch: LaunchFile, sensor: SensorDescription) -> SensorDescription:
    errors = launch.plant.sensors.get(sensor.name)
    if errors is None:
        return sensor
    given = {key: getattr(errors, key) for key in ("noise", "quantum", "rate", "delay", "drop")}
    return replace(sensor, **{key: value for key, value in given.items() if value is not None})


def _effects(launch: LaunchFile, sensor: SensorDescription) -> SensorEffects:
    step, errors = launch.step_ns / 1e9, launch.plant.sensors.get(sensor.name)
    period = 1 / (sensor.rate * step) if sensor.rate else float(control_steps(launch))
    section = f"plant.sensors.{sensor.name}"
    if period < 1:
        text = f"{sensor.rate:g} Hz is faster than the plant's steps of {step:g} s; give at most {1 / step:g}"
        raise LaunchError(launch.file, section, "rate", text)
    between = min(control_steps(launch), launch.plant.publish_every)  # at most, from a state message to the next
    if between > MOST_READINGS * period:
        text = (
            f"{between / period:.0f} readings would come with one state message, which carries {MOST_READINGS}; give "
        )
        text += f"{sensor.rate:.4g} Hz only with plant.publish_every = {int(MOST_READINGS * period)} or less"
        raise LaunchError(launch.file, section, "rate", text)
    if sensor.delay > LONGEST_PAST * step:
        text = f"{sensor.delay:g} s are more than {LONGEST_PAST} plant steps; give at most {LONGEST_PAST * step:g}"
        raise LaunchError(launch.file, section, "delay", text)
    if errors is not None and errors.lost_from is None and errors.lost_for != SensorErrors().lost_for:
        text = "has no effect without lost_from; give the plant time at which the sensor fails"
        raise LaunchError(launch.file, section, "lost_for", text)
    delay = round(sensor.delay / step)
    if errors is None or errors.lost_from is None:
        return SensorEffects(sensor, period, delay)
    begin = errors.lost_from / step
    return SensorEffects(sensor, period, delay, begin, begin + errors.lost_for / step)


def control_steps(launch: LaunchFile) -> int:
    """Plant steps from one control instant to the next, or between states where there is no controller."""
    return launch.steps_per_period or launch.plant.publish_every


def _observer(launch: LaunchFile, source: MachineSource, machine: Machine) -> Observer:
    with worded(launch.file, "estimator" if launch.estimator else "plant.sensors"):
        return load_observer(machine, source.key, source.build, launch.plant.integrator)


def estimation_of(
    launch: LaunchFile, control: Control | None, start: Array, plant_estimates: bool
) -> Estimation | None:
    """The estimator of the launch file's [estimator]; None without that section.

    plant_estimates: it works in the plant node, and no controller has an estimate to lose.

    Raises:
        LaunchError: it has no controller or one that is restarted, no sensor, a sensor without error, or a name or
            number that does not fit.
    """
    keys = launch.estimator
    if keys is None:
        return None
    if control is None:
        text = "there is no [controller] that would use the estimate; add one, or leave [estimator] out"
        raise LaunchError(launch.file, "estimator", None, text)
    if launch.supervision.controller != "never" and not plant_estimates:
        text = "a controller that is restarted has lost its estimate, and would take the machine to be at its initial "
        raise LaunchError(launch.file, "supervision", "controller", f'{text}state; give "never" with [estimator]')
    machine = control.law.machine
    description = machine.description
    sensors = sensors_of(launch, description)
    used = _used(launch, keys, sensors)
    noise = _noise(launch, keys, description)
    longest = max(round(sensors[i].delay / (launch.step_ns / 1e9)) for i in used)
    settings = EstimatorSettings(
        mean=_mean(launch, keys, machine, start),
        deviation=_by_state(launch, "initial_std", keys.initial_std, description),
        state_noise=noise[: machine.n_state],
        input_noise=noise[machine.n_state :],
        sensors=sensors,
        used=used,
        step_ns=launch.step_ns,
        gate=_gate(launch, keys, sensors, used),
        horizon=longest + max(SPARE * (launch.steps_per_period or 1), round(SPARE_S / (launch.step_ns / 1e9))),
    )
    return Estimation(_observer(launch, control.believed, machine), settings)


def _used(launch: LaunchFile, keys: Keys, sensors: tuple[SensorDescription, ...]) -> tuple[int, ...]:
    """The numbers of the sensors that the estimator uses, each with an error."""
    names = [each.name for each in sensors]
    wanted = names if keys.sensors is None else keys.sensors
    for name in wanted:
        if name not in names:
            check_names(launch.file, "estimator.sensors", [name], names)
    if not wanted:
        raise LaunchError(launch.file, "estimator", "sensors", f"none is named; choose from {', '.join(names)}")
    used = tuple(i for i, name in enumerate(names) if name in wanted)
    for i in used:
        if not sensors[i].noise and not sensors[i].quantum:
            text = "has neither noise nor quantum, so an estimator would treat it as exact; give one of them"
            raise LaunchError(launch.file, f"plant.sensors.{names[i]}", "noise", text)
    return used


def _gate(launch: LaunchFile, keys: Keys, sensors: tuple[SensorDescription, ...], used: tuple[int, ...]) -> Gate | None:
    """The innovation gate, with sensors in the machine's order; None without one.

    Raises:
        LaunchError: a sensor that is not in use, or a distance that good readings would exceed.
    """
    if keys.gate is None:
        return None
    names = [sensors[i].name for i in used]
    stated = keys.gate if isinstance(keys.gate, Mapping) else dict.fromkeys(names, keys.gate)
    check_names(launch.file, "estimator.gate", stated, names)
    for name, limit in stated.items():
        if limit < LEAST_GATE:
            section, key = ("estimator.gate", name) if isinstance(keys.gate, Mapping) else ("estimator", "gate")
            raise LaunchError(launch.file, section, key, _too_small(limit))
    silence = silences(launch, keys, sensors)
    return Gate(tuple(stated.get(each.name, math.inf) for each in sensors), silence)


def _too_small(limit: float) -> str:
    """What is wrong with a gate, with the remedy: whoever gives a share is told the distance that passes it."""
    shown = f"{limit:g} standard deviations would reject {1 - _share_within(limit):.0%} of all good readings"
    if not 0.5 <= limit < 1:
        return f"{shown}; give 3 to 6"
    distance = NormalDist().inv_cdf((1 + limit) / 2)
    return f"{shown}; give a distance, such as {distance:.3g}, within which a share of {limit:g} of them lies"


def _share_within(limit: float) -> float:
    """The share of good readings within so many standard deviations."""
    return 2 * NormalDist().cdf(limit) - 1


def silences(launch: LaunchFile, keys: Keys, sensors: tuple[SensorDescription, ...]) -> tuple[int, ...]:
    """For how many steps each sensor may give no reading."""
    step, wait, stated = launch.step_ns / 1e9, state_wait(launch), keys.sensor_timeout
    periods = [1 / each.rate if each.rate else control_steps(launch) * step for each in sensors]
    return tuple(
        math.ceil(stated.get(each.name, wait + period + each.delay) / step)
        for each, period in zip(sensors, periods, strict=True)
    )


def state_wait(launch: LaunchFile) -> float:
    """How long a state of the machine may fail to arrive [s of plant time]."""
    wall = launch.plant.device.timeout or command_timeout(launch) or launch.plant.safety.command_timeout_floor
    return wall * (launch.run.speed if launch.run.mode == "realtime" else 1.0)


def _noise(launch: LaunchFile, keys: Keys, machine: MachineDescription) -> Array:
    """The root spectral densities on states, then on inputs; a number stands for all velocities."""
    names, stated = (*machine.state_names, *machine.input_names), keys.process_noise
    if not isinstance(stated, Mapping):
        stated = dict.fromkeys(machine.velocities, stated)
    return np.array(per_name(launch.file, "estimator", "process_noise", stated, names, 0.0))


def _by_state(launch: LaunchFile, key: str, value: float | Mapping[str, float], machine: MachineDescription) -> Array:
    return np.array(per_name(launch.file, "estimator", key, value, machine.state_names, 0.0))


def _mean(launch: LaunchFile, keys: Keys, machine: Machine, start: Array) -> Array:
    """The initial mean (n_x,): that of the plant, but for what is given; on what the machine holds."""
    description = machine.description
    sizes = dict(description.layout)
    check_names(launch.file, "estimator.initial", keys.initial, sizes)
    mean, at = start.copy(), 0
    mean[-1] = 0.0
    for name, size in sizes.items():
        if name in keys.initial:
            try:
                mean[at : at + (size or 1)] = unpacked(((name, size),), keys.initial)
            except ValueError as error:
                raise LaunchError(launch.file, "estimator.initial", name, f"{error}; give it so") from error
        at += size or 1
    return machine.projected(0.0, mean)
