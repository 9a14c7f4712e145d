"""Sampled laws: which gains are stable under zero-order hold and delay, and which residuals remain.

The demand u_k = -K0 f - K1 f' - KI s of sample k, the wanted f^(r), acts from d periods after its sample on, for one
period T. With d = n + delta, n whole, the first delta T of period k is under u_{k-n-1} and the rest under u_{k-n}, so

    f_{k+1} = f_k + T [delta u_{k-n-1} + (1 - delta) u_{k-n}]
    f_{k+1} = f_k + T f'_k + T^2 [(delta - delta^2 / 2) u_{k-n-1} + (1 - delta)^2 / 2 u_{k-n}]

exactly, the first for relative degree 1 (and for f' of relative degree 2), the second for relative degree 2, and so on:
T^m/m! [(1 - (1 - delta)^m) u_{k-n-1} + (1 - delta)^m u_{k-n}] for a derivative that is m below the demanded one. Also
s_{k+1} = s_k + T f_k. The state is X = (f; f' where the relative degree is above 1; f'' where it is above 2; ...; s;
u_{k-1}; u_{k-2}; ...), residuals in the program's order. Limits follow from the spectral radius of its map; nothing is
looked up. Numbers without unit are in periods: x = lambda T. A model that is integrated over the torques already sent
(predictor) has the limits of d = 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import factorial
from typing import Literal

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.mechanics.stabilize import Gains, UnstableGains, eigenvalues, is_stable

REFUSE = 0.8  # of the limit: beyond it the model's errors decide about stability
SHARE = 1 / 3  # of the limit: what `auto_rate` takes at most
_WHOLE = 1e-9  # a delay nearer to a whole number than this is whole
_LARGE = 40  # entries of X from which on radii take so long that fewer are looked at
_ROUNDING = 1e-10  # spectral radii that exceed 1 by less are rounded; also where it separates slow from no decay


def sampled(gains: Gains, period: float, delay: float) -> tuple[Array, Array, Array]:
    """A, B, L of X_{k+1} = A X_k + B u_k, u_k = -L X_k, with X (n_X,) as above; period [s], delay [periods].
    Raises ValueError for a period that is not positive and a delay that is negative, or one that is not finite.
    """
    if not 0.0 < period < math.inf:
        raise ValueError(f"period is {period:g} s; it must be above 0")
    whole, delta = _split(delay)
    n, n_u, places = len(gains.relative_degrees), whole + (delta > 0.0), _places(gains)
    motion = np.eye(len(places) + len(gains.integrated))
    for (i, order), row in places.items():
        for m in range(1, gains.relative_degrees[i] - order):
            motion[row, places[i, order + m]] = period**m / factorial(m)
    motion[len(places) + np.arange(len(gains.integrated)), gains.integrated] = period
    columns = [_entry(gains, period, age - whole, delta) for age in range(n_u + 1)]
    past = np.hstack([*columns[1:], np.zeros((len(motion), 0))])
    shift = np.eye(n * n_u, n * (n_u + 1), 0)  # u_k becomes u_{k-1}, and so on
    A = np.block([[motion, past], [np.zeros((n * n_u, len(motion))), shift[:, n:]]])
    fed = [gains.K[order][:, gains.above(order)] for order in range(_most(gains))]
    L = np.hstack([*fed, gains.KI[:, gains.integrated], np.zeros((n, n * n_u))])
    return A, np.vstack([columns[0], shift[:, :n]]), L


def _most(gains: Gains) -> int:
    """The highest relative degree."""
    return max(gains.relative_degrees, default=1)


def _places(gains: Gains) -> dict[tuple[int, int], int]:
    """Residual and order of each derivative in X -> its place."""
    entries = [(i, order) for order in range(_most(gains)) for i in gains.above(order)]
    return {each: place for place, each in enumerate(entries)}


def _split(delay: float) -> tuple[int, float]:
    """The whole and the fractional part of a delay."""
    if not 0.0 <= delay < math.inf:
        raise ValueError(f"delay is {delay:g} periods; it must be 0 or more")
    whole = math.floor(delay + _WHOLE)
    return whole, delay - whole if delay - whole > _WHOLE else 0.0


def _entry(gains: Gains, period: float, late: int, delta: float) -> Array:
    """How a demand enters the derivatives and s; `late`: 0 for u_{k-n}, 1 for u_{k-n-1}, else it does not."""
    rows = np.zeros((len(_places(gains)) + len(gains.integrated), len(gains.relative_degrees)))
    for (i, order), row in _places(gains).items():
        m = gains.relative_degrees[i] - order
        rows[row, i] = period**m * _share(m, late, delta)
    return rows


def _share(m: int, late: int, delta: float) -> float:
    """What a demand leaves in its m-fold integral over the period, in units of T^m."""
    if late == 0:
        return (1 - delta) ** m / factorial(m)
    terms = (-((-delta) ** k) / (factorial(k) * factorial(m - k)) for k in range(1, m + 1))
    return sum(terms) if late == 1 else 0.0


def sampled_map(gains: Gains, period: float, delay: float) -> Array:
    """The closed loop Phi = A - B L, X_{k+1} = Phi X_k (n_X, n_X). Raises as `sampled`."""
    A, B, L = sampled(gains, period, delay)
    return np.asarray(A - B @ L)


def spectral_radius(gains: Gains, period: float, delay: float) -> float:
    """The factor of the residuals per period [s] in the long run; stable below 1. Raises as `sampled`."""
    return float(np.abs(np.linalg.eigvals(sampled_map(gains, period, delay))).max(initial=0.0))


def _radii(gains: Gains, delay: float) -> Callable[[Array], Array]:
    """The spectral radii as a function of many periods at once: in units of T only the gains depend on it."""
    A, B, L = sampled(gains, 1.0, delay)
    units = np.array([*(-order for _, order in _places(gains)), *(1 for _ in gains.integrated)])
    powers = np.array(gains.relative_degrees)[:, None] + np.pad(units, (0, L.shape[1] - len(units)))

    def radii(periods: Array) -> Array:
        maps = A - B @ (L * periods[:, None, None] ** powers)
        return np.asarray(np.abs(np.linalg.eigvals(maps)).max(axis=1))

    return radii


def longest_period(gains: Gains, delay: float) -> float:
    """The period [s] where the spectral radius first exceeds 1, looked for upwards in steps of 2 %.

    Raises:
        UnstableGains: the gains are not stable in continuous time either.
        ValueError: as `sampled`.
    """
    mu, radii = eigenvalues(gains), _radii(gains, delay)
    if not mu.size or not is_stable(gains):
        worst = complex(mu[0]) if mu.size else 0j
        raise UnstableGains(f"no period is stable: eigenvalue {worst:.4g} 1/s; take gains that `check` passes", worst)
    low, found = 0.02 * float(np.min(-mu.real / np.abs(mu) ** 2)) / (1.0 + delay), False
    coarse, fine = (101, 65) if _size(gains, delay) < _LARGE else (21, 9)
    while not found:
        low, high, found = _first_above(radii, np.geomspace(low, 7.0 * low, coarse))
    for _ in range(5):
        low, high, _ = _first_above(radii, np.linspace(low, high, fine))
    return low


def _size(gains: Gains, delay: float) -> float:
    """The number of entries of X, of which those that wait grow with the delay."""
    return len(gains.relative_degrees) * (1.0 + delay)


def _first_above(radii: Callable[[Array], Array], grid: Array) -> tuple[float, float, bool]:
    """The interval of the grid in which the radius passes 1, or twice its end and False; it starts stable."""
    above = radii(grid[1:]) > 1.0 + _ROUNDING
    i = int(np.argmax(above)) if above.any() else len(grid) - 2
    return float(grid[i + (not above.any())]), float(grid[i + 1]), bool(above.any())


def best_period(gains: Gains, delay: float) -> tuple[float, float]:
    """The period [s] with the smallest spectral radius, and that radius. Raises as `longest_period`."""
    radii, low, high = _radii(gains, delay), 0.0, longest_period(gains, delay)
    n = 100 if _size(gains, delay) < _LARGE else 12
    for _ in range(6):
        grid = np.linspace(low, high, n + 2)[1:-1]
        i = int(np.argmin(values := radii(grid)))
        low, high = grid[max(i - 1, 0)], grid[min(i + 1, n - 1)]
    return float(grid[i]), float(values[i])


@cache
def limit(relative_degree: int, delay: float) -> float:
    """The largest stable lambda T of one residual, both roots -lambda for 2. Raises ValueError as `sampled`."""
    return longest_period(Gains.from_rates([1.0], [relative_degree]), delay)


@cache
def best(relative_degree: int, delay: float) -> tuple[float, float]:
    """The lambda T with the smallest spectral radius, and that radius. Raises ValueError as `sampled`."""
    return best_period(Gains.from_rates([1.0], [relative_degree]), delay)


@dataclass(frozen=True)
class Margin:
    """How far a convergence rate is from its limit, in lambda T."""

    value: float
    limit: float
    best: float  # fastest convergence per period
    radius: float  # spectral radius at `value`

    @property
    def ratio(self) -> float:
        """Share of the limit that is used."""
        return self.value / self.limit

    @property
    def verdict(self) -> Literal["good", "warn", "refuse"]:
        """refuse above 0.8 of the limit; warn above the best value, where more gain is slower; else good."""
        if self.ratio > REFUSE:
            return "refuse"
        return "warn" if self.value > self.best else "good"


def margin(relative_degree: int, rate: float, period: float, delay: float) -> Margin:
    """The margin of a residual with convergence rate `rate` [1/s], 0: a plain one. Raises ValueError as `sampled`."""
    radius = spectral_radius(Gains.from_rates([rate], [relative_degree]), period, delay)
    return Margin(rate * period, limit(relative_degree, delay), best(relative_degree, delay)[0], radius)


def margin_of(gains: Gains, period: float, delay: float) -> Margin:
    """The margin of coupled gains, none plain; lambda is the largest eigenvalue's size. Raises as `longest_period`."""
    fastest = float(np.abs(eigenvalues(gains)).max(initial=0.0))
    longest, quickest = longest_period(gains, delay), best_period(gains, delay)[0]
    radius = spectral_radius(gains, period, delay)
    return Margin(fastest * period, fastest * longest, fastest * quickest, radius)


