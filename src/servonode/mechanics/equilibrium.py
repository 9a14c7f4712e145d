"""Where a system x' = F(x) rests near a state, and on which of its states no other one depends."""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.mechanics.machine import Machine

_STEPS = 60
CLOSED = 1e-12  # of what is held, in its unit and over its slopes
_DIFFERENCE = 1e-7
Entries = list[int] | npt.NDArray[np.signedinteger[Any]]
Slope = Callable[[], Array]
Values = Callable[[Array], tuple[Array, Slope] | None]  # what is to vanish at x, and how it changes with the entries
ITERATIONS, STALLED = 50, 8
EXACT, SOLVED = 1e-11, 1e-9  # the largest value at which Newton's method ends, and that it may stall at
STUCK = 1e-12  # share of the largest singular value below which a direction is left alone
DEPENDS = 1e-7  # a derivative above this is no rounding, relative to the rate where that is above 1
SEED, STATES, BESIDE = 1, 3, 0.05  # random states at which dependence is looked for (m, rad, m/s, rad/s)


def zero_near(
    values: Values, x: Array, entries: Entries, longest: float = np.inf, stuck: float = STUCK
) -> Array | None:
    """The x at which values vanish, different from that given in these entries; None: no such is found.

    Newton's method with steps of least size, none of them beyond `longest`; where `values` gives None it ends.
    A direction whose singular value is below this share, `stuck`, of the largest one is left alone.
    """
    x, sizes = x.copy(), list[float]()
    for _ in range(ITERATIONS):
        found = values(x)
        if found is None or not np.isfinite(found[0]).all():
            return None
        sizes.append(float(np.abs(found[0]).max(initial=0.0)))
        if sizes[-1] < EXACT * (1 + np.abs(x).max(initial=0.0)):
            return x
        if len(sizes) > STALLED and sizes[-1] > min(sizes[:-STALLED]) / 2:
            break
        slope = found[1]()
        if not np.isfinite(slope).all():
            return None
        step = np.linalg.lstsq(slope, -found[0], rcond=stuck)[0]
        x[entries] += step * min(1.0, longest / max(float(np.abs(step).max(initial=0.0)), STUCK))
    return x if sizes[-1] < SOLVED else None


def nearby_states(x: Array) -> list[Array]:
    """Random states near x at which dependence is looked for."""
    rng = np.random.default_rng(SEED)
    return [x + rng.uniform(-BESIDE, BESIDE, len(x)) for _ in range(STATES)]


def passive(linearised: Callable[[Array], tuple[Array, Array]], x: Array, candidates: Collection[int]) -> list[int]:
    """Those of the candidates on which no rate depends but those of others like them: places, angles of wheels.

    linearised: F (n,) and dF/dx (n, n) at a state.
    """
    found = [linearised(each) for each in nearby_states(x)]
    depends = np.any([np.abs(slope) > DEPENDS * (1 + np.abs(rates[:, None])) for rates, slope in found], axis=0)
    result: set[int] = set()
    while new := {j for j in candidates if j not in result and set(np.flatnonzero(depends[:, j])) <= result}:
        result |= new
    return sorted(result)


def closed(machine: Machine, t: float, x: Array) -> Array | None:
    """A new kernel state on what the machine holds, its independent coordinates those of x; None: none is found.

    Steps that do not come nearer are halved. Which of several ways of closing the loops is found depends on where the
    dependent coordinates begin.
    """
    names = machine.description
    free = [names.state_names.index(q) for q in names.coordinates if q not in names.independent]
    x, missed = x.copy(), machine.position_residual(t, x)
    for _ in range(_STEPS):
        slopes = np.array([_slope(machine, t, x, missed, j) for j in free]).T
        change, *_ = np.linalg.lstsq(slopes, -missed, rcond=None)
        if np.abs(change).max() <= CLOSED * (1.0 + np.abs(x[free]).max()):
            return x if np.abs(missed).max() <= CLOSED * (1.0 + np.abs(slopes).max()) else None
        for _ in range(20):
            tried = x.copy()
            tried[free] += change
            left = machine.position_residual(t, tried)
            if np.linalg.norm(left) < np.linalg.norm(missed):
                break
            change = change / 2
        else:
            return x if np.abs(missed).max() <= CLOSED * (1.0 + np.abs(slopes).max()) else None
        x, missed = tried, left
    return None


def _slope(machine: Machine, t: float, x: Array, missed: Array, j: int) -> Array:
    moved = x.copy()
    moved[j] += _DIFFERENCE
    slope: Array = (machine.position_residual(t, moved) - missed) / (moved[j] - x[j])
    return slope
