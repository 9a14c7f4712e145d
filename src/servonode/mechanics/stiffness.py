"""How fast a machine's own motion decays, beside what an explicit step can follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, gcd

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.integrate import INTEGRATORS, Tableau
from servonode.mechanics.machine import Machine
from servonode.mechanics.radau import DIFFERENCE

_BISECTIONS = 40
_MOST = 4.0  # |z| beyond which no method of ours is stable
_GROWN = 1e-9  # of a factor: less is rounding
_LEAST = 1e-9  # of a limit, which is divided by
_DECAYS = 1e-6  # of an eigenvalue: a smaller share of decay is rounding of the differences
_SHARE = 0.9  # of the limit that a step may be: along a run the eigenvalues change
_SHORTEST = 1_000  # ns; a shorter step would take too long
_MOST_TRIED = 50  # times as many parts of the times as the limit asks for are tried


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
    shorter: float | None  # s, the longest step that is stable with a margin and divides the times; None: too short

    def __str__(self) -> str:
        shorter = f"plant.step = {self.shorter:.12g}, or " if self.shorter else ""
        text = f"h |lambda| = {self.size:.3g}, {self.integrator} is stable up to {self.limit:.3g}"
        return f'{text}: {shorter}plant.integrator = "radau" for stiff machines'


def stiffness(
    machine: Machine, integrator: str, step: float, t: float, x: Array, u: Array, times: Sequence[int]
) -> Stiffness | None:
    """The worst motion that decays in the machine at this state and grows under steps [s] of an explicit method.

    `times` [ns] are those that a step must divide. None: no such motion, the method is implicit, or the machine has no
    finite slopes here.
    """
    tableau = INTEGRATORS.get(integrator)
    A = slopes(machine, t, x, u)
    if tableau is None or not np.isfinite(A).all():
        return None
    eigenvalues = [complex(each) for each in np.linalg.eigvals(A)]
    decaying = [each for each in eigenvalues if each.real < -_DECAYS * abs(each)]
    growing = [each * step for each in decaying if _grows(tableau, each * step)]
    if not growing:
        return None
    limits = [_limit(tableau, z / abs(z)) for z in growing]
    z, limit = max(zip(growing, limits, strict=True), key=lambda each: abs(each[0]) / each[1])
    shorter = _shorter(tableau, decaying, step * limit / abs(z), times)
    return Stiffness(integrator, step, abs(z), limit, shorter)


def _shorter(tableau: Tableau, decaying: Sequence[complex], bound: float, times: Sequence[int]) -> float | None:
    """The longest step [s] within a share of the bound that divides the times and under which nothing grows."""
    whole = gcd(*times)
    first = ceil(whole / (_SHARE * bound * 1e9))
    for n in range(first, min(_MOST_TRIED * first, whole // _SHORTEST) + 1):
        step = whole // n / 1e9
        if whole % n == 0 and not any(_grows(tableau, each * step) for each in decaying):
            return step
    return None


def _grows(tableau: Tableau, z: complex) -> bool:
    return abs(_factor(tableau, z)) > 1.0 + _GROWN


def _factor(tableau: Tableau, z: complex) -> complex:
    """R(z), by which a step multiplies a motion of x' = lambda x with z = h lambda."""
    stages: list[complex] = []
    for row in tableau.a:
        stages.append(1.0 + z * sum(weight * k for weight, k in zip(row, stages, strict=True)))
    return 1.0 + z * sum(weight * k for weight, k in zip(tableau.b, stages, strict=True))


def _limit(tableau: Tableau, way: complex) -> float:
    """The largest |z| in a direction at which nothing grows, looked for upwards."""
    grid = np.linspace(0.0, _MOST, 401)
    grows = [_grows(tableau, size * way) for size in grid.tolist()]
    first = grows.index(True)
    low, high = float(grid[max(first - 1, 0)]), float(grid[first])
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if _grows(tableau, middle * way) else (middle, high)
    return max(low, _LEAST)
