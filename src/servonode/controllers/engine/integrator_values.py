"""Values of an extension's integrators that fit the machine's state, where no command of theirs has led there.

A controller that begins within a run, after a restart, has lost them; while no command acts, the machine moves without
them. They are states of the law alone: what a state tells of them is how derivatives of the residuals depend on them,
and these should vanish.
"""

from collections.abc import Callable

import numpy as np

from servonode.arrays import Array

ITERATIONS, HALVINGS, DIFFERENCE, SOLVED = 30, 40, 1e-6, 1e-12
GAINED = 1e-9  # share of the derivatives' norm; an iteration that gains less ends it: the rest is noise of differences
UNDETERMINED = 1e-9  # share of the largest singular value below which a direction stays as it is


def fitted(derivatives: Callable[[Array], Array], integrators: Array) -> Array:
    """The integrators with the least sum of squares of derivatives of the residuals, which are functions of them.

    The method of Gauss and Newton begins at those given. What no derivative determines at this state keeps its value,
    and all of them do where the derivatives are not finite.
    """
    with np.errstate(all="ignore"):
        found = _least(derivatives, integrators.copy())
    return integrators if found is None else found


def _least(function: Callable[[Array], Array], z: Array) -> Array | None:
    """Where |function(z)| is least near z; None where it is not finite on the way."""
    f = function(z)
    for _ in range(ITERATIONS):
        size = DIFFERENCE * np.maximum(1.0, np.abs(z))
        slope = np.array([function(z + step) - function(z - step) for step in np.diag(size)]).T / 2  # by units of size
        if not (np.isfinite(f).all() and np.isfinite(slope).all()):
            return None
        lengths = np.linalg.norm(slope, axis=0)
        lengths[lengths == 0.0] = 1.0
        move = size / lengths * np.linalg.lstsq(slope / lengths, -f, rcond=UNDETERMINED)[0]
        for _ in range(HALVINGS):
            after = function(z + move)
            if np.linalg.norm(after) <= np.linalg.norm(f):
                break
            move = move / 2
        else:
            return z
        gained = np.linalg.norm(f) - np.linalg.norm(after)
        enough = GAINED * np.linalg.norm(f)
        z, f = z + move, after
        if gained <= enough or np.all(np.abs(move) <= SOLVED * np.maximum(1.0, np.abs(z))):
            return z
    return z
