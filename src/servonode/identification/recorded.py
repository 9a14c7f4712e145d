"""Experiments from recordings: the states or readings that the plant published, and the inputs that acted.

Of a simulation the recorded rows hold the true state; what was measured stands in the messages `plant/state`, so these
are read. The inputs are those that had acted up to each state. Behind the first fault nothing is taken.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.ndimage import minimum_filter1d

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.identification.experiment import Channel, Experiment, IdentificationError, decimated, runs_of_inputs
from servonode.mechanics.description import unpacked
from servonode.mechanics.kernels import Whole
from servonode.plants.effects import Actuator
from servonode.record.bag import Bag
from servonode.record.run import Run

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
    last = _first_fault(bag)
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
        raise IdentificationError(
            f"{bag.file}: holds {number} messages {STATES}, at least {LEAST_STATES} are needed; {remedy}"
        )
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


def _first_fault(bag: Bag) -> float:
    """The time of the first fault of the run [s]."""
    faults = json.loads(bag.ending.get("faults", "[]"))
    return min((float(each["t"]) for each in faults), default=float("inf"))


def _experiment(
    name: str, closed_loop: ClosedLoop, states: Sequence[Message], applied: Sequence[Message]
) -> Experiment:
    layout = closed_loop.machine.description.layout
    try:
        measured = np.array([unpacked(layout, each["state"]) for each in states], dtype=float)
    except (KeyError, ValueError, TypeError) as error:
        machine = closed_loop.machine.description.name
        raise IdentificationError(
            f"{name}: holds a {STATES} that does not belong to the machine {machine} ({error})"
        ) from error
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
