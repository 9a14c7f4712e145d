"""The zero dynamics linearised: on the manifold that the law holds, at a state or at an equilibrium near it.

The law makes the manifold M(t) = {x: f = 0, f' = 0, places that constraints hold} invariant. States eta that
parametrise it, found by full pivoting of the rows C of its derivative, move by eta' = A_M eta in the linearisation,
A_M = S A N: A = dF/dx of the closed loop, N the tangents of M with unit entries of eta, S the choice of eta. Because S
is constant this holds along any motion on M, not at equilibria alone (A. Isidori, Nonlinear Control Systems, 3rd ed.
1995, section 4.3). A program that gives its inputs directly holds nothing: M is then the whole state space.

Perturbations dx of a motion that stay on M obey dx' = A(t) dx. Those that begin as the columns of N(0) make up the
fundamental matrix of what is left free: their entries eta at t are Phi(t) eta(0). Where F has the period P, and the
motion too, the eigenvalues of Phi(P) are its Floquet multipliers: perturbations grow by them in each period, whatever
the eigenvalues of A(t) are at any instant (A. H. Nayfeh, D. T. Mook, Nonlinear Oscillations, 1979, chapter 5).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from servonode.analysis.linear_system import least_between
from servonode.analysis.perturbations import COPIES, Motion
from servonode.arrays import Array
from servonode.mechanics.equilibrium import STUCK, Slope, nearby_states, zero_near
from servonode.simulation.continuous_loop import ContinuousLoop
from servonode.simulation.loop_equations import BATCH

Numbers = npt.NDArray[np.int64]
SMALLEST_PIVOT = 1e-6
LONGEST_STEP = 0.5  # m, rad, m/s, rad/s: of Newton's method, so that it finds what is near
MOST = 1e6  # growth beyond which nobody asks for more
PIECES = 4  # of the time of one equilibrium, between whose ends growth is looked at
CONSERVED, NEARLY = 1e-7, 1e-4  # shares of the largest singular value: of what is conserved; of what nearly is
ALIKE = 0.03  # by how much what is conserved may differ, relative to values above 1
NEUTRAL = 1e-3  # 1/s; a real part below this is neither growth nor decay
RTOL, ATOL = 1e-8, 1e-10
SMALLEST = 1e-300  # a multiplier of zero has a logarithm
EFFORT, AT_LEAST = 2, 200  # steps for each step of the motion, and more, that a periodic one may cost
SAMPLES = 4  # for each step of the motion: times at which a return of F is looked for
FEWEST, LARGEST = 400, 20_000  # of them
EXACTLY = 1e-12  # share of the time to which a period is found
STILL = 1e-9  # an amplitude below this is rounding, relative to the size where that is above 1
SAME = 1e-6  # share of its amplitude by which F may differ a period later
PROBES = 5  # times at which this is looked at
ROUNDS, RETURNED = 8, 1e-6  # of Newton's method; the distance by which a periodic motion may miss its beginning


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

    @classmethod
    def of(
        cls, loop: ContinuousLoop, time: float, state: Array, chosen: Numbers, matrix: Array, modes: Any, **more: Any
    ) -> Self:
        """With these eigenvalues and eigenvectors, `modes`; `chosen`: which of `loop.entries` parametrise it."""
        rates, vectors = modes
        order = np.argsort(-rates.real, kind="stable")
        return cls(
            time=time,
            state=state,
            names=tuple(loop.names[i] for i in chosen),
            values=tuple(state[loop.entries[chosen]].tolist()),
            eigenvalues=rates[order].astype(complex),
            direction=np.abs(vectors[:, order[0]]) if len(order) else np.zeros(0),
            matrix=matrix,
            velocities=loop.are_velocities(chosen),
            **more,
        )

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

    def parameters(self, C: Array) -> Numbers:
        """Which of `loop.entries` parametrise the manifold whose rows are C: those that no pivot serves."""
        rows = scaled(C) if self.loop.high_degrees else C
        return np.setdiff1d(np.arange(len(self.loop.names)), pivots(rows))

    def names(self, t: float, x: Array) -> tuple[str, ...]:
        """The states that parametrise what is left free at a state, passive coordinates too."""
        return tuple(self.loop.names[i] for i in self.parameters(self.loop.jacobian(t, x)[1]))

    def perturbations(self, t: float, x: Array) -> tuple[Numbers, Array]:
        """Which of `loop.entries` parametrise what is left free at a state, without passive ones, and N for them."""
        return self._perturbations(self.loop.held_slope(t, x))

    def _perturbations(self, C: Array) -> tuple[Numbers, Array]:
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
        return Linearised.of(self.loop, t, x, chosen, matrix, np.linalg.eig(matrix))

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


def tangents(C: Array, free: Numbers) -> Array:
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


@dataclass(frozen=True)
class Orbit(Linearised):
    """A periodic motion: its state at t = 0, Phi(period) as the matrix, Floquet exponents [1/s] as eigenvalues."""

    period: float  # s
    multipliers: npt.NDArray[np.complex128]

    def growth(self, duration: float) -> float:
        """The largest growth of a perturbation over whole periods within this time [s]."""
        largest, Phi = 1.0, np.eye(len(self.matrix))
        for _ in range(int(duration / self.period)):
            Phi = self.matrix @ Phi
            largest = max(largest, size(Phi, self.velocities))
            if largest > MOST:
                break
        return largest


@dataclass
class Budget:
    """How many steps of single copies a periodic motion may still cost."""

    steps: int


def fundamental(
    loop: ContinuousLoop, t: float, x: Array, N: Array, end: float, budget: Budget
) -> tuple[Array, Array] | None:
    """State and perturbations (n, k) at `end` of those N that begin at x.

    None: they grew by MOST, the budget of copies and steps is used up, or the integration cannot continue.
    """
    n, k, both, length = len(x), N.shape[1], np.append(x, N.T.ravel()), 0.0
    while t < end:
        most = min(BATCH, budget.steps // (2 * k + 1))  # as many copies take each step
        part = loop.equations.steps(t, both, end, RTOL, ATOL, most=most, length=length, columns=k)
        budget.steps -= len(part.times) * (2 * k + 1)
        if not len(part.times) or not np.abs(part.states[:, n:]).max() < MOST:
            return None
        t, both, length = float(part.times[-1]), part.states[-1], part.length
    return both[:n], both[n:].reshape(k, -1).T


def period_of(loop: ContinuousLoop, motion: Motion) -> float | None:
    """The period [s] of F(t, x) at a given x, within the time of the motion; None: it has none, or is constant."""
    end, x = motion.times[-1], nearby_states(loop.start)[0]  # at the initial one a term may vanish that changes
    times = np.linspace(0.0, end, int(np.clip(SAMPLES * len(motion.times), FEWEST, LARGEST)))
    values = np.array([loop.forcing(t, x) for t in times])
    amplitude = np.ptp(values, axis=0)
    moves = amplitude > STILL * (1 + np.abs(values).max(axis=0))
    if not np.isfinite(values).all() or not moves.any():
        return None

    def apart(t: float, since: float = 0.0) -> float:
        return float((np.abs(loop.forcing(since + t, x) - loop.forcing(since, x))[moves] / amplitude[moves]).max())

    missed = (np.abs(values - values[0])[:, moves] / amplitude[moves]).max(axis=1)
    for i in np.flatnonzero((missed[1:-1] < missed[:-2]) & (missed[1:-1] <= missed[2:])) + 1:
        if missed[i] > missed[: i + 1].max() / 2:
            continue
        period = least_between(apart, float(times[i - 1]), float(times[i + 1]), EXACTLY * end)
        if max(apart(period, since) for since in period * np.linspace(0.0, 0.9, PROBES) ** 2) < SAME:
            return period
    return None


def orbit_near(free: InternalMotion, motion: Motion, period: float) -> Orbit | None:
    """The periodic motion near the initial state, where F has this period; angles may have turned over in it.

    Newton's method on the map of a period, whose derivative is Phi.
    """
    loop, x = free.loop, free.loop.start
    budget = Budget((COPIES + 1) * (EFFORT * len(motion.times) + AT_LEAST))
    for _ in range(ROUNDS):
        on_law = free.onto(0.0, x)
        if on_law is None or loop.refusal(0.0, on_law):
            return None
        x = on_law
        chosen, N = free.perturbations(0.0, x)
        found = fundamental(loop, 0.0, x, N, period, budget) if len(chosen) else None
        if found is None:
            return None
        matrix, moved = found[1][chosen], (found[0] - x)[loop.entries]
        turned = turns(loop, x, moved, loop.entries, loop.angles)
        if turned is None:
            return None
        missed = (moved - turned)[chosen]
        if np.abs(missed).max(initial=0.0) < RETURNED:
            multipliers, vectors = np.linalg.eig(matrix.astype(complex))
            order = np.argsort(-np.abs(multipliers), kind="stable")
            multipliers, vectors = multipliers[order], vectors[:, order]
            rates = np.log(multipliers + SMALLEST) / period
            more = {"period": period, "multipliers": multipliers}
            return Orbit.of(loop, 0.0, x, chosen, matrix, (rates, vectors), **more)
        step = np.linalg.lstsq(np.eye(len(chosen)) - matrix, missed, rcond=None)[0]
        x = x.copy()
        x[loop.entries] += N @ step * min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), RETURNED))
    return None


def turns(
    loop: ContinuousLoop, x: Array, moved: Array, entries: Numbers, angles: npt.NDArray[np.bool_]
) -> Array | None:
    """The whole turns that angles among the entries of the state x have made; None: F is not the same after them."""
    turned = np.where(angles, 2 * np.pi * np.round(moved / (2 * np.pi)), 0.0)
    there = x.copy()
    there[entries] += turned
    same = np.allclose(loop.rates(0.0, there), loop.rates(0.0, x), rtol=SAME, atol=SAME)
    return turned if same or not turned.any() else None
