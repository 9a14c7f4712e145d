"""The next experiment: signals under which the parameters become known best, within the machine's limits.

The criterion is that of D-optimal design, log det of the Fisher information of all records and the new experiment
together, relative to the parameters' sizes (V. Fedorov, Theory of Optimal Experiments, 1972). Sums of sines are drawn
at random, made smaller until the machine stays within its limits, and the best one is varied. They are inputs of the
program open_loop or, where a law follows goals of [target], are added to these: an unstable machine needs its law.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs, to_builtins

from servonode.arrays import Array
from servonode.closed_loop.added_sections import defaults
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import launch_of_table, table_of
from servonode.closed_loop.launch_text import table_text
from servonode.errors import ServonodeError
from servonode.mechanics.machine import Machine
from servonode.simulation.simulate import simulate_fused
from servonode.wings.explore.identification.experiment import (
    Channel,
    Experiment,
    IdentificationError,
    experiment_of,
    experiment_of_states,
)
from servonode.wings.explore.identification.fit import Fit, cut, slopes_of
from servonode.wings.explore.identification.trajectories import Segments, Trajectories

SINES = 3  # in the signal of one name
DIGITS = 3


@dataclass(frozen=True)
class Multisine:
    """The sum of share * scale * cap * sin(frequency t + phase) [rad/s, rad] for one name; cap: its largest value."""

    cap: float
    scale: float  # up to 1
    shares: Array  # sum 1
    frequencies: Array
    phases: Array

    @property
    def _terms(self) -> list[list[str]]:
        """Size, frequency and phase of each sine that matters, with few digits."""
        terms = zip(self.cap * self.scale * self.shares, self.frequencies, self.phases, strict=True)
        return [[f"{each:.{DIGITS}g}" for each in term] for term in terms if term[0] > 1e-3 * self.cap]

    @property
    def text(self) -> str:
        """The expression of t."""
        return " + ".join(f"{size}*sin({frequency}*t + {phase})" for size, frequency, phase in self._terms) or "0"

    def values(self, t: Array) -> Array:
        """Its values at times t [s], from the digits of the text."""
        found = np.zeros_like(t)
        for size, frequency, phase in (map(float, term) for term in self._terms):
            found += size * np.sin(frequency * t + phase)
        return found


Signals = dict[str, Multisine]


def drawn(caps: Mapping[str, float], slowest: float, fastest: float, rng: np.random.Generator) -> Signals:
    """One signal for each name, with frequencies [rad/s] evenly spread on a logarithmic scale."""
    return {name: Multisine(cap, 1.0, rng.dirichlet(np.ones(SINES)),
                            np.exp(rng.uniform(np.log(slowest), np.log(fastest), SINES)), rng.uniform(0, 6.28, SINES))
            for name, cap in caps.items()}  # fmt: skip


def varied(signals: Signals, slowest: float, fastest: float, rng: np.random.Generator) -> Signals:
    """Signals near these: their frequencies, shares and phases a little changed."""
    found = {}
    for name, each in signals.items():
        shares = each.shares * np.exp(0.4 * rng.standard_normal(SINES))
        frequencies = np.clip(each.frequencies * np.exp(0.2 * rng.standard_normal(SINES)), slowest, fastest)
        phases = (each.phases + 0.5 * rng.standard_normal(SINES)) % 6.28
        found[name] = replace(each, shares=shares / shares.sum(), frequencies=frequencies, phases=phases)
    return found


def scaled(signals: Signals, factor: float) -> Signals:
    """The signals times a factor."""
    return {name: replace(each, scale=each.scale * factor) for name, each in signals.items()}


DRAWN, VARIED, HALVINGS = 12, 12, 5
SHARE = 0.5  # of an input's limit that the signals may use; where it has none, they stay at the largest recorded input
FURTHER = 3.0  # times the recorded span that a coordinate may move from its start, and the recorded kinetic energy
GOAL_SHARE = 0.1  # of the recorded span of the states that is added to a goal at most
QUANTILE = 1.96
FASTEST = 18.0, 3.0  # rad/s; of inputs, of goals


@dataclass(frozen=True)
class NextExperiment:
    """What to run next: a launch file as a table, its signals as texts, and the half intervals to be expected.

    now, expected: half of the 95 % intervals by parameter, of the records and with this experiment.
    """

    kind: str  # "inputs" or "goals"
    texts: dict[str, str]
    table: dict[str, Any]
    duration: float
    now: dict[str, float]
    expected: dict[str, float]


def next_experiment(closed_loop: ClosedLoop, fit: Fit, seed: int = 1) -> NextExperiment:
    """The best of some experiments as long as the recorded one.

    Raises:
        IdentificationError: no signal keeps the machine within its limits, or no input may move it.
    """
    rng, control = np.random.default_rng(seed), closed_loop.control
    goals = (
        control is not None and control.law.n_s > 0 and any(_plain(each) for each in closed_loop.launch.target.values())
    )
    design: _Design = _Goals(closed_loop, fit) if goals else _Inputs(closed_loop, fit)
    duration = closed_loop.launch.duration_ns / 1e9
    slowest = 4 * np.pi / duration
    best: Signals | None = None
    score, information = -np.inf, np.zeros_like(fit.information)
    for i in range(DRAWN + VARIED):
        if i < DRAWN or best is None:
            draw = drawn(design.caps, slowest, design.fastest, rng)
        else:
            draw = varied(best, slowest, design.fastest, rng)
        for signals, experiment in _allowed(design, draw):
            new = _information(experiment, fit)
            found = _score(fit, new)
            if found > score:
                best, score, information = signals, found, new
    if best is None:
        text = "no sum of sines was found that keeps the machine within its limits and near where it was recorded"
        raise IdentificationError(f"{text}; record a longer run with a law, or design an experiment by hand")
    deviations = _deviations(fit, fit.information), _deviations(fit, fit.information + information)
    now, expected = (
        dict(zip(fit.parts[0].trajectories.names, (QUANTILE * each).tolist(), strict=True)) for each in deviations
    )
    return NextExperiment(design.kind, design.texts(best), design.table(best), duration, now, expected)


def _allowed(design: "_Design", signals: Signals) -> Iterator[tuple[Signals, Experiment]]:
    """The signals as large as the machine's limits allow, with their experiment; none where they do not."""
    for _ in range(HALVINGS):
        experiment = design.experiment(signals)
        if experiment is not None:
            yield signals, experiment
            return
        signals = scaled(signals, 0.5)


