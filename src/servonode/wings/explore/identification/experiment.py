"""An experiment: what was measured of a machine while known inputs acted, on the grid of its plant steps.

Experiments are made of recordings: of the states or readings that the plant published, and the inputs that acted. Of a
simulation the recorded rows hold the true state; what was measured stands in the messages `plant/state`, so these are
read. The inputs are those that had acted up to each state. Behind the first fault nothing is taken.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.ndimage import minimum_filter1d

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.errors import ServonodeError
from servonode.mechanics.description import unpacked
from servonode.mechanics.kernels import Whole
from servonode.mechanics.machine import Machine
from servonode.mechanics.observer import Observer
from servonode.plants.effects import Actuator
from servonode.record.bag import Bag
from servonode.record.run import Run

MOST_SAMPLES = 20_000  # of a channel; of more every second, third, ... is taken
LEAST_STEPS = 4  # different values, or of fewer occurrences of each, from which the quantum of a channel is read
WHOLE = 1e-6  # of a quantum, by which a value may miss a whole number of them


class IdentificationError(ServonodeError, ValueError):
    """Parameters cannot be identified from a record; the text says why and what helps."""


@dataclass(frozen=True)
class Channel:
    """One measured quantity: a state of the machine, or the readings of a sensor.

    index: of the state among the states, or of the sensor among the sensors. row: the row of the experiment at which
    each value (n,) was measured. wraps: an angle that is read from -pi to pi.
    """

    name: str
    unit: str
    index: int
    row: Whole
    values: Array
    of_sensor: bool = False
    wraps: bool = False

    @cached_property
    def quantum(self) -> float:
        """The step to which the values are rounded, read from the values themselves; 0: they are not rounded."""
        steps = np.unique(self.values)
        if len(steps) < 2 or (len(steps) < LEAST_STEPS and len(self.values) < LEAST_STEPS * len(steps)):
            return 0.0
        smallest = float(np.min(np.diff(steps)))
        multiples = np.diff(steps) / smallest
        return smallest if np.all(np.abs(multiples - np.round(multiples)) < WHOLE * np.maximum(multiples, 1)) else 0.0

    @cached_property
    def noise(self) -> float:
        """The variance that the differences of neighbouring values show."""
        return float(np.mean(np.diff(self.values) ** 2)) / 2

    @property
    def resolved(self) -> bool:
        """Whether the values change by more than two of the steps to which they are rounded, or noise mixes these."""
        spread = float(np.ptp(self.values))
        return spread > 2 * self.quantum * (1 + WHOLE) or 0.0 < self.quantum**2 / 12 < self.noise

    @property
    def span(self) -> float:
        """How far the values spread; 1 where they are all the same."""
        return float(np.ptp(self.values)) or 1.0

    def difference(self, one: Array, other: Array) -> Array:
        """one - other, of an angle that wraps the smallest such."""
        apart: Array = one - other
        return apart - 2 * np.pi * np.round(apart / (2 * np.pi)) if self.wraps else apart


@dataclass(frozen=True)
class Experiment:
    """Rows at the plant steps k (rows,), in between constant inputs u (rows - 1, n_tau), and what was measured.

    machine: with the parameters of its launch file. guess: the states (rows, n_state) as far as they are known before
    the fit, from which segments begin. observer: of the sensors, where there are channels of them.
    """

    name: str
    machine: Machine
    step_ns: int
    integrator: str
    k: Whole
    u: Array
    channels: tuple[Channel, ...]
    guess: Array
    observer: Observer | None = None

    @property
    def t(self) -> Array:
        """The times of the rows [s]."""
        return self.k * self.step_ns / 1e9

    @property
    def duration(self) -> float:
        """From the first to the last row [s]."""
        return float(self.k[-1] - self.k[0]) * self.step_ns / 1e9

    @property
    def n_measurements(self) -> int:
        return len(self.values)

    @cached_property
    def values(self) -> Array:
        """All measured values, channel by channel."""
        return np.concatenate([each.values for each in self.channels])

    @cached_property
    def row(self) -> Whole:
        """The row of each of these values."""
        return np.concatenate([each.row for each in self.channels])

    @cached_property
    def channel(self) -> Whole:
        """The number of the channel of each of these values."""
        return np.repeat(np.arange(len(self.channels)), [len(each.values) for each in self.channels])

    def less(self, correction: Array) -> "Experiment":
        """The experiment with what was measured less a correction (n,)."""
        values = np.split(self.values - correction, np.cumsum([len(each.values) for each in self.channels])[:-1])
        channels = tuple(replace(each, values=own) for each, own in zip(self.channels, values, strict=True))
        return replace(self, channels=channels)

    def difference(self, one: Array, other: Array) -> Array:
        """one - other, entry by entry of what all channels measure."""
        parts, ends = [], np.cumsum([len(each.values) for each in self.channels])[:-1]
        for each, a, b in zip(self.channels, np.split(one, ends), np.split(other, ends), strict=True):
            parts.append(each.difference(a, b))
        return np.concatenate(parts)

    def measured(self, machine: Machine, x: Array) -> Array:
        """What the channels measure without error of the kernel states x (rows, n_x) of a machine."""
        readings = self._readings(machine, x)
        return np.concatenate(
            [(readings[each.row, each.index] if each.of_sensor else x[each.row, each.index]) for each in self.channels]
        )

    def _readings(self, machine: Machine, x: Array) -> Array:
        """What the sensors measure at the rows at which one was read (rows, n_z); elsewhere nothing."""
        if self.observer is None:
            return np.zeros((0, 0))
        observer = Observer(machine, self.observer.kernel, self.integrator)
        found = np.full((len(x), observer.n_z), np.nan)
        for i in np.unique(np.concatenate([each.row for each in self.channels if each.of_sensor])).tolist():
            observer.measure(float(self.t[i]), x[i], self.u[max(i - 1, 0)], found[i])
        return found


def decimated(row: Whole, values: Array) -> tuple[Whole, Array]:
    """At most MOST_SAMPLES of these measurements, evenly spread."""
    every = -(-len(row) // MOST_SAMPLES)
    return row[::every], values[::every]


def runs_of_inputs(k: Sequence[int], u: Array, wanted: Whole) -> tuple[Whole, Array]:
    """Rows of an experiment, at the steps `wanted` and wherever the input changes, and the input of each.

    u[i] acts from step k[i] on, until k[i + 1] or the last step that is wanted.
    """
    steps = np.asarray(k, dtype=np.int64)
    changes = steps[np.append(True, np.any(u[1:] != u[:-1], axis=1))] if len(u) else steps
    rows = np.union1d(changes[(changes > wanted[0]) & (changes < wanted[-1])], wanted)
    acting = np.searchsorted(steps, rows[:-1], side="right") - 1
    return rows, np.ascontiguousarray(u[np.maximum(acting, 0)])


STATES, APPLIED = "plant/state", "plant/applied"
LEAST_STATES = 10  # of an experiment
NEARBY = 51  # states among which the most punctual one tells the plant's clock
Message = dict[str, Any]


def experiments_in(bag: Bag, closed_loop: ClosedLoop) -> list[Experiment]:
    """The experiments of a recording, one for each life of its plant.

    Raises:
        IdentificationError: it has no states, or too few, or its drives took speeds.
    """
    _check_efforts(bag.file.name, closed_loop)
    states, applied = defaultdict[int, dict[int, Message]](dict), defaultdict[int, list[Message]](list)
    faults = json.loads(bag.ending.get("faults", "[]"))
    last = min((float(each["t"]) for each in faults), default=float("inf"))  # time of the first one [s]
    for _, topic, message in bag.messages((STATES, APPLIED)):
        if message["t"] > last:
            continue
        if topic == STATES:
            states[message["run"]].setdefault(message["k"], message)
        else:
            applied[message["run"]].append(message)
    lives = [
        (sorted(each.values(), key=lambda state: state["k"]), applied[run])
        for run, each in states.items()
        if len(each) >= LEAST_STATES
    ]
    if not lives:
        number = sum(map(len, states.values()))
        remedy = bag.remedy("give the recording of a run to which the plant belongs")
        text = f"{bag.file}: holds {number} messages {STATES}, at least {LEAST_STATES} are needed"
        raise IdentificationError(f"{text}; {remedy}")
    names = [bag.file.name] if len(lives) == 1 else [f"{bag.file.name}, start {i + 1}" for i in range(len(lives))]
    return [_experiment(name, closed_loop, *life) for name, life in zip(names, lives, strict=True)]


def experiment_of(run: Run, name: str = "run") -> Experiment:
    """The experiment of a run in memory: its rows, whose states are the true ones in a simulation.

    Raises:
        IdentificationError: it has too few rows, or its drives took speeds.
    """
    closed_loop, end = run.closed_loop, len(run.t)
    _check_efforts(name, closed_loop)
    if run.fault is not None:
        end = int(np.searchsorted(run.t, run.fault["t"], side="left"))
    if end < LEAST_STATES:
        raise IdentificationError(f"{name}: has {end} rows, at least {LEAST_STATES} are needed; give a longer run")
    states = np.column_stack([each[:end] for each in run.state.values()])
    inputs = np.ascontiguousarray(run.inputs[:, :end].T)
    return experiment_of_states(name, closed_loop, run.k[:end], states, run.k[:end], inputs)


def _check_efforts(name: str, closed_loop: ClosedLoop) -> None:
    """Refuse a run whose drives took speeds: what efforts they made of them is not recorded."""
    if closed_loop.drives is not None:
        text = 'the drives took speeds (plant.command = "velocity"), and their efforts are not recorded; '
        raise IdentificationError(f"{name}: {text}give a run whose drives take efforts")


def _experiment(
    name: str, closed_loop: ClosedLoop, states: Sequence[Message], applied: Sequence[Message]
) -> Experiment:
    layout = closed_loop.machine.description.layout
    try:
        measured = np.array([unpacked(layout, each["state"]) for each in states], dtype=float)
    except (KeyError, ValueError, TypeError) as error:
        machine = closed_loop.machine.description.name
        text = f"{name}: holds a {STATES} that does not belong to the machine {machine} ({error})"
        raise IdentificationError(text) from error
    k, u = _inputs(closed_loop, states, applied)
    if closed_loop.estimation is not None and any(each.get("readings") for each in states):
        return _of_readings(name, closed_loop, states, measured, k, u)
    step = closed_loop.launch.step_ns / 1e9
    at = np.array([each["k"] - round(each["age"] / step) for each in states], dtype=np.int64)
    new = np.append(True, np.diff(at) > 0) & (at >= states[0]["k"])
    return experiment_of_states(name, closed_loop, at[new], measured[new], k, u)


def experiment_of_states(
    name: str, closed_loop: ClosedLoop, at: Whole, states: Array, k: Whole, u: Array
) -> Experiment:
    """An experiment with a channel for each state, measured at the steps `at`; u[i] acts from step k[i] on."""
    description, launch = closed_loop.machine.description, closed_loop.launch
    rows, inputs = runs_of_inputs(k.tolist(), u, at)
    row = np.searchsorted(rows, at)
    channels = tuple(
        Channel(column, each.unit, j, *decimated(row, states[:, j]))
        for j, (column, each) in enumerate(zip(description.columns, description.state, strict=True))
    )
    guess = _interpolated(rows, at, states)
    return Experiment(name, closed_loop.machine, launch.step_ns, launch.plant.integrator, rows, inputs, channels, guess)


def _of_readings(
    name: str, closed_loop: ClosedLoop, states: Sequence[Message], known: Array, k: Whole, u: Array
) -> Experiment:
    """An experiment with a channel for each sensor; `known` are the states that the plant published."""
    assert closed_loop.estimation is not None
    launch, sensors = closed_loop.launch, closed_loop.machine.description.sensors
    first, at = states[0]["k"], np.array([each["k"] for each in states], dtype=np.int64)
    taken: dict[str, list[tuple[int, float]]] = {each.name: [] for each in sensors}
    for state in states:
        for sensor, numbers in (state.get("readings") or {}).items():
            steps = zip(numbers[::2], numbers[1::2], strict=True)
            taken[sensor] += [(int(step), value) for step, value in steps if step >= first]
    wanted = np.unique([first, *(step for each in taken.values() for step, _ in each)])
    rows, inputs = runs_of_inputs(k.tolist(), u, np.asarray(wanted, dtype=np.int64))
    channels = []
    for index, sensor in enumerate(sensors):
        if len(taken[sensor.name]) > 1:
            steps, values = np.array(taken[sensor.name]).T
            row, kept = decimated(np.searchsorted(rows, steps), values)
            channels.append(Channel(sensor.name, sensor.quantity.unit, index, row, kept, True, sensor.wraps))
    guess, observer = _interpolated(rows, at, known), closed_loop.estimation.observer
    return Experiment(
        name,
        closed_loop.machine,
        launch.step_ns,
        launch.plant.integrator,
        rows,
        inputs,
        tuple(channels),
        guess,
        observer,
    )


def _interpolated(rows: Whole, at: Whole, states: Array) -> Array:
    return np.column_stack([np.interp(rows, at, states[:, j]) for j in range(states.shape[1])])


# inputs


def _inputs(closed_loop: ClosedLoop, states: Sequence[Message], applied: Sequence[Message]) -> tuple[Whole, Array]:
    """Steps (m,) from which on inputs act, and the inputs (m, n_tau), as the machine's drives make them."""
    names = closed_loop.machine.description.input_names
    pairs = list(_written(closed_loop, states, applied, names))
    k, u = np.array([pair[0] for pair in pairs], dtype=np.int64), np.array([pair[1] for pair in pairs])
    u = u.reshape(len(pairs), len(names))
    return _through_drives(closed_loop, k, u, states[-1]["k"])


