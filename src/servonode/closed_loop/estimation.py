"""The sensors of a run and its estimator, by [plant.sensors] and [estimator]."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from msgspec.structs import replace

from servonode.arrays import Array
from servonode.bus.messages import MAX_ITEMS
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.launch_error import KeyRefused, check_names, per_name, stated_in
from servonode.closed_loop.launch_keys import Estimator as Keys
from servonode.closed_loop.launch_keys import Plant, Run, SensorErrors, Times
from servonode.closed_loop.safety_settings import command_timeout
from servonode.estimators.estimator import Estimator
from servonode.estimators.kalman import ExtendedKalmanFilter
from servonode.estimators.settings import EstimatorSettings, Gate
from servonode.mechanics.description import MachineDescription, SensorDescription, unpacked
from servonode.mechanics.machine import Machine
from servonode.mechanics.observer import Observer, load_observer
from servonode.plants import MachineSource
from servonode.plants.sensors import SensorEffects, SensorSuite

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
    silence: tuple[int, ...]  # plant steps for which each sensor of the machine may give no reading
    wait: float  # s of plant time for which a state of the machine may fail to arrive
    std_limits: tuple[float, ...]  # the largest standard deviation of each state that is accepted; inf: none

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


def sensing_of(
    plant: Plant, source: MachineSource, machine: Machine, times: Times, seed: int, section: str = "plant.sensors"
) -> Sensing:
    """The sensors of the simulated machine; section: where the launch file asks for them.

    Raises:
        KeyRefused: the machine defines no sensors or none of a name, a delay is too long, or its motion cannot be
            linearised.
    """
    stated = sensors_of(plant, machine.description)
    effects = tuple(_effects(plant, each, times) for each in stated)
    return Sensing(_observer(source, machine, plant.integrator, section), effects, seed)


def sensors_of(plant: Plant, machine: MachineDescription) -> tuple[SensorDescription, ...]:
    """The sensors of a machine with what the launch file specifies of them.

    Raises:
        KeyRefused: the machine has none, or none of a name.
    """
    names = [each.name for each in machine.sensors]
    if not names:
        text = f"machine {machine.name} defines no sensors; give its Model sensors=(...), or leave this section out"
        raise KeyRefused("plant.sensors" if plant.sensors else "estimator", None, text)
    check_names("plant.sensors", plant.sensors, names)
    return tuple(_stated(each, plant.sensors.get(each.name)) for each in machine.sensors)


def _stated(sensor: SensorDescription, errors: SensorErrors | None) -> SensorDescription:
    if errors is None:
        return sensor
    given = {key: getattr(errors, key) for key in ("noise", "quantum", "rate", "delay", "drop")}
    return replace(sensor, **{key: value for key, value in given.items() if value is not None})


def _effects(plant: Plant, sensor: SensorDescription, times: Times) -> SensorEffects:
    step, errors = times.step, plant.sensors.get(sensor.name)
    control_steps = _control_steps(plant, times)
    period = 1 / (sensor.rate * step) if sensor.rate else float(control_steps)
    section = f"plant.sensors.{sensor.name}"
    if period < 1:
        text = f"{sensor.rate:g} Hz is faster than the plant's steps of {step:g} s; give at most {1 / step:g}"
        raise KeyRefused(section, "rate", text)
    between = min(control_steps, plant.publish_every)  # at most, from a state message to the next
    if between > MOST_READINGS * period:
        text = f"{between / period:.0f} readings would come with one state message, which carries {MOST_READINGS}; "
        text += f"give {sensor.rate:.4g} Hz only with plant.publish_every = {int(MOST_READINGS * period)} or less"
        raise KeyRefused(section, "rate", text)
    if sensor.delay > LONGEST_PAST * step:
        text = f"{sensor.delay:g} s are more than {LONGEST_PAST} plant steps; give at most {LONGEST_PAST * step:g}"
        raise KeyRefused(section, "delay", text)
    if errors is not None and errors.lost_from is None and errors.lost_for != SensorErrors().lost_for:
        text = "has no effect without lost_from; give the plant time at which the sensor fails"
        raise KeyRefused(section, "lost_for", text)
    delay = round(sensor.delay / step)
    if errors is None or errors.lost_from is None:
        return SensorEffects(sensor, period, delay)
    begin = errors.lost_from / step
    return SensorEffects(sensor, period, delay, begin, begin + errors.lost_for / step)


def _control_steps(plant: Plant, times: Times) -> int:
    """Plant steps from one control instant to the next, or between states where there is no controller."""
    return times.steps_per_period or plant.publish_every


def _observer(source: MachineSource, machine: Machine, integrator: str, section: str) -> Observer:
    with stated_in(section):
        return load_observer(machine, source.key, source.build, integrator)


def estimation_of(keys: Keys, control: Control, plant: Plant, run: Run, start: Array) -> Estimation:
    """The estimator of [estimator], for the machine as the law of a controller believes it.

    Raises:
        KeyRefused: there is no sensor, a sensor without error, or a name or number that does not fit.
    """
    machine, times = control.law.machine, control.times
    description = machine.description
    sensors = sensors_of(plant, description)
    used = _used(keys, sensors)
    noise = _noise(keys, description)
    longest = max(round(sensors[i].delay / times.step) for i in used)
    timeout = command_timeout(plant.safety, run.speed, times.period_ns)
    wall = plant.device.timeout or timeout or plant.safety.command_timeout_floor
    wait = wall * (run.speed if run.mode == "realtime" else 1.0)  # s of plant time
    silence = _silence(keys, sensors, wait, times.step, _control_steps(plant, times))
    settings = EstimatorSettings(
        mean=_mean(keys, machine, start),
        deviation=np.array(per_name("estimator", "initial_std", keys.initial_std, description.state_names, 0.0)),
        state_noise=noise[: machine.n_state],
        input_noise=noise[machine.n_state :],
        sensors=sensors,
        used=used,
        step_ns=times.step_ns,
        gate=_gate(keys, sensors, used, silence),
        horizon=longest + max(SPARE * (times.steps_per_period or 1), round(SPARE_S / times.step)),
    )
    check_names("estimator.sensor_timeout", keys.sensor_timeout, [sensors[i].name for i in used])
    limits = per_name("estimator", "std_limit", keys.std_limit, description.columns, math.inf)
    return Estimation(
        _observer(control.believed, machine, plant.integrator, "estimator"), settings, silence, wait, limits
    )


def _used(keys: Keys, sensors: tuple[SensorDescription, ...]) -> tuple[int, ...]:
    """The numbers of the sensors that the estimator uses, each with an error."""
    names = [each.name for each in sensors]
    wanted = names if keys.sensors is None else keys.sensors
    for name in wanted:
        if name not in names:
            check_names("estimator.sensors", [name], names)
    if not wanted:
        raise KeyRefused("estimator", "sensors", f"none is named; choose from {', '.join(names)}")
    used = tuple(i for i, name in enumerate(names) if name in wanted)
    for i in used:
        if not sensors[i].noise and not sensors[i].quantum:
            text = "has neither noise nor quantum, so an estimator would treat it as exact; give one of them"
            raise KeyRefused(f"plant.sensors.{names[i]}", "noise", text)
    return used


def _gate(
    keys: Keys, sensors: tuple[SensorDescription, ...], used: tuple[int, ...], silence: tuple[int, ...]
) -> Gate | None:
    """The innovation gate, with sensors in the machine's order; None without one.

    Raises:
        KeyRefused: a sensor that is not in use, or a distance that good readings would exceed.
    """
    if keys.gate is None:
        return None
    names = [sensors[i].name for i in used]
    stated = keys.gate if isinstance(keys.gate, Mapping) else dict.fromkeys(names, keys.gate)
    check_names("estimator.gate", stated, names)
    for name, limit in stated.items():
        if limit < LEAST_GATE:
            section, key = ("estimator.gate", name) if isinstance(keys.gate, Mapping) else ("estimator", "gate")
            raise KeyRefused(section, key, _too_small(limit))
    return Gate(tuple(stated.get(each.name, math.inf) for each in sensors), silence)


def _too_small(limit: float) -> str:
    """What is wrong with a gate, with the remedy: whoever gives a share is told the distance that passes it."""
    within = 2 * NormalDist().cdf(limit) - 1  # share of good readings
    shown = f"{limit:g} standard deviations would reject {1 - within:.0%} of all good readings"
    if not 0.5 <= limit < 1:
        return f"{shown}; give 3 to 6"
    distance = NormalDist().inv_cdf((1 + limit) / 2)
    return f"{shown}; give a distance, such as {distance:.3g}, within which a share of {limit:g} of them lies"


def _silence(
    keys: Keys, sensors: tuple[SensorDescription, ...], wait: float, step: float, control_steps: int
) -> tuple[int, ...]:
    """For how many steps each sensor may give no reading."""
    stated = keys.sensor_timeout
    periods = [1 / each.rate if each.rate else control_steps * step for each in sensors]
    return tuple(
        math.ceil(stated.get(each.name, wait + period + each.delay) / step)
        for each, period in zip(sensors, periods, strict=True)
    )


def _noise(keys: Keys, machine: MachineDescription) -> Array:
    """The root spectral densities on states, then on inputs; a number stands for all velocities."""
    names, stated = (*machine.state_names, *machine.input_names), keys.process_noise
    if not isinstance(stated, Mapping):
        stated = dict.fromkeys(machine.velocities, stated)
    return np.array(per_name("estimator", "process_noise", stated, names, 0.0))


def _mean(keys: Keys, machine: Machine, start: Array) -> Array:
    """The initial mean (n_x,): that of the plant, but for what is given; on what the machine holds."""
    description = machine.description
    sizes = dict(description.layout)
    check_names("estimator.initial", keys.initial, sizes)
    mean, at = start.copy(), 0
    mean[-1] = 0.0
    for name, size in sizes.items():
        if name in keys.initial:
            try:
                mean[at : at + (size or 1)] = unpacked(((name, size),), keys.initial)
            except ValueError as error:
                raise KeyRefused("estimator.initial", name, f"{error}; give it so") from error
        at += size or 1
    return machine.projected(0.0, mean)