def _information(experiment: Experiment, fit: Fit) -> Array:
    """The Fisher information of an experiment in memory, cut into segments as the recorded one."""
    recorded = fit.parts[0]
    trajectories = Trajectories(_measured_alike(experiment, recorded.experiment), recorded.trajectories.names)
    part = cut(trajectories, fit.values, recorded.experiment.duration / len(recorded.starts))
    J = slopes_of(part, fit.values, fit.noise[0], fit.sizes).J
    return np.asarray(J.T @ J)


def _measured_alike(experiment: Experiment, recorded: Experiment) -> Experiment:
    """The experiment with the channels of the recorded one, states or sensors, each read as often in a second.

    The readings are no readings of it, but information depends on where something is read, not on what.
    """
    share, channels = experiment.duration / recorded.duration, list[Channel]()
    for each in recorded.channels:
        rows = np.linspace(0, len(experiment.k) - 1, max(round(share * len(each.values)), 2)).round().astype(np.int64)
        channels.append(replace(each, row=rows, values=np.resize(each.values, len(rows))))
    return replace(experiment, channels=tuple(channels), observer=recorded.observer)


def _score(fit: Fit, new: Array) -> float:
    """log det of all information in units of the parameters' sizes; 1 is added, as if each were known to 100 %."""
    scaled_information = (fit.information + new) * np.outer(fit.sizes, fit.sizes) + np.eye(len(fit.sizes))
    return float(np.linalg.slogdet(scaled_information)[1])


def _deviations(fit: Fit, information: Array) -> Array:
    """The standard deviations of the parameters; infinite where they are not told."""
    s, V = np.linalg.eigh(information * np.outer(fit.sizes, fit.sizes))
    told = s > max(1.0, 1e-12 * s.max())
    lost = np.abs(V[:, ~told]).max(axis=1, initial=0.0) > 1e-3
    variances = np.sum(V[:, told] ** 2 / s[told], axis=1)
    return np.where(lost, np.inf, fit.sizes * np.sqrt(variances))


def _plain(goal: Any) -> bool:
    """Whether a goal is a number or an expression, to which sines can be added."""
    return isinstance(goal, str | int | float)


