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
from servonode.controllers.inversion.rates import ClosedRates, End, NoInversion, end_at, equilibrium, passive_entries

Rates = Callable[[Array, Array], Array]  # times (m,), states (m, n) -> F (m, n)
Rows = tuple[Array, Array]  # rows (k, n), and the state (n,) at which they vanish
STAGES = 4
MOST_INTERVALS, MOST_ROUNDS, MOST_STEPS = 50_000, 40, 30
CHECKED = np.array([0.02, 0.2, 0.5, 0.8, 0.98])  # places of an interval at which the equation is checked
MOST_SPLIT = 4
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
    loop.law.stabilise(dict.fromkeys((each.name for each in loop.law.description.residuals), rate))
    begin = end_at(loop, 0.0, start, active)
    eigenvalues = begin.eigenvalues
    if tail is None:  # as long as what is missed at the ends takes to decay to the tolerance
        rising, falling = (way * eigenvalues.real[way * eigenvalues.real > 0] for way in (1, -1))
        after, stable = _decay(rising, tolerance), _decay(falling, tolerance)
        before = max(after, stable)
    else:
        before = after = tail
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

    nodes = PER_EIGENVALUE * float(np.max(np.abs(eigenvalues), initial=1.0)) * (before + duration + after)
    t = np.linspace(-before, duration + after, int(np.clip(nodes, 200, SURVEYED)))
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
    nearest = np.argsort(np.abs(begin.eigenvalues + rate))  # those of the residuals are -rate
    internal = begin.eigenvalues[np.sort(nearest[sum(loop.law.description.relative_degrees) :])]
    internal = internal[np.argsort(internal.real)]
    return Bounded(t, x, u, solved.breaks, x_pieces, u_pieces, error, *tails, internal, begin.x, held)


def _rate(loop: ClosedRates, start: Array, active: list[int]) -> float:
    """A convergence rate [1/s] for the residuals, as fast as anything else; the bounded solution depends on none."""
    loop.law.stabilise(dict.fromkeys((each.name for each in loop.law.description.residuals), 1.0))
    at = equilibrium(loop, 0.0, start, active)
    A = loop.jacobian(0.0, start if at is None else at)[np.ix_(active, active)]
    fastest = float(np.max(np.abs(np.linalg.eigvals(A)), initial=1.0)) if np.isfinite(A).all() else 1.0
    return float(np.clip(FASTER * fastest, 1.0, 1e3))


def _decay(rates: Array, tolerance: float) -> float:
    """The time [s] in which modes that decay at these rates [1/s] come down to the tolerance.

    m equal rates may be a chain, whose modes are exp(-s) s^k/k! for k < m, s = rate * t: gammaincc(m, s) together.
    """
    from scipy.special import gammainccinv

    slowest = np.min(rates, initial=np.inf)
    m = max(1, np.count_nonzero(rates < (1 + ALIKE) * slowest))
    return float(gammainccinv(m, tolerance) / slowest)


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


class NotSolved(ValueError):
    """The text says why."""


def _powers(c: Array) -> tuple[Array, Array]:
    """Of polynomials with given values at the points c: rows of coefficients, of themselves and of their integrals."""
    values = np.linalg.inv(np.vander(c, increasing=True)).T.astype(np.float64)  # row j, rising: 1 at c_j, 0 at others
    integrals = np.hstack([np.zeros((len(c), 1)), values / np.arange(1, len(c) + 1)])
    return values, integrals.astype(np.float64)


C = (np.polynomial.legendre.leggauss(STAGES)[0] + 1) / 2
VALUES, INTEGRALS = _powers(C)
A = np.vander(C, STAGES + 1, increasing=True) @ INTEGRALS.T  # (i, j): integral to c_i of the j-th polynomial
B = INTEGRALS.sum(axis=1)


@dataclass(frozen=True)
class Collocated:
    """Nodes t (N + 1,), states z (N + 1, n) there, rates K (N, STAGES, n) at the Gauss points, the largest error."""

    t: Array
    z: Array
    K: Array
    error: float

    @property
    def pieces(self) -> Array:
        """The polynomials (N, STAGES + 1, n) in t - t_i, highest power first."""
        h = np.diff(self.t)[:, None, None]
        rising = np.einsum("jp,ijn->ipn", INTEGRALS, self.K) * h
        rising[:, 0] = self.z[:-1]
        found: Array = (rising / h ** np.arange(STAGES + 1)[:, None])[:, ::-1]
        return found


