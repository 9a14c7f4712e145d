"""The moments of a recording, stamped with the wall clock."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.neighbours.happened import Happened
from servonode.neighbours.moments import Moment, Moments
from servonode.record.bag import Bag
from servonode.record.events import EVENTS
from servonode.record.run import Run
from servonode.record.write import BagError
from servonode.simulation.replay import GOALS_SENT, STATES
from servonode.simulation.rows_of_messages import runs_in

RATE = 100.0  # Hz of plant time, at most


def moments_of_bag(bag: Bag, closed_loop: ClosedLoop, rate: float = RATE) -> Iterator[Moment]:
    """The moments of a recording's last run, at most `rate` [Hz] of its rows, and the last one.

    In lockstep, which has no clock, one second of plant time is one of the wall clock.

    Raises BagError where it holds no rows and no states.
    """
    run = runs_in(bag, closed_loop)[-1]
    states, since = _states(bag)
    stamps = _stamps(bag, closed_loop, run, states)
    columns = _columns(bag, closed_loop, run)
    events, happened, moments = _events(bag, since), Happened(), Moments(closed_loop)
    for i in _chosen(run.t, rate):
        while events and events[0]["t"] <= run.t[i]:
            happened.take(events.pop(0))
        row = {name: float(column[i]) for name, column in columns.items()}
        yield moments.moment(row, int(stamps[i]), happened.lifecycle, happened.fault, happened.lines())


def _chosen(t: Array, rate: float) -> npt.NDArray[np.intp]:
    """The first row of each period of the rate, and the last row."""
    periods = np.floor((t - t[0]) * rate * (1 + 1e-9))
    return np.unique(np.append(np.flatnonzero(np.diff(periods, prepend=-1.0)), len(t) - 1))


def _states(bag: Bag) -> tuple[Array, float]:
    """Plant time [s] and sender's clock [ns] of the states of the last run, (2, n); when a run before it ended [ns]."""
    found = [(message["run"], message["t"], mono) for mono, _, message in bag.messages((STATES,))]
    if not found:
        raise BagError(f"{bag.file}: holds no {STATES}, which tell when its rows were; record a run with its plant")
    newest = np.array([(t, mono) for run, t, mono in found if run == found[-1][0]], float)
    before = max((mono for run, _, mono in found if run != found[-1][0]), default=-np.inf)
    return newest[np.argsort(newest[:, 0], kind="stable")].T, before


def _stamps(bag: Bag, closed_loop: ClosedLoop, run: Run, states: Array) -> npt.NDArray[np.int64]:
    """The wall clock [ns] at each row, never decreasing."""
    t, mono = states
    first = int(mono[0]) + bag.wall_less_mono
    if closed_loop.launch.run.mode == "lockstep":
        since = (run.t - t[0]) * 1e9
    else:
        since = np.interp(run.t, t, mono - mono[0])
    stamps: npt.NDArray[np.int64] = np.maximum.accumulate(first + np.rint(since).astype(np.int64))
    return stamps


def _columns(bag: Bag, closed_loop: ClosedLoop, run: Run) -> dict[str, Array]:
    """The columns that a moment is made of."""
    residuals = {f"residual_{name}": column for name, column in run.residual.items()}
    targets = {
        f"target_{name}": column for name, column in (run.targets | _live_targets(bag, closed_loop, run)).items()
    }
    return {"t": run.t, **run.state, **run.input, **residuals, **targets}


def _live_targets(bag: Bag, closed_loop: ClosedLoop, run: Run) -> dict[str, Array]:
    """The targets from outside at each row, as they were published; NaN before the first."""
    names = [each.name for each in closed_loop.live]
    published = [message for _, _, message in bag.messages((GOALS_SENT,))] if names else []
    published = [each for each in published if each["run"] == published[-1]["run"]]
    steps = np.array([each["k"] for each in published], int)
    rows = np.searchsorted(steps, np.rint(run.goal_t * 1e9 / closed_loop.launch.step_ns), side="right") - 1
    table = {name: np.array([np.nan, *(each["target"].get(name, np.nan) for each in published)]) for name in names}
    return {name: column[rows + 1] for name, column in table.items()}


def _events(bag: Bag, since: float) -> list[Mapping[str, Any]]:
    """The events after a time [ns] of their senders' clock, in their order."""
    return [message for mono, _, message in bag.messages((EVENTS,)) if mono > since]