@dataclass(frozen=True)
class _Range:
    """How far the next experiment may go: each state (n_state,) from its start, and the kinetic energy [J]."""

    reach: Array
    kinetic: float

    @classmethod
    def of(cls, fit: Fit) -> "_Range":
        """Some times as far as the records, as the farthest state of the same unit, and as fast as they."""
        states = [each.trajectories.states(fit.values, each.segments, each.starts) for each in fit.parts]
        known = [x for x in states if x is not None]
        spans = np.max([np.ptp(x[:, :-1], axis=0) for x in known], axis=0)
        machine = fit.parts[0].trajectories.with_values(fit.values)
        units = [each.unit for each in machine.description.state]
        alike = [max(span for span, other in zip(spans, units, strict=True) if other == unit) for unit in units]
        kinetic = max(machine.energies(0.0, x[i])[0] for x in known for i in range(0, len(x), max(len(x) // 200, 1)))
        return cls(np.where(_is_rate(fit), np.inf, FURTHER * np.array(alike)), FURTHER * kinetic)

    def holds(self, machine: Machine, t: Array, states: Array, u: Array) -> bool:
        """Whether states (rows, n_state) stay within it and the machine's limits, without fault or warning."""
        if not np.isfinite(states).all() or np.any(np.abs(states - states[0]) > self.reach):
            return False
        limits = [each.limit or np.inf for each in machine.description.state]
        if np.any(np.abs(states) > limits):
            return False
        rows = zip(t.tolist(), np.column_stack([states, np.zeros(len(states))]), u, strict=True)
        return not any(
            machine.fault(time, x) or machine.energies(time, x)[0] > self.kinetic or machine.warnings(time, x, inputs)
            for time, x, inputs in rows
        )


def _is_rate(fit: Fit) -> Array:
    """Which states are velocities: their size is judged by the kinetic energy."""
    description = fit.parts[0].experiment.machine.description
    return np.array([each.name not in description.coordinates for each in description.state])


class _Inputs:
    """Inputs that the program open_loop gives. caps: the largest value of each signal by its name."""

    kind, fastest = "inputs", FASTEST[0]

    def __init__(self, closed_loop: ClosedLoop, fit: Fit) -> None:
        self._loop, self._fit = closed_loop, fit
        names, limits = closed_loop.machine.description.input_names, closed_loop.safety.limits.value
        largest = np.max([np.abs(each.experiment.u).max(axis=0) for each in fit.parts], axis=0)
        caps = [
            SHARE * limit if np.isfinite(limit) else float(used) for limit, used in zip(limits, largest, strict=True)
        ]
        self.caps = {name: cap for name, cap in zip(names, caps, strict=True) if cap > 0}
        if not self.caps:
            text = "no input has a limit, nor acted in the records, so it is unknown how far one may go"
            raise IdentificationError(f"{text}; give limits in [plant.safety]")
        launch = closed_loop.launch
        self._every = launch.steps_per_period or max(round(10_000_000 / launch.step_ns), 1)
        self._range = _Range.of(fit)

    def experiment(self, signals: Signals) -> Experiment | None:
        """The experiment that signals make; None where the machine leaves its limits."""
        loop, fit = self._loop, self._fit
        k = np.arange(0, loop.launch.steps + 1, self._every, dtype=np.int64)
        t = k * loop.launch.step_ns / 1e9
        columns = [
            signals[n].values(t) if n in signals else np.zeros(len(t)) for n in loop.machine.description.input_names
        ]
        empty = np.tile(loop.start[:-1], (len(k), 1))
        experiment = experiment_of_states("next", loop, k, empty, k, np.column_stack(columns))
        trajectories = Trajectories(experiment, fit.parts[0].trajectories.names)
        x = trajectories.states(fit.values, Segments((0, len(experiment.k) - 1)), empty[:1])
        u = experiment.u[np.minimum(np.arange(len(experiment.k)), len(experiment.u) - 1)]
        if x is None or not self._range.holds(trajectories.with_values(fit.values), experiment.t, x[:, :-1], u):
            return None
        return replace(experiment, guess=x[:, :-1])

    def texts(self, signals: Signals) -> dict[str, str]:
        return {name: each.text for name, each in signals.items()}

    def table(self, signals: Signals) -> dict[str, Any]:
        stated = stated_table(self._loop)
        kept = {"period": self._every * self._loop.launch.step_ns / 1e9}
        stated["controller"] = {"program": "open_loop", **kept, "settings": self.texts(signals)}
        return {name: each for name, each in stated.items() if name != "target"}


class _Goals:
    """Sines that are added to the goals of a law."""

    kind, fastest = "goals", FASTEST[1]

    def __init__(self, closed_loop: ClosedLoop, fit: Fit) -> None:
        self._loop, self._range = closed_loop, _Range.of(fit)
        self._values = dict(zip(fit.parts[0].trajectories.names, fit.values.tolist(), strict=True))
        self._goals = {name: each for name, each in closed_loop.launch.target.items() if _plain(each)}
        reach = self._range.reach[np.isfinite(self._range.reach) & (self._range.reach > 0)]
        span = float(np.median(reach)) / FURTHER if len(reach) else 1.0
        self.caps = dict.fromkeys(self._goals, GOAL_SHARE * span)

    def texts(self, signals: Signals) -> dict[str, str]:
        return {name: f"{self._goals[name]} + {each.text}" for name, each in signals.items()}

    def table(self, signals: Signals) -> dict[str, Any]:
        stated = stated_table(self._loop)
        return stated | {"target": stated["target"] | self.texts(signals)}

    def experiment(self, signals: Signals) -> Experiment | None:
        try:
            stated = self._loop.stated
            full = table_of(stated)
            full["target"] |= self.texts(signals)
            full["plant"]["parameters"] |= self._values
            launch = launch_of_table(full, (), name=stated.name, path=stated.path, file=stated.file)
            loop = resolve(launch, strict=False)
            run = simulate_fused(loop, launch.steps_per_period or 1)
        except ServonodeError:
            return None
        if run.fault is not None or any(share > 0 for share in run.limited_share.values()):
            return None
        found = experiment_of(run, "next")
        stays = self._range.holds(loop.machine, found.t, found.guess, found.u[-1:].repeat(len(found.k), 0))
        return found if stays else None


_Design = _Inputs | _Goals  # what signals act on


def stated_table(closed_loop: ClosedLoop) -> dict[str, Any]:
    """The launch file as a table, without what has its default."""
    launch = closed_loop.stated
    machine = to_builtins(launch.plant.machine)
    bare = {
        "run": {"duration": 1.0},
        "plant": {"machine": machine},
        "controller": {"program": "open_loop"},
    }
    more = {name: unset for name, each in launch.more.items() if (unset := defaults(type(each))) is not None}
    found = _differing(table_of(launch), table_of(structs.replace(launch_of_table(bare), more=more)))
    found["run"] = {"duration": launch.run.duration} | found.get("run", {})
    found["plant"] = {"machine": machine} | found.get("plant", {})
    return found


def _differing(table: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """The entries that differ from the defaults."""
    found = {}
    for name, value in table.items():
        default = defaults.get(name)
        if isinstance(value, dict):
            inner = _differing(value, default if isinstance(default, dict) else {})
            if inner:
                found[name] = inner
        elif name not in defaults or value != default:
            found[name] = value
    return found


HEAD = "# Watch for: an experiment for servonode identify; {what}.\n"
WHAT = {"inputs": "the inputs are sums of sines", "goals": "sums of sines are added to the goals"}


def write_next(proposed: NextExperiment, closed_loop: ClosedLoop, file: Path) -> None:
    """Write the launch file.

    Raises:
        IdentificationError: the file is there; OSError: it cannot be written.
    """
    if file.exists():
        raise IdentificationError(f"{file}: the file exists already; name another file, or remove it")
    table = dict(proposed.table)
    folder = closed_loop.launch.path.parent
    for section, key in (("plant", "machine"), ("controller", "program")):
        table[section] = _moved(table.get(section, {}), key, folder, file.parent)
    table = {name: each for name, each in table.items() if each}
    file.write_text(HEAD.format(what=WHAT[proposed.kind]) + table_text(table), "utf-8")


def _moved(section: dict[str, Any], key: str, folder: Path, to: Path) -> dict[str, Any]:
    """The section with a reference to a Python file as seen from another folder."""
    stated = str(section.get(key, ""))  # a machine may be a table
    path, colon, name = stated.partition(":")
    if not path.endswith(".py") or Path(path).is_absolute():
        return section
    seen = os.path.relpath((folder / path).resolve(), to.resolve())
    return section | {key: f"{seen if seen.startswith('.') else f'./{seen}'}{colon}{name}"}
