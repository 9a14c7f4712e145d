"""The moments of a recording, stamped with the wall clock."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.record.bag import Bag
from servonode.record.run import Run
from servonode.record.typed import EVENTS
from servonode.record.write import BagError
from servonode.simulation.replay import GOALS_SENT, STATES
from servonode.simulation.rows_of_messages import runs_in
from servonode.wings.neighbours.moments import Happened, Moment, Moments

RATE = 100.0  # Hz of plant time, at most


def moments_of_bag(bag: Bag, closed_loop: ClosedLoop, rate: float = RATE, paced: bool = True) -> Iterator[Moment]:
    """The moments of a recording's last run, at most `rate` [Hz] of its rows, and the last one.

    paced: whether in lockstep, which has no clock, one second of plant time is one of the wall clock; else stamps are
    those of the states there too.

    Raises BagError where it holds no rows and no states.
    """
    run, told = runs_in(bag, closed_loop)[-1], _Told.of(bag, closed_loop)
    stamps = _stamps(bag, run, told.states, paced and closed_loop.launch.run.mode == "lockstep")
    columns = _columns(closed_loop, run, told)
    events, happened, moments = told.events, Happened(), Moments(closed_loop)
    for i in _chosen(run.t, rate):
        while events and events[0]["t"] <= run.t[i]:
            happened.take(events.pop(0))
        row = {name: float(column[i]) for name, column in columns.items()}
        yield moments.moment(row, int(stamps[i]), happened.lifecycle, happened.fault, happened.lines())


def _chosen(t: Array, rate: float) -> npt.NDArray[np.intp]:
    """The first row of each period of the rate, and the last row."""
    periods = np.floor((t - t[0]) * rate * (1 + 1e-9))
    return np.unique(np.append(np.flatnonzero(np.diff(periods, prepend=-1.0)), len(t) - 1))


@dataclass
class _Told:
    """What the messages of a recording's last run say that its rows do not.

    states: plant time [s] and sender's clock [ns] of each, (2, n), in the order of time. targets: step and values of
    the goals from outside, as they were published. events: in their order.
    """

    states: Array
    targets: list[tuple[int, list[float]]]
    events: list[Mapping[str, Any]]

    @classmethod
    def of(cls, bag: Bag, closed_loop: ClosedLoop) -> Self:
        """All that is told; BagError if there are no states."""
        names = [each.name for each in closed_loop.live]
        states: list[tuple[int, float, int]] = []
        targets: list[tuple[int, int, list[float]]] = []
        events: list[tuple[int, Mapping[str, Any]]] = []
        for mono, topic, message in bag.messages((STATES, EVENTS, *([GOALS_SENT] if names else []))):
            if topic == STATES:
                states.append((message["run"], message["t"], mono))
            elif topic == EVENTS:
                events.append((mono, message))
            else:
                values = [message["target"].get(name, np.nan) for name in names]
                targets.append((message["run"], message["k"], values))
        if not states:
            raise BagError(f"{bag.file}: holds no {STATES}, which tell when its rows were; record a run with its plant")
        last = states[-1][0]
        newest = np.array([(t, mono) for run, t, mono in states if run == last], float)
        before = max((mono for run, _, mono in states if run != last), default=-np.inf)
        return cls(
            newest[np.argsort(newest[:, 0], kind="stable")].T,
            [(k, values) for run, k, values in targets if run == last],
            [event for mono, event in events if mono > before],
        )


def _stamps(bag: Bag, run: Run, states: Array, by_plant_time: bool) -> npt.NDArray[np.int64]:
    """The wall clock [ns] at each row, never decreasing; or the first state's plus plant time."""
    t, mono = states
    first = int(mono[0]) + bag.wall_less_mono
    since = (run.t - t[0]) * 1e9 if by_plant_time else np.interp(run.t, t, mono - mono[0])
    stamps: npt.NDArray[np.int64] = np.maximum.accumulate(first + np.rint(since).astype(np.int64))
    return stamps


def _columns(closed_loop: ClosedLoop, run: Run, told: _Told) -> dict[str, Array]:
    """The columns that a moment is made of."""
    residuals = {f"residual_{name}": column for name, column in run.residual.items()}
    targets = {
        f"target_{name}": column for name, column in (run.targets | _live_targets(closed_loop, run, told)).items()
    }
    return {"t": run.t, **run.state, **run.input, **residuals, **run.kept, **targets}


def _live_targets(closed_loop: ClosedLoop, run: Run, told: _Told) -> dict[str, Array]:
    """The targets from outside at each row, as they were published; NaN before the first."""
    steps = np.array([k for k, _ in told.targets], int)
    rows = np.searchsorted(steps, np.rint(run.goal_t * 1e9 / closed_loop.launch.step_ns), side="right")
    table = np.array([[np.nan] * len(closed_loop.live), *(values for _, values in told.targets)])
    return {each.name: table[rows, j] for j, each in enumerate(closed_loop.live)}
