"""The initial condition of closed loops: the dependent coordinates by Newton's method, the independent ones kept."""

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.machine import Machine

ITERATIONS = 60
CLOSED = 1e-12  # of what is held, in its unit and over its slopes
_DIFFERENCE = 1e-7


def closed(machine: Machine, t: float, x: Array) -> Array | None:
    """A new kernel state on what the machine holds, its independent coordinates those of x; None: none is found.

    Steps that do not come nearer are halved. Which of several ways of closing the loops is found depends on where the
    dependent coordinates begin.
    """
    names = machine.description
    free = [names.state_names.index(q) for q in names.coordinates if q not in names.independent]
    x, missed = x.copy(), machine.position_residual(t, x)
    for _ in range(ITERATIONS):
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
