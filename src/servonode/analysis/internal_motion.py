"""The zero dynamics linearised: on the manifold that the law holds, at a state or at an equilibrium near it.

The law makes the manifold M(t) = {x: f = 0, f' = 0, places that constraints hold} invariant. States eta that
parametrise it, found by full pivoting of the rows C of its derivative, move by eta' = A_M eta in the linearisation,
A_M = S A N: A = dF/dx of the closed loop, N the tangents of M with unit entries of eta, S the choice of eta. Because S
is constant this holds along any motion on M, not at equilibria alone (A. Isidori, Nonlinear Control Systems, 3rd ed.
1995, section 4.3). A program that gives its inputs directly holds nothing: M is then the whole state space.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.mechanics.equilibrium import STUCK, Slope, zero_near
from servonode.simulation.continuous_loop import ContinuousLoop

SMALLEST_PIVOT = 1e-6
LONGEST_STEP = 0.5  # m, rad, m/s, rad/s: of Newton's method, so that it finds what is near
MOST = 1e6  # growth beyond which nobody asks for more
PIECES = 4  # of the time of one equilibrium, between whose ends growth is looked at
CONSERVED, NEARLY = 1e-7, 1e-4  # shares of the largest singular value: of what is conserved; of what nearly is
ALIKE = 0.03  # by how much what is conserved may differ, relative to values above 1
NEUTRAL = 1e-3  # 1/s; a real part below this is neither growth nor decay


@dataclass(frozen=True)
class Linearised:
    """The zero dynamics at a state: eigenvalues [1/s], the fastest growing first, with the direction of that one.

    `names` are the states that parametrise it, without passive coordinates; `values` are theirs at this state.
    """

    time: float  # s
    state: Array  # stacked, as of `ContinuousLoop`
    names: tuple[str, ...]
    values: tuple[float, ...]
    eigenvalues: npt.NDArray[np.complex128]
    direction: Array  # magnitudes of the eigenvector's entries
    matrix: Array  # A_M
    velocities: npt.NDArray[np.bool_]  # which of the names are

    @property
    def rate(self) -> float:
        """The largest real part [1/s]; minus infinity where nothing is left free."""
        return float(self.eigenvalues[0].real) if len(self.eigenvalues) else -np.inf

    @property
    def unstable(self) -> bool:
        return self.rate > NEUTRAL

    @property
    def grows(self) -> str:
        """The state that grows most."""
        return self.names[int(np.argmax(self.direction))]


def size(Phi: Array, velocities: npt.NDArray[np.bool_]) -> float:
    """The growth of displacements to displacements and of velocities to velocities, which no unit of time changes."""
    blocks = [Phi[np.ix_(kind, kind)] for kind in (velocities, ~velocities)]
    return max(float(np.linalg.norm(each, 2)) if each.size else 0.0 for each in blocks)


def growth_along(branch: Sequence[Linearised], duration: float) -> float:
    """The largest growth of a perturbation between two times of equilibria that follow each other in equal times [s].

    It is that of the fundamental matrix, so that transients count; beyond MOST any such number.
    """
    from scipy.linalg import expm

    each, largest = duration / (len(branch) * PIECES), 1.0
    pieces = [expm(at.matrix * each) for at in branch for _ in range(PIECES)]
    for first in range(len(pieces)):
        Phi = np.eye(len(pieces[0]))
        for piece in pieces[first:]:
            Phi = piece @ Phi
            largest = max(largest, size(Phi, branch[0].velocities))
            if largest > MOST:
                return largest
    return largest


class InternalMotion:
    """What the law leaves free of a closed loop. `passive`: coordinates on which nothing else depends."""

    def __init__(self, loop: ContinuousLoop, passive: Sequence[str]) -> None:
        self.loop = loop
        self._lively = np.array([name not in passive for name in loop.names])

    def parameters(self, C: Array) -> npt.NDArray[np.int64]:
        """Which of `loop.entries` parametrise the manifold whose rows are C: those that no pivot serves."""
        rows = scaled(C) if self.loop.high_degrees else C
        return np.setdiff1d(np.arange(len(self.loop.names)), pivots(rows))

    def names(self, t: float, x: Array) -> tuple[str, ...]:
        """The states that parametrise what is left free at a state, passive coordinates too."""
        return tuple(self.loop.names[i] for i in self.parameters(self.loop.jacobian(t, x)[1]))

    def perturbations(self, t: float, x: Array) -> tuple[npt.NDArray[np.int64], Array]:
        """Which of `loop.entries` parametrise what is left free at a state, without passive ones, and N for them."""
        return self._perturbations(self.loop.held_slope(t, x))

    def _perturbations(self, C: Array) -> tuple[npt.NDArray[np.int64], Array]:
        free = self.parameters(C)
        lively = self._lively[free]
        return free[lively], tangents(C, free)[:, lively]

    def linearised(self, t: float, x: Array) -> Linearised | None:
        """The zero dynamics at a state on the manifold; None where the law or its derivatives are not finite."""
        A, C = self.loop.jacobian(t, x)
        if not (np.isfinite(A).all() and np.isfinite(C).all()):
            return None
        chosen, N = self._perturbations(C)
        matrix = (A @ N)[chosen]
        eigenvalues, vectors = np.linalg.eig(matrix)
        order = np.argsort(-eigenvalues.real, kind="stable")
        return Linearised(
            time=t,
            state=x,
            names=tuple(self.loop.names[i] for i in chosen),
            values=tuple(x[self.loop.entries[chosen]].tolist()),
            eigenvalues=eigenvalues[order].astype(complex),
            direction=np.abs(vectors[:, order[0]]) if len(order) else np.zeros(0),
            matrix=matrix,
            velocities=self.loop.are_velocities(chosen),
        )

    def onto(self, t: float, x: Array) -> Array | None:
        """The state on the manifold next to x at time t; None: none is found."""

        def values(at: Array) -> tuple[Array, Slope]:
            return self.loop.held(t, at), lambda: self.loop.held_slope(t, at)

        return zero_near(values, x, self.loop.entries, LONGEST_STEP)

    def equilibrium(self, t: float, x: Array) -> Array | None:
        """A state near x, with the goal as at time t, on the manifold, where what is left free rests; None: no such.

        Passive coordinates may move on. Damped Newton steps of least size, which at first leave the directions alone in
        which x nearly rests: along these a family of equilibria goes on, as the speeds of a bicycle.
        """
        entries = self.loop.entries

        def values(at: Array) -> tuple[Array, Slope] | None:
            if self.loop.refusal(t, at):
                return None
            A, C = self.loop.jacobian(t, at)
            if not (np.isfinite(A).all() and np.isfinite(C).all()):
                return None
            free = self.parameters(C)
            resting = free[self._lively[free]]
            left = np.append(self.loop.held(t, at), self.loop.rates(t, at)[entries][resting])
            return left, lambda: np.concatenate([C, A[resting]])

        found = (zero_near(values, x, entries, LONGEST_STEP, stuck) for stuck in (NEARLY, STUCK))
        return next((each for each in found if each is not None), None)

    def belongs(self, x: Array, at: Linearised) -> bool:
        """Whether what perturbations of an equilibrium conserve has nearly its value at a state x."""
        left, sizes, _ = np.linalg.svd(at.matrix)
        conserved = left[:, sizes <= CONSERVED * sizes.max(initial=0.0)]
        differs = conserved.T @ (x - at.state)[self.loop.entries[[self.loop.names.index(name) for name in at.names]]]
        return bool(np.abs(differs).max(initial=0.0) < ALIKE * max(1.0, float(np.abs(at.values).max(initial=0.0))))

    def distance(self, x: Array, other: Array, at: Linearised) -> float:
        """The largest difference of two states in what is left free: angles as they are, others relative above 1.

        Velocities count by how far they carry within the time of the fastest mode.
        """
        return float((np.abs(x - other)[self.loop.entries] * self.weights(at)).max(initial=0.0))

    def weights(self, at: Linearised) -> Array:
        """By what each of `loop.entries` counts in a distance; 0 where it is not left free, or passive."""
        fastest = max(1.0, float(np.abs(at.eigenvalues).max(initial=0.0)))
        found = np.zeros(len(self.loop.names))
        for name, value, unit in zip(at.names, at.values, self.loop.units_of(at.names), strict=True):
            i = self.loop.names.index(name)
            found[i] = 1 / (fastest if i in self.loop.velocities else 1.0 if unit == "rad" else max(1.0, abs(value)))
        return found


def tangents(C: Array, free: npt.NDArray[np.int64]) -> Array:
    """N (n, n_free): C N = 0, the rows of the free entries those of the unit matrix."""
    n = C.shape[1]
    served = np.setdiff1d(np.arange(n), free)
    N = np.zeros((n, len(free)))
    N[free, np.arange(len(free))] = 1.0
    if len(served):
        N[served] = -np.linalg.lstsq(C[:, served], C[:, free], rcond=None)[0]
    return N


def scaled(rows: Array) -> Array:
    """The rows with entries up to 1, without those that are rounding: f, f', f'', ... differ in size."""
    size = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    result: Array = (rows / np.maximum(size, SMALLEST_PIVOT))[size[:, 0] > SMALLEST_PIVOT]
    return result


def pivots(rows: Array) -> list[int]:
    """The columns that full pivoting solves the rows for."""
    rows, found = rows.copy(), []
    while rows.size and np.abs(rows).max() > SMALLEST_PIVOT:
        i, j = divmod(int(np.argmax(np.abs(rows))), rows.shape[1])
        found.append(j)
        rows = rows - np.outer(rows[:, j] / rows[i, j], rows[i])
    return found