def collocate(rates: Rates, left: Rows, right: Rows, t: Array, z: Array, tolerance: float) -> Collocated:
    """z' = F(t, z) with left[0] (z - left[1]) = 0 at t[0] and right[0] (z - right[1]) = 0 at t[-1], near a guess z.

    By collocation at Gauss points, which lie inside their intervals, so that F may jump from one to the next: a goal
    through points has such places, at which methods that use the ends of intervals (scipy's solve_bvp) do not converge.
    In an interval of length h the solution is a polynomial of degree STAGES whose rate equals F at the STAGES
    points (Ascher, Mattheij & Russell 1995); intervals are split until it fulfils the equation between the points too.

    The error of an interval is h |z' - F| / (1 + |z|), the largest of it at most `tolerance`.

    Raises:
        NotSolved: Newton's method or the splitting of intervals does not come to an end.
    """
    try:
        with np.errstate(all="ignore"):  # a step too far may overflow before it is shortened
            return _collocated(rates, left, right, t, z, tolerance)
    except (np.linalg.LinAlgError, RuntimeError) as error:  # the latter of a singular sparse matrix
        raise NotSolved("the equations of Newton's method are singular") from error


def _collocated(rates: Rates, left: Rows, right: Rows, t: Array, z: Array, tolerance: float) -> Collocated:
    """As `collocate`, where nothing is singular."""
    K = rates(t[:-1], z[:-1])[:, None].repeat(STAGES, axis=1)
    for _ in range(MOST_ROUNDS):
        z, K = _newton(rates, left, right, t, z, K, tolerance)
        errors = _errors(rates, t, z, K)
        worst = float(np.max(errors))
        if worst <= tolerance:
            return Collocated(t, z, K, worst)
        t, z, K = _split(t, z, K, np.ceil((errors / tolerance) ** (1 / (STAGES + 1))).clip(1, MOST_SPLIT).astype(int))
        if len(t) > MOST_INTERVALS:
            raise NotSolved(f"more than {MOST_INTERVALS} intervals would be needed, the error is still {worst:.2g}")
    raise NotSolved(f"the error stays at {worst:.2g} however short the intervals")


def _stages(t: Array, z: Array, K: Array) -> tuple[Array, Array]:
    """Times (N, STAGES) and states (N, STAGES, n) at the Gauss points."""
    h = np.diff(t)[:, None]
    return t[:-1, None] + h * C, z[:-1, None] + h[..., None] * np.einsum("ij,kjn->kin", A, K)


def _everywhere(rates: Rates, t: Array, z: Array) -> Array:
    """F at times (N, k) and states (N, k, n)."""
    found: Array = rates(t.reshape(-1), z.reshape(-1, z.shape[-1])).reshape(z.shape)
    return found


def _defects(rates: Rates, t: Array, z: Array, K: Array) -> tuple[Array, Array]:
    """K - F at the Gauss points, and by how much each interval ends beside the next node."""
    R = K - _everywhere(rates, *_stages(t, z, K))
    r = z[1:] - z[:-1] - np.diff(t)[:, None] * np.einsum("j,kjn->kn", B, K)
    return R, r


def _newton(
    rates: Rates, left: Rows, right: Rows, t: Array, z: Array, K: Array, tolerance: float
) -> tuple[Array, Array]:
    """The collocation equations on given intervals, solved by damped Newton steps."""
    h = np.diff(t)[:, None, None]

    def size(R: Array, r: Array, z: Array) -> float:
        ends = [left[0] @ (z[0] - left[1]), right[0] @ (z[-1] - right[1])]
        return float(np.max(np.concatenate([np.abs(h * R).ravel(), np.abs(r).ravel(), *map(np.abs, ends)])))

    R, r = _defects(rates, t, z, K)
    before = size(R, r, z)
    for _ in range(MOST_STEPS):
        dz, dK = _step(rates, left, right, t, z, K, R, r)
        for share in (1.0, 0.5, 0.25, 0.1, 0.03, 0.01):
            tried = z + share * dz, K + share * dK
            R, r = _defects(rates, t, *tried)
            found = size(R, r, tried[0])
            if found < before or found < 0.01 * tolerance:
                break
        else:
            raise NotSolved("Newton's method does not converge")
        z, K = tried
        if found < 0.01 * tolerance or float(np.max(np.abs(dz) / (1 + np.abs(z)))) * share < 0.01 * tolerance:
            return z, K
        before = found
    raise NotSolved(f"Newton's method does not converge in {MOST_STEPS} steps")


