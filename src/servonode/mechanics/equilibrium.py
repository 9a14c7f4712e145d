"""Where a system x' = F(x) rests near a state, and on which of its states no other one depends."""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array

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


def states_beside(x: Array) -> list[Array]:
    """Random states near x at which dependence is looked for."""
    rng = np.random.default_rng(SEED)
    return [x + rng.uniform(-BESIDE, BESIDE, len(x)) for _ in range(STATES)]


def passive(linearised: Callable[[Array], tuple[Array, Array]], x: Array, candidates: Collection[int]) -> list[int]:
    """Those of the candidates on which no rate depends but those of others like them: places, angles of wheels.

    linearised: F (n,) and dF/dx (n, n) at a state.
    """
    found = [linearised(each) for each in states_beside(x)]
    depends = np.any([np.abs(slope) > DEPENDS * (1 + np.abs(rates[:, None])) for rates, slope in found], axis=0)
    result: set[int] = set()
    while new := {j for j in candidates if j not in result and set(np.flatnonzero(depends[:, j])) <= result}:
        result |= new
    return sorted(result)
