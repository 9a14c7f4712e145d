"""Boundary-value problems z' = F(t, z) with linear conditions at both ends, by collocation at Gauss points.

Gauss points lie inside their intervals, so F may jump from one interval to the next: a goal through points has such
places, at which methods that use the ends of intervals (scipy's solve_bvp) do not converge. In an interval of length h
the solution is a polynomial of degree STAGES whose rate equals F at the STAGES points (Ascher, Mattheij & Russell
1995); intervals are split until the polynomials fulfil the equation between the points too.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array

Rates = Callable[[Array, Array], Array]  # times (m,), states (m, n) -> F (m, n)
End = tuple[Array, Array]  # rows (k, n), and the state (n,) at which they vanish
STAGES = 4
MOST_INTERVALS, MOST_ROUNDS, MOST_STEPS = 50_000, 40, 30
CHECKED = np.array([0.02, 0.2, 0.5, 0.8, 0.98])  # places of an interval at which the equation is checked
MOST_SPLIT = 4


class NotSolved(ValueError):
    """The text says why."""


def _powers(c: Array) -> tuple[Array, Array]:
    """Of polynomials with given values at the points c: rows of coefficients, of themselves and of their integrals."""
    values = np.linalg.inv(np.vander(c, increasing=True)).T.astype(
        np.float64
    )  # row j: 1 at c_j, 0 at the others, in rising powers
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


def collocate(rates: Rates, left: End, right: End, t: Array, z: Array, tolerance: float) -> Collocated:
    """The solution with left[0] (z - left[1]) = 0 at t[0] and right[0] (z - right[1]) = 0 at t[-1], near a guess z.

    The error of an interval is h |z' - F| / (1 + |z|), the largest of it at most `tolerance`.

    Raises:
        NotSolved: Newton's method or the splitting of intervals does not come to an end.
    """
    try:
        with np.errstate(all="ignore"):  # a step too far may overflow before it is shortened
            return _collocated(rates, left, right, t, z, tolerance)
    except (np.linalg.LinAlgError, RuntimeError) as error:  # the latter of a singular sparse matrix
        raise NotSolved("the equations of Newton's method are singular") from error


def _collocated(rates: Rates, left: End, right: End, t: Array, z: Array, tolerance: float) -> Collocated:
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


def _newton(rates: Rates, left: End, right: End, t: Array, z: Array, K: Array, tolerance: float) -> tuple[Array, Array]:
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
    rates: Rates,
    left: End,
    right: End,
    t: Array,
    z: Array,
    K: Array,
    R: Array,
    r: Array,
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