def auto_rate(relative_degree: int, period: float, delay: float) -> float:
    """The convergence rate lambda [1/s] of `auto`: a third of the limit or the best value, if that is less."""
    return min(SHARE * limit(relative_degree, delay), best(relative_degree, delay)[0]) / period


def held_noise(gains: Gains, period: float, delay: float, s_f: npt.ArrayLike, s_f_dot: npt.ArrayLike = 0.0) -> Array:
    """Standard deviations (n_s,) of the true residuals at the samples under that noise; each a number or (n_s,).

    From P = Phi P Phi^T + G G^T with the noise's entry G; for relative degree 1 and d = 0 it is sqrt(x / (2 - x)) s_f.
    Raises UnstableGains where the sampled law is not stable, and as `sampled`.
    """
    power = _stable_map(gains, period, delay)
    _, B, L = sampled(gains, period, delay)
    s = np.concatenate([_each(s_f, gains), _each(s_f_dot, gains)[gains.above(1)]])
    G = B @ L[:, : len(s)] * s
    total = G @ G.T
    while np.abs(power).max(initial=0.0) > 1e-18:  # doubling: the first 2^i terms of the sum of Phi^k G G^T Phi^kT
        total, power = total + power @ total @ power.T, power @ power
    return np.sqrt(np.diag(total)[: len(gains.relative_degrees)])