def _step(
    rates: Rates, left: Rows, right: Rows, t: Array, z: Array, K: Array, R: Array, r: Array
) -> tuple[Array, Array]:
    """Newton's step: the rates of each interval eliminated, then a band of blocks for the nodes."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.linalg import splu

    N, n, h = len(t) - 1, z.shape[1], np.diff(t)
    J = _jacobians(rates, *_stages(t, z, K))  # (N, STAGES, n, n)
    M = np.eye(STAGES * n) - np.einsum("k,ij,kiab->kiajb", h, A, J).reshape(N, STAGES * n, -1)
    both = np.concatenate([J.reshape(N, STAGES * n, n), -R.reshape(N, STAGES * n, 1)], axis=2)
    solved = np.linalg.solve(M, both).reshape(N, STAGES, n, n + 1)
    summed = h[:, None, None] * np.einsum("j,kjab->kab", B, solved)
    blocks, right_side = -np.eye(n) - summed[:, :, :n], summed[:, :, n] - r
    n_left = len(left[0])
    rows = n_left + np.arange(N * n).reshape(N, n, 1) + np.zeros((1, 1, n), dtype=int)
    columns = n * np.arange(N).reshape(N, 1, 1) + np.arange(n).reshape(1, 1, n) + np.zeros((1, n, 1), dtype=int)
    ones = n_left + np.arange(N * n)
    ends = [(np.indices(left[0].shape), left[0], 0, 0), (np.indices(right[0].shape), right[0], n_left + N * n, N * n)]
    i = np.concatenate([rows.ravel(), ones, *(at[0].ravel() + first for at, _, first, _ in ends)])
    j = np.concatenate([columns.ravel(), n + np.arange(N * n), *(at[1].ravel() + first for at, _, _, first in ends)])
    values = np.concatenate([blocks.ravel(), np.ones(N * n), *(each.ravel() for _, each, _, _ in ends)])
    whole = coo_matrix((values, (i, j)), shape=((N + 1) * n,) * 2).tocsc()
    side = np.concatenate([-left[0] @ (z[0] - left[1]), right_side.ravel(), -right[0] @ (z[-1] - right[1])])
    dz = splu(whole).solve(side).reshape(N + 1, n)
    dK = np.einsum("kjab,kb->kja", solved[..., :n], dz[:-1]) + solved[..., n]
    return dz, dK


def _jacobians(rates: Rates, t: Array, z: Array) -> Array:
    """dF/dz (N, STAGES, n, n) by central differences."""
    columns = []
    for j in range(z.shape[-1]):
        step = np.zeros(z.shape)
        step[..., j] = 1e-6 * np.maximum(1.0, np.abs(z[..., j]))
        ahead, behind = _everywhere(rates, t, z + step), _everywhere(rates, t, z - step)
        columns.append((ahead - behind) / (2 * step[..., j : j + 1]))
    return np.stack(columns, axis=-1)


def _errors(rates: Rates, t: Array, z: Array, K: Array) -> Array:
    """The error of each interval."""
    h, n = np.diff(t), len(CHECKED)
    powers = np.vander(CHECKED, STAGES + 1, increasing=True)
    slopes = np.einsum("pq,jq,kja->kpa", powers[:, :STAGES], VALUES, K)
    at = z[:-1, None] + h[:, None, None] * np.einsum("pq,jq,kja->kpa", powers, INTEGRALS, K)
    defect = np.abs(slopes - _everywhere(rates, t[:-1, None] + np.outer(h, CHECKED).reshape(-1, n), at))
    result: Array = h * np.max(defect / (1 + np.abs(at)), axis=(1, 2))
    return result


def _split(t: Array, z: Array, K: Array, parts: npt.NDArray[np.int_]) -> tuple[Array, Array, Array]:
    """Each interval in so many equal parts, with the polynomials as they are."""
    interval = np.repeat(np.arange(len(parts)), parts)
    place = (np.arange(len(interval)) - np.repeat(np.cumsum(parts) - parts, parts)) / parts[interval]
    h = np.diff(t)[interval]
    nodes = np.append(t[interval] + place * h, t[-1])
    powers = np.vander(place, STAGES + 1, increasing=True)
    states = z[interval] + h[:, None] * np.einsum("kq,jq,kja->ka", powers, INTEGRALS, K[interval])
    inner = np.vander((place[:, None] + C / parts[interval][:, None]).ravel(), STAGES, increasing=True)
    slopes = np.einsum("kpq,jq,kja->kpa", inner.reshape(len(interval), STAGES, STAGES), VALUES, K[interval])
    return nodes, np.vstack([states, z[-1:]]), slopes
