"""Whether a goal is reached: the criterion on a run's late residuals, and the goal's own size."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop

Columns = dict[str, Array]
MISSED = 100.0  # times the residual that the zero-order hold explains: more than that at the end is a goal not reached
BAND = 3.0  # standard deviations of noise, or of what an estimator knows of a residual, that it may be
LOOKS = 200  # rows of the run at which the motion of the goal is looked at
LIMITED_SHARE = 0.01  # of the second half of the run at a limit, from which on the limit explains a late residual
BEHIND = 0.1  # share of the goal's own size that a late residual may be
CONVERGING = 0.9  # of the residual a quarter of the run earlier: below this it is still decaying
ROUNDING = 1e-6


def at_limit(values: Array, limit: float) -> npt.NDArray[np.bool_]:
    """Where an input is at its limit."""
    result: npt.NDArray[np.bool_] = np.abs(values) >= limit * (1 - 1e-9)
    return result


def limited_share(closed_loop: "ClosedLoop", inputs: Columns, rows: slice) -> dict[str, float]:
    """The share of these rows at which each input is at its limit, of those that have one."""
    limits = closed_loop.safety.limits.value
    at = {
        name: at_limit(inputs[name][rows], limit)
        for name, limit in zip(closed_loop.machine.description.input_names, limits, strict=True)
        if np.isfinite(limit)
    }
    return {name: float(np.mean(each)) if len(each) else 0.0 for name, each in at.items()}


def limited_late(closed_loop: "ClosedLoop", inputs: Columns, rows: int) -> float:
    """The share of the second half of this many rows for which an input is at its limit."""
    return max(limited_share(closed_loop, inputs, slice(rows // 2, None)).values(), default=0.0)


@dataclass(frozen=True)
class Late:
    """The largest residual in the last quarter of the run and in the one before; 0 where none is known."""

    last: float
    before: float

    @classmethod
    def of(cls, values: Array) -> "Late":
        quarter = max(len(values) // 4, 1)
        last, before = np.abs(values[-quarter:]), np.abs(values[-2 * quarter : -quarter])
        return cls(float(np.nanmax(last, initial=0.0)), float(np.nanmax(before, initial=0.0)))

    @property
    def converging(self) -> bool:
        return self.last < CONVERGING * self.before


@dataclass(frozen=True)
class Explained:
    """What a residual may be without a fault of the goal: by zero-order hold, by noise, by what an estimator knows."""

    held: float = 0.0
    noise: float = 0.0
    estimated: float = 0.0


def missed(late: Late, first: float, amplitude: float, limited: bool, explained: Explained) -> str:
    """How far the goal is missed; empty where it is reached, or the residual still decays.

    The size of a goal that moves is its amplitude alone, however far away the run begins; that of a constant one is the
    initial residual. The residual of the zero-order hold is allowed for only while the goal is constant: a goal that
    moves too fast for the period is not reached.
    """
    moves = amplitude > ROUNDING
    size = amplitude if moves else first
    allowed = max(BAND * explained.noise, explained.estimated, ROUNDING, 0.0 if moves else BAND * explained.held)
    if late.last <= allowed or (late.converging and not limited):
        return ""
    # of a constant goal on which the run begins, so that it has no size
    unsized = max(MISSED * (explained.held + explained.noise), explained.estimated)
    if late.last <= size * BEHIND or (size <= ROUNDING and late.last <= unsized):
        return ""
    share = f", {late.last / size:.2g} of the goal's own size {size:.3g}" if size > ROUNDING else ""
    return f"the residual is still {late.last:.3g} in the last quarter of the run{share}"


def goal_amplitudes(closed_loop: "ClosedLoop", t: Array, own: Columns) -> Array:
    """How far each residual's goal moves over goal times t [s]: half of the way between its extremes.

    It is looked at as the residual at the machine's initial state, while time, targets and own states are the run's.
    """
    law, values = closed_loop.known_control.law, []
    if law.description.own:  # its residuals at other states are not known
        return np.zeros(law.n_s)
    for i in range(0, len(t), max(1, len(t) // LOOKS)):
        goal = closed_loop.goal(float(t[i]), np.array([each[i] for each in own.values()]))
        values.append(law.evaluate(float(t[i]), closed_loop.start, goal).residuals.copy())
    table = np.array(values).reshape(len(values), law.n_s)
    table = table[np.isfinite(table).all(axis=1)]
    if not len(table):
        return np.zeros(law.n_s)
    result: Array = np.ptp(table, axis=0) / 2
    return result
