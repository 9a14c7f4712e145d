"""Periodic motions of what the law leaves free, and Floquet's multipliers of them.

Perturbations dx of a motion that stay on the manifold of the law obey dx' = A(t) dx, A = dF/dx along the motion. Those
that begin as the columns of N(0), see `internal_motion`, make up the fundamental matrix of what is left free: their
entries eta at t are Phi(t) eta(0). Where F has the period P, and the motion too, the eigenvalues of Phi(P) are its
multipliers: perturbations grow by them in each period, whatever the eigenvalues of A(t) are at any instant
(A. H. Nayfeh, D. T. Mook, Nonlinear Oscillations, 1979, chapter 5).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servonode.analysis.internal_motion import LONGEST_STEP, MOST, InternalMotion, Linearised, size
from servonode.analysis.linear_system import least_between
from servonode.analysis.perturbations import COPIES, Motion
from servonode.arrays import Array
from servonode.mechanics.equilibrium import states_beside
from servonode.simulation.continuous_loop import ContinuousLoop
from servonode.simulation.loop_equations import BATCH

Numbers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
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
    end, x = motion.times[-1], states_beside(loop.start)[0]  # at the initial one a term may vanish that changes
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
            return _orbit(loop, x, chosen, period, matrix)
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


def _orbit(loop: ContinuousLoop, x: Array, chosen: Numbers, period: float, matrix: Array) -> Orbit:
    multipliers, vectors = np.linalg.eig(matrix.astype(complex))
    order = np.argsort(-np.abs(multipliers), kind="stable")
    multipliers = multipliers[order]
    return Orbit(
        time=0.0,
        state=x,
        names=tuple(loop.names[i] for i in chosen),
        values=tuple(x[loop.entries[chosen]].tolist()),
        eigenvalues=np.asarray(np.log(multipliers + SMALLEST) / period, dtype=complex),
        direction=np.abs(vectors[:, order[0]]) if len(order) else np.zeros(0),
        period=period,
        multipliers=multipliers,
        matrix=matrix,
        velocities=loop.are_velocities(chosen),
    )
