"""Whether runs of a variation reach their goal, and why not: by the criterion of `closed_loop/goal_reached.py`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import sched_getaffinity
from typing import Self

import numpy as np

from servonode.analysis.goal_speed import check_speed
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.goal_reached import LIMITED_SHARE, LOOKS, ROUNDING, Explained, Late, goal_amplitudes, missed
from servonode.closed_loop.launch_error import naming_file
from servonode.closed_loop.launch_file import GOAL_SPEED
from servonode.closed_loop.variation import Variation
from servonode.definitions.progress import task
from servonode.errors import StatementError
from servonode.record.run import default_every
from servonode.simulation.simulate import simulate_fused
from servonode.wings.explore.sweeps.chunk import Chunk, Ended, run_chunk
from servonode.wings.explore.sweeps.measures import ColumnMeasure, Measures

REACHED, KEEPS_ALL = "reaches the goal", "keeps all"
DO = {REACHED: "reach the goal", KEEPS_ALL: "keep all"}  # of runs
KEPT = "kept"  # a requirement in place of the goal: all that the law keeps
BOUND = re.compile(
    r"(?:(?P<name>[^:]*):)?\s*(?P<measure>.+?)\s*(?P<sign>[<>])\s*(?P<bound>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
)
DURATION = "run.duration"
AT_LIMIT = 1 - 1e-9  # share of a limit from which on an input is at it, as `goal_reached.at_limit` has it
LONGEST = 70  # characters of a reason
SLICE = 5000  # runs whose measures are kept at once


def is_random(loop: ClosedLoop) -> bool:
    """Whether runs with other seeds differ: by noise or losses of the state, or of the readings of sensors."""
    readings = [each.description for each in loop.sensing.effects] if loop.sensing else []
    return bool(any(loop.sensor.noise) or loop.sensor.drop or any(each.noise or each.drop for each in readings))


@dataclass(frozen=True)
class Requirement:
    """What a run must keep besides reaching its goal: a measure, such as max(abs(phi)), below or above a bound."""

    broken: str  # what a run does that does not keep it
    measure: str
    above: bool
    bound: float

    @classmethod
    def of(cls, text: str) -> Self:
        """The requirement "EXPRESSION < NUMBER" (or > NUMBER), before which the name of its breach may stand: "NAME: ".

        Raises:
            StatementError: it is not one.
        """
        found = BOUND.fullmatch(text)
        if found is None:
            remedy = f'give MEASURE < NUMBER or MEASURE > NUMBER, such as "max(abs(phi)) < 1.5", or "{KEPT}"'
            raise StatementError(f"{text!r} is not a requirement; {remedy}")
        breach = f"{found['measure']} {'≤' if found['sign'] == '>' else '≥'} {found['bound']}"
        name = (found["name"] or "").strip()
        return cls(name or breach, found["measure"], found["sign"] == ">", float(found["bound"]))

    def kept(self, value: float) -> bool:
        """Whether a run with this value of the measure keeps it; what nobody knows does not."""
        return value > self.bound if self.above else value < self.bound


class Judge:
    """Tells of each run of a variation whether it reaches its goal, and why not.

    The goal's own size is that of the launch file's run. A run that is still converging at its end does not reach it.
    """

    def __init__(
        self,
        variation: Variation,
        requirements: Sequence[str] = (),
        threads: int | None = None,
        stated: Mapping[str, str] = {},
    ) -> None:
        """The judge of runs that keep the requirements; stated: what else is measured of them, by name.

        With KEPT among them a run need not reach its goal.

        Raises:
            StatementError: a requirement or the number of threads cannot be, run.duration varies, or there is no goal.
            LaunchError: the speed of a goal that stands still varies.
        """
        if DURATION in variation.keys:
            text = f"{DURATION} is no key of runs that are judged: whether a goal is reached is asked of one duration"
            raise StatementError(f"{text}; load the launch file with another one, or vary it by servonode sweep")
        if isinstance(requirements, str):
            raise StatementError(f"require = {requirements!r} is one text; give a list of texts, [{requirements!r}]")
        if threads is not None and threads < 1:
            raise StatementError(f"threads = {threads} is less than 1; give the number of threads")
        self.variation, self.threads = variation, threads or len(sched_getaffinity(0))
        self.requirements = [Requirement.of(each) for each in requirements if each != KEPT]
        self.loop, self.good = variation.base, KEEPS_ALL if KEPT in requirements else REACHED
        _check_goal(self.loop, self.requirements, KEPT in requirements)
        if GOAL_SPEED in variation.keys:
            with naming_file(self.loop.launch.file):
                check_speed(self.loop, *GOAL_SPEED.split("."))
        control = self.loop.control
        self.residuals = [each.name for each in control.law.description.residuals] if control else []
        self.amplitudes = dict(zip(self.residuals, _amplitudes(self.loop), strict=True))
        names = self.loop.machine.description.input_names
        limits = zip(names, self.loop.safety.limits.value, strict=True)
        self.limited = {name: limit for name, limit in limits if np.isfinite(limit)}
        self.measures = Measures(variation, {**self._stated(), **stated})

    def _stated(self) -> dict[str, str | ColumnMeasure]:
        """The measures of which the criterion is made."""
        end, step = self.loop.launch.duration_ns / 1e9, self.loop.launch.step_ns / 1e9
        half, last = (share * end - step / 2 for share in (0.5, 0.75))
        found: dict[str, str | ColumnMeasure] = {}
        for name in self.residuals:
            column = f"residual_{name}"
            found[f"early_{name}"] = _largest(column, 0.0, end / 4)
            found[f"before_{name}"] = _largest(column, half, last)
            found[f"late_{name}"] = _largest(column, last, np.inf)
        for name, limit in self.limited.items():
            found[f"limited_{name}"] = _share_at_limit(name, limit, 0.0)
            found[f"limited_late_{name}"] = _share_at_limit(name, limit, half)
        return found | {f"require_{i}": each.measure for i, each in enumerate(self.requirements, 1)}

    def run(self, values: Array) -> Chunk:
        """The runs at these values (n, n_keys)."""
        return run_chunk(self.variation, values, self.measures, self.threads)

    def reasons(self, values: Array) -> list[str]:
        """For each of these values (n, n_keys) why its run does not reach the goal; empty: it does.

        Of a slice of runs nothing but that is kept when the next one begins: a million runs need no more memory.
        """
        slices = (values[first : first + SLICE] for first in range(0, len(values), SLICE))
        return [reason for part in slices for reason in self.judged(self.run(part))]

    def judged(self, chunk: Chunk) -> list[str]:
        """For each run of a chunk why it does not reach the goal; empty: it does."""
        columns = {name: chunk.measures[name] for name in self._stated()}
        columns |= self._limited_before_faults(chunk)
        rows = ({name: float(values[i]) for name, values in columns.items()} for i in range(len(chunk.values)))
        return [self._reason(ended, row) for ended, row in zip(chunk.ended, rows, strict=True)]

    def _limited_before_faults(self, chunk: Chunk) -> dict[str, Array]:
        """The shares of the time at limits, which runs that faults ended have from the same runs until just before."""
        stated = {name: each for name, each in self._stated().items() if name.startswith("limited_")}
        step = self.loop.launch.step_ns / 1e9
        ends = np.round(chunk.measures["fault_time"] / step - 1) * step
        ended = np.flatnonzero(ends > 0)
        if not stated or not len(ended):
            return {}
        task().more(len(ended))
        until = Variation(self.loop, [*self.variation.keys, DURATION])
        values = np.column_stack([chunk.values[ended], ends[ended]])
        found = run_chunk(until, values, Measures(until, stated), self.threads).measures
        columns = {name: chunk.measures[name].copy() for name in stated}
        for name, column in columns.items():
            column[ended] = found[name]
        return columns

    def _reason(self, ended: Ended | None, row: Mapping[str, float]) -> str:
        at_limit = [name for name in self.limited if row[f"limited_{name}"] > LIMITED_SHARE]
        if ended:
            return _with_limits(_shortened(ended), at_limit)
        late = max((row[f"limited_late_{name}"] for name in self.limited), default=0.0)
        asked = self.residuals if self.good == REACHED else []
        found = [self._missed(name, row, 2 * late > LIMITED_SHARE) for name in asked]
        if any(found):
            kinds = dict.fromkeys(each for each in found if each)
            names = [name for name, each in zip(asked, found, strict=True) if each]
            return _with_limits(f"{', '.join(names)} {' or '.join(kinds)}", at_limit)
        broken = [each.broken for i, each in enumerate(self.requirements, 1) if not each.kept(row[f"require_{i}"])]
        return _with_limits(broken[0], at_limit) if broken else ""

    def _missed(self, name: str, row: Mapping[str, float], limited: bool) -> str:
        """In which way this residual misses its goal; empty: it does not, or its goal has no size of its own."""
        late, amplitude = Late(row[f"late_{name}"], row[f"before_{name}"]), self.amplitudes[name]
        first = row[f"early_{name}"]  # an initial velocity may lead away from a goal on which the run begins
        if max(first, amplitude) <= ROUNDING or not missed(Late(late.last, 0.0), first, amplitude, limited, NOTHING):
            return ""
        return "still converging" if late.converging and not limited else "missed"


NOTHING = Explained()


def _check_goal(loop: ClosedLoop, requirements: Sequence[Requirement], kept: bool) -> None:
    """Refuse a closed loop with nothing to reach, or to keep where that is asked.

    Raises:
        StatementError: that is so.
    """
    loop.check_known_goals()
    if kept and not (loop.control and loop.control.law.description.keeping):
        text = f"{loop.launch.file} keeps nothing, so that {KEPT!r} asks for nothing; give [controller.keep]"
        raise StatementError(f'{text}, or another requirement, such as "max(abs(NAME)) < 1"')
    if not kept and not requirements and (loop.control is None or not loop.control.law.description.residuals):
        what = "no [controller]" if loop.control is None else "a program without residuals"
        remedy = 'say what a run must keep, as --require "max(abs(NAME)) < 1" (require=[...])'
        raise StatementError(f"{loop.launch.file} has {what}, so there is no goal to reach; {remedy}")


def _amplitudes(loop: ClosedLoop) -> list[float]:
    """How far the goal of each residual moves over the run; empty without a controller."""
    if loop.control is None:
        return []
    if loop.control.law.description.states:
        run = simulate_fused(loop, default_every(loop))
        found = goal_amplitudes(loop, run.t, run.program_state)
    else:
        found = goal_amplitudes(loop, np.linspace(0.0, loop.launch.duration_ns / 1e9, LOOKS), {})
    return [float(each) for each in found]


def _largest(column: str, since: float, until: float) -> ColumnMeasure:
    """The largest magnitude of a column between two times [s]."""
    return ColumnMeasure("max", column, lambda values, t: np.where((since <= t) & (t <= until), np.abs(values), 0.0))


def _share_at_limit(name: str, limit: float, since: float) -> ColumnMeasure:
    """The share of the run's time for which, from a time [s] on, an input is at its limit."""
    least = AT_LIMIT * max(limit, ROUNDING)
    return ColumnMeasure("mean", name, lambda values, t: ((np.abs(values) > least) & (since <= t)).astype(float))


def _shortened(ended: Ended) -> str:
    """A reason by its beginning, without what differs from run to run; of a refusal what is refused."""
    if ended.section == "plant.parameters":
        return "refused: no such machine"
    if ended.key:
        return f"refused: {ended.key}"
    text = ended.text.removeprefix("at the initial state ")
    if text.startswith("keep "):
        return f"{text.partition(':')[0]} is violated"
    head = re.split(r"[:;]|, (?=[a-z])| \((?=[A-Za-z])| at t = ", text, maxsplit=1)[0].strip()
    return head if len(head) <= LONGEST else f"{head[: LONGEST - 1].rstrip()}…"


def _with_limits(reason: str, names: Sequence[str]) -> str:
    return f"{reason}; {', '.join(names)} at the limit" if names else reason