def steady_hold_residual(gains: Gains, period: float, delay: float, drift_rate: npt.ArrayLike) -> Array:
    """The residuals (n_s,) at the samples that remain because inputs are held while the motion asks for changing ones.

    drift_rate (n_s,) [unit of f^(r) / s]: how fast f^(r) changes while the inputs are held, w. What is in force is
    older by T (d + 1/2) on average, which acts as a disturbance w T (d + 1/2). Exact for steady w:
    f = w T (d + 1/2) / lambda for relative degree 1, and for 2
    f = w [T (d + 1/2) - lambda T^2 (1/6 - delta (1 - delta))] / lambda^2,
    at most |w| T (d + 1/2 + x/12) / lambda^2. Up to x = best the first also bounds f under varying |w| <= that w.
    Raises UnstableGains where the sampled law is not stable, and as `sampled`.
    """
    Phi, (whole, delta), w = _stable_map(gains, period, delay), _split(delay), _each(drift_rate, gains)
    degrees = gains.relative_degrees
    lag = np.array([_lag(degrees[i] - order, whole, delta, period) * w[i] for i, order in _places(gains)])
    return np.linalg.solve(np.eye(len(Phi)) - Phi, np.pad(lag, (0, len(Phi) - len(lag))))[: len(w)]


def _lag(m: int, whole: int, delta: float, period: float) -> float:
    """The m-fold integral over a period of the disturbance by inputs that are held, for a drift of 1."""
    return period ** (m + 1) * (1 / factorial(m + 1) + whole / factorial(m) + _share(m, 1, delta))


def _stable_map(gains: Gains, period: float, delay: float) -> Array:
    if (radius := spectral_radius(gains, period, delay)) >= 1.0:
        text = f"residuals grow by {radius:.4g} a period of {period:g} s with a delay of {delay:g} periods"
        raise UnstableGains(f"{text}; lower the gains or shorten period and delay", complex(math.log(radius) / period))
    return sampled_map(gains, period, delay)


def _each(values: npt.ArrayLike, gains: Gains) -> Array:
    return np.broadcast_to(np.asarray(values, dtype=float), (len(gains.relative_degrees),))
