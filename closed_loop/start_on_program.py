"""The start on the program: states that the launch file leaves open are chosen so that all residuals vanish."""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from servonode.controllers import ServoLaw
from servonode.errors import ServonodeError

Array = npt.NDArray[np.float64]
ITERATIONS, TOLERANCE, DIFFERENCE = 50, 1e-13, 1e-6


class NoStart(ServonodeError, ValueError):
    """No start on the program was found; the text says how near it came."""


def start_on_program(law: ServoLaw, start: Array, goal: Array, given: Collection[str]) -> Array:
    """The start nearest to `start` with f = 0, and f' = 0 for residuals of relative degree 2, at t = 0.

    Only states not in `given` move (Gauss-Newton with the smallest step). The work entry stays.

    Raises:
        NoStart: the residuals do not vanish within the given states.
    """
    names = law.machine.description.state_names
    free = [i for i, name in enumerate(names) if name not in given]
    x = start.copy()
    for _ in range(ITERATIONS):
        f = _residuals(law, x, goal)
        if np.max(np.abs(f), initial=0.0) < TOLERANCE:
            return x
        slope = _slope(law, x, goal, free)
        if not (np.isfinite(f).all() and np.isfinite(slope).all()):
            raise NoStart(_not_finite(law, x, names, given))
        step, *_ = np.linalg.lstsq(slope, -f, rcond=1e-10)
        x[free] += step
    worst = float(np.max(np.abs(_residuals(law, x, goal))))
    if worst < 1e-9:
        return x
    raise NoStart(
        f"no start on the program was found with {', '.join(given) or 'nothing'} given "
        f"(the residuals come down to {worst:.2g}); give fewer states, or other values"
    )


def _not_finite(law: ServoLaw, x: Array, names: Collection[str], given: Collection[str]) -> str:
    at = ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, x, strict=False) if name not in given)
    residuals = ", ".join(each.name for each in law.description.residuals)
    return f"no start on the program was found: {residuals} or their slopes are not finite at {at}; give states near it"


def _residuals(law: ServoLaw, x: Array, goal: Array) -> Array:
    """f of all residuals, f' of those of relative degree 2, and what violates holonomic constraints."""
    answer = law.evaluate(0.0, x, goal)
    finite = [i for i, relative_degree in enumerate(law.description.relative_degrees) if relative_degree == 2]
    return np.concatenate([answer.residuals, answer.rates[finite], law.machine.position_residual(0.0, x)])


def _slope(law: ServoLaw, x: Array, goal: Array, free: list[int]) -> Array:
    """Derivative of the residuals by the free states, by central differences."""
    columns = []
    for i in free:
        ahead, behind = x.copy(), x.copy()
        ahead[i] += DIFFERENCE
        behind[i] -= DIFFERENCE
        columns.append((_residuals(law, ahead, goal) - _residuals(law, behind, goal)) / (2 * DIFFERENCE))
    return np.array(columns).T