def _written(
    closed_loop: ClosedLoop, states: Sequence[Message], applied: Sequence[Message], names: Sequence[str]
) -> Iterator[tuple[int, list[float]]]:
    """From which step on which inputs were written to the machine.

    A state holds the inputs that acted up to it. Where they changed since the state before, and steps lie between, the
    change is at the step that the plant's clock had reached when it took the command; with a delay at the state before.
    """
    launch = closed_loop.launch
    delayed = launch.controller is not None and launch.controller.delay > 0  # then inputs act at control instants
    taken = {} if delayed else steps_of_commands(launch, states, applied)
    before: list[float] | None = None
    for first, last in pairwise(states):
        now = [last["input"][name] for name in names]
        since = first["k"]
        if before is not None and now != before:
            since = min(max(taken.get(first["k"], 0), first["k"]), last["k"] - 1)
            if since > first["k"]:
                yield first["k"], before
        yield since, now
        before = now


def steps_of_commands(launch: LaunchFile, states: Sequence[Message], applied: Sequence[Message]) -> dict[int, int]:
    """The step at which the newest command came, by the step of the state before it.

    In real time the plant's clock tells it, whose steps the most punctual states nearby tell; the first state of a run
    is sent before it starts.
    """
    k = np.array([each["k"] for each in states], dtype=np.int64)
    at = np.array([each["k"] for each in applied], dtype=np.int64)
    before = np.maximum(np.searchsorted(k, at, side="right") - 1, 0)
    if launch.run.mode != "realtime" or len(states) <= NEARBY:
        return dict(zip(k[before].tolist(), at.tolist(), strict=True))
    scale, zero = launch.run.speed / launch.step_ns, states[0]["mono"]  # steps in 1 ns of the clock
    late = np.array([(each["mono"] - zero) * scale for each in states]) - k
    late[0] = np.inf
    punctual = minimum_filter1d(late, NEARBY, mode="nearest")
    came = np.array([(each["mono"] - zero) * scale for each in applied]) - punctual[before]
    return dict(zip(k[before].tolist(), np.maximum(came.astype(np.int64), at).tolist(), strict=True))


def _through_drives(closed_loop: ClosedLoop, k: Whole, u: Array, last: int) -> tuple[Whole, Array]:
    """What the drives of [plant.actuator] make of inputs that are written, from which step on."""
    effects = closed_loop.actuator
    if effects.ideal or not len(u):
        return k, u
    drive, steps = Actuator(effects, closed_loop.launch.step_ns / 1e9), np.arange(k[0], last)
    acting, made = np.searchsorted(k, steps, side="right") - 1, np.empty((len(steps), u.shape[1]))
    for i, write in enumerate(acting.tolist()):
        drive.write(u[write])
        drive.advance()
        made[i] = drive.output
    return steps, made
