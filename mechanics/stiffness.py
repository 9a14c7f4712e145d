"""How fast a machine's own motion decays, beside what an explicit step can follow."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servonode.mechanics.integrate import INTEGRATORS, Tableau
from servonode.mechanics.machine import Machine
from servonode.mechanics.radau import DIFFERENCE

Array = npt.NDArray[np.float64]
_BISECTIONS = 40
_MOST = 4.0  # |z| beyond which no method of ours is stable
_GROWN = 1e-9  # of a factor: less is rounding


def slopes(machine: Machine, t: float, x: Array, u: Array) -> Array:
    """dx'/dx (n, n) at a kernel state under the inputs u, by differences."""
    base, columns = machine.derivatives(t, x, u), []
    for j in range(machine.n_state):
        moved = x.copy()
        moved[j] += DIFFERENCE * (abs(x[j]) + 1.0)
        columns.append((machine.derivatives(t, moved, u) - base)[:-1] / (moved[j] - x[j]))
    return np.array(columns).T.reshape(machine.n_state, machine.n_state)


@dataclass(frozen=True)
class Stiffness:
    """A motion that decays by itself, and grows under the steps of a method."""

    integrator: str
    step: float  # s
    size: float  # step times |eigenvalue|
    limit: float  # of this size, in the eigenvalue's direction

    def __str__(self) -> str:
        shorter = f"{0.9 * self.step * self.limit / self.size:.1g}"
        text = f"h |lambda| = {self.size:.3g}, {self.integrator} is stable up to {self.limit:.3g}"
        return f'{text}: plant.step = {shorter}, or plant.integrator = "radau" for stiff machines'


def stiffness(machine: Machine, integrator: str, step: float, t: float, x: Array, u: Array) -> Stiffness | None:
    """The worst motion that decays in the machine at this state and grows under steps [s] of an explicit method.

    None: no such motion, the method is implicit, or the machine has no finite slopes here.
    """
    tableau = INTEGRATORS.get(integrator)
    A = slopes(machine, t, x, u)
    if tableau is None or not np.isfinite(A).all():
        return None
    decaying = [complex(each) * step for each in np.linalg.eigvals(A) if each.real < 0]
    factor, z = max(
        ((abs(_factor(tableau, each)), each) for each in decaying), key=lambda each: each[0], default=(0, 0j)
    )
    if factor <= 1.0 + _GROWN:
        return None
    return Stiffness(integrator, step, abs(z), _limit(tableau, z / abs(z)))


def _factor(tableau: Tableau, z: complex) -> complex:
    """R(z), by which a step multiplies a motion of x' = lambda x with z = h lambda."""
    stages: list[complex] = []
    for row in tableau.a:
        stages.append(1.0 + z * sum(weight * k for weight, k in zip(row, stages, strict=True)))
    return 1.0 + z * sum(weight * k for weight, k in zip(tableau.b, stages, strict=True))


def _limit(tableau: Tableau, way: complex) -> float:
    """The largest |z| in a direction at which nothing grows, looked for upwards."""
    grid = np.linspace(0.0, _MOST, 401)
    grows = [abs(_factor(tableau, size * way)) > 1.0 + _GROWN for size in grid.tolist()]
    first = grows.index(True)
    low, high = float(grid[max(first - 1, 0)]), float(grid[first])
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if abs(_factor(tableau, middle * way)) > 1.0 + _GROWN else (middle, high)
    return low
