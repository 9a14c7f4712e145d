"""The bounded solution of the closed loop, by collocation between two ends (Devasia, Chen & Paden 1996; Seifried 2012).

Of all motions that keep the goal, f = 0, one stays bounded for all times where the zero dynamics is hyperbolic: at the
left end nothing lies in the stable subspace, at the right end nothing in the unstable one. Under the servo law the
residuals belong to the stable part, so the same conditions make f and its derivatives vanish, of any relative degree.
What the conditions miss where the goal does not rest at an end decays over the tail beyond the run.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.controllers.inversion.collocation import NotSolved, Rates, collocate
from servonode.controllers.inversion.ends import End, NoInversion, end_at, equilibrium, passive_entries
from servonode.controllers.inversion.rates import ClosedRates

INSIDE = np.array([0.0, 0.25, 0.5, 0.75])  # places of an interval at which the solution is told
FITTED = (1 - np.cos(np.pi * (np.arange(5) + 0.5) / 5)) / 2  # and at which its inputs are, for a polynomial
ALIKE = 0.05  # relative distance of rates that may be equal ones: differences part these
GUESSED = 100  # places along the time at which the equilibrium under the goal starts the search
PER_EIGENVALUE = 1.0  # first nodes in the time constant of the fastest eigenvalue
FASTER = 1.7  # of the residuals' rate than the fastest eigenvalue: they are told apart
SURVEYED = 5_000  # first nodes at most
MOST_RATES = 200_000  # evaluations of the rates in one motion


@dataclass(frozen=True)
class Bounded:
    """The bounded solution: times t (m,) [s], states x (m, n), the law's inputs u (m, n_tau).

    Between the breaks (N + 1,) [s] it is made of polynomials, `x_pieces` (N, degree + 1, n_held) and `u_pieces`, in the
    time since the break, highest power first.

    Passive entries stand still in it, for nothing depends on them; `held` are the machine's other ones. `residual` is
    the largest error of the collocation, relative to 1 + |x|; `before` and `after` are the tails [s];
    `eigenvalues` [1/s] those of the zero dynamics where the goal begins, `rest` (n,) the equilibrium there.
    """

    t: Array
    x: Array
    u: Array
    breaks: Array
    x_pieces: Array
    u_pieces: Array
    residual: float
    before: float
    after: float
    eigenvalues: npt.NDArray[np.complex128]
    rest: Array
    held: list[int]


def bounded_solution(loop: ClosedRates, start: Array, duration: float, tail: float | None, tolerance: float) -> Bounded:
    """The bounded solution over a run of `duration` [s] and tails on both sides; `tail` [s], None: as long as needed.

    Raises:
        NoInversion: no equilibrium, not hyperbolic, or the collocation does not converge to `tolerance`.
    """
    passive = passive_entries(loop, 0.0, start)
    active = [i for i in range(loop.n) if i not in passive]
    rate = _rate(loop, start, active)
    loop.law.stabilise(dict.fromkeys(_residuals(loop), rate))
    begin = end_at(loop, 0.0, start, active)
    before, after = (tail, tail) if tail is not None else _tails(begin, tolerance)
    left = end_at(loop, -before, begin.x, active)
    right = end_at(loop, duration + after, begin.x, active)
    if len(left.coming) != len(right.coming):
        text = f"{len(left.coming)} unstable eigenvalues where the goal begins and {len(right.coming)} where it ends"
        raise NoInversion(f"{text}: no bounded solution leads from one to the other; let the goal end elsewhere")

    def whole(z: Array) -> Array:
        states = np.tile(start, (len(z), 1))
        states[:, active] = z
        return states

    def rates(t: Array, z: Array) -> Array:
        F: Array = loop(t, whole(z))[:, active]
        return F

    t = np.linspace(-before, duration + after, _first_nodes(begin, before + duration + after))
    guess = _guess(loop, t, begin.x, active)[:, active]
    ends = (left.leaving, left.x[active]), (right.coming, right.x[active])
    try:
        try:
            found = collocate(rates, *ends, t, guess, tolerance)
        except NotSolved:
            if len(right.coming):
                raise
            # an equilibrium says little of a goal that moves in terms of t itself, but the motion can be integrated
            found = collocate(rates, *ends, t, _motion(rates, t, left.x[active]), tolerance)
    except NotSolved as error:
        text = f"no bounded solution was found to an error of {tolerance:g}: {error}"
        raise NoInversion(f"{text}; give a slower or smaller goal, a smoother one, or a larger tolerance") from error
    return _summarised(loop, Solved(found.t, found.pieces, whole, active), begin, rate, found.error, (before, after))


@dataclass(frozen=True)
class Solved:
    """Polynomials (N, degree + 1, n_active) between breaks (N + 1,), and what makes whole states of active entries."""

    breaks: Array
    pieces: Array
    whole: Callable[[Array], Array]
    active: list[int]

    def at(self, places: Array) -> tuple[Array, Array]:
        """Times (N k,) and whole states (N k, n) at places (k,) between 0 and 1 of all intervals."""
        since = np.outer(np.diff(self.breaks), places)
        powers = since[..., None] ** np.arange(self.pieces.shape[1])[::-1]
        states = np.einsum("kpq,kqa->kpa", powers, self.pieces)
        times: Array = (self.breaks[:-1, None] + since).ravel()
        return times, self.whole(states.reshape(-1, len(self.active)))


def _summarised(
    loop: ClosedRates, solved: Solved, begin: End, rate: float, error: float, tails: tuple[float, float]
) -> Bounded:
    """The bounded solution with its inputs, on which the law nowhere stops."""
    t, x = solved.at(INSIDE)
    _, u, status = loop.everything(t, x, loop.goal(t))
    _check_status(loop, t, x, status)
    within, states = solved.at(FITTED)
    inputs = loop.everything(within, states, loop.goal(within))[1].reshape(-1, len(FITTED), u.shape[1])
    h = np.diff(solved.breaks)[:, None, None]
    fitted = np.einsum("qp,kpa->kqa", np.linalg.inv(np.vander(FITTED)), inputs)
    u_pieces: Array = fitted / h ** np.arange(len(FITTED))[::-1, None]
    held = [i for i in solved.active if i < loop.n_state]
    x_pieces = np.ascontiguousarray(solved.pieces[:, :, [solved.active.index(i) for i in held]])
    eigenvalues = _internal(loop, begin, rate)
    return Bounded(
        t, x, u, solved.breaks, x_pieces, u_pieces, error, *tails, eigenvalues, begin.x, held
    )  # fmt: skip


def _residuals(loop: ClosedRates) -> list[str]:
    return [each.name for each in loop.law.description.residuals]


def _rate(loop: ClosedRates, start: Array, active: list[int]) -> float:
    """A convergence rate [1/s] for the residuals, as fast as anything else; the bounded solution depends on none."""
    loop.law.stabilise(dict.fromkeys(_residuals(loop), 1.0))
    at = equilibrium(loop, 0.0, start, active)
    A = loop.jacobian(0.0, start if at is None else at)[np.ix_(active, active)]
    fastest = float(np.max(np.abs(np.linalg.eigvals(A)), initial=1.0)) if np.isfinite(A).all() else 1.0
    return float(np.clip(FASTER * fastest, 1.0, 1e3))


def _internal(loop: ClosedRates, end: End, rate: float) -> npt.NDArray[np.complex128]:
    """The eigenvalues without those of the residuals, which are -rate."""
    nearest = np.argsort(np.abs(end.eigenvalues + rate))
    others = end.eigenvalues[np.sort(nearest[sum(loop.law.description.relative_degrees) :])]
    return others[np.argsort(others.real)]


def _tails(end: End, tolerance: float) -> tuple[float, float]:
    """How long before and after the run [s], so that what is missed at the ends has decayed to the tolerance in it."""
    rates = end.eigenvalues.real
    unstable, stable = _decay(rates[rates > 0], tolerance), _decay(-rates[rates < 0], tolerance)
    return max(unstable, stable), unstable


def _decay(rates: Array, tolerance: float) -> float:
    """The time [s] in which modes that decay at these rates [1/s] come down to the tolerance.

    m equal rates may be a chain, whose modes are exp(-s) s^k/k! for k < m, s = rate * t: gammaincc(m, s) together.
    """
    from scipy.special import gammainccinv

    slowest = np.min(rates, initial=np.inf)
    m = max(1, np.count_nonzero(rates < (1 + ALIKE) * slowest))
    return float(gammainccinv(m, tolerance) / slowest)


def _first_nodes(end: End, length: float) -> int:
    fastest = float(np.max(np.abs(end.eigenvalues), initial=1.0))
    return int(np.clip(PER_EIGENVALUE * fastest * length, 200, SURVEYED))


def _guess(loop: ClosedRates, t: Array, x: Array, active: list[int]) -> Array:
    """The equilibrium under the goal as it stands at each of the times, the one before if none exists."""
    places, states = np.linspace(t[0], t[-1], GUESSED), []
    for at in places.tolist():
        near = equilibrium(loop, at, x, active)
        x = x if near is None else near
        states.append(x)
    return np.column_stack([np.interp(t, places, column) for column in np.array(states).T])


def _motion(rates: Rates, t: Array, z: Array) -> Array:
    """The motion from the left end at times t, the solution itself where nothing is unstable.

    BDF ends where steps become too small, at which LSODA stands still; steps are short enough to notice the goal.
    NotSolved where the motion ends early.
    """
    from scipy.integrate import solve_ivp

    calls = 0

    def ended(at: float) -> NotSolved:
        return NotSolved(f"the motion from the left end cannot be integrated beyond t = {at:.4g} s")

    def rate(at: float, state: Array) -> Array:
        nonlocal calls
        calls += 1
        there: Array = rates(np.array([at]), state[None])[0]
        if calls > MOST_RATES or not np.isfinite(there).all():
            raise ended(at)
        return there

    longest = (t[-1] - t[0]) / GUESSED
    found = solve_ivp(rate, (t[0], t[-1]), z, "BDF", t, rtol=1e-6, atol=1e-9, max_step=longest)
    if not found.success:
        raise ended(found.t[-1] if len(found.t) else t[0])
    states: Array = found.y.T
    return states


def _check_status(loop: ClosedRates, t: Array, states: Array, status: npt.NDArray[np.int64]) -> None:
    """Refuse a solution on which the law stops."""
    if status.any():
        i = int(np.flatnonzero(status)[0])
        x = np.append(states[i, : loop.n_state], 0.0)
        y = loop.goal(t[i : i + 1])[0]
        y[loop.law.goal_layout.states] = states[i, loop.n_state :]
        text = f"the bounded solution leaves the domain of the law at t = {t[i]:.4g} s: "
        raise NoInversion(text + loop.law.explain(loop.law.evaluate(float(t[i]), x, y)))
