"""A hoop on a profile in plain numbers: consistent states, where the energy lets it get, the full equations by hand.

On the profile the motion has one freedom, the contact abscissa q with the centre's speed s, and the energy gives s
wherever the hoop gets. docs/systems/hoop_on_profile.md has the formulas.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.plants.hoop.profile import STEEP, Ground, Profile

Real = Any  # a float or an array of floats

STATES = ("x", "z", "theta", "x_dot", "z_dot", "theta_dot", "alpha")
CHUNK = 256  # profile points that are looked at together
PER_RADIUS = 4  # profile points per hoop radius, near the start
COARSER = 8  # chunks after which points stand twice as far apart
MOST = 400_000  # points in one direction
SAMPLES = 4001  # points in the range of the motion, for its largest values


class TooCurved(ValueError):
    """A valley narrower than the hoop, at x with a curvature radius [m]."""

    def __init__(self, x: float, radius: float) -> None:
        super().__init__(f"x = {x:.6g}, radius {radius:.6g}")
        self.x, self.radius = x, radius


class ProfileEnd(ValueError):
    """The profile ends or stands vertical at x."""

    def __init__(self, x: float, z: float | None = None) -> None:
        super().__init__(f"x = {x:.6g}")
        self.x, self.z = x, z


@dataclass(frozen=True)
class Hoop:
    """Mass [kg], radius [m], inertia ratio, gravity [m/s^2]."""

    M: float
    r: float
    kappa: float
    g: float

    @property
    def J(self) -> float:
        """Its central inertia [kg m^2]."""
        return self.kappa * self.M * self.r**2

    def start(self, ground: Ground, s: float) -> dict[str, float]:
        """The state that touches at a profile point and rolls with speed s, theta = 0."""
        x, z = ground.centre(self.r)
        W = float(ground.W)
        values = (x, z, 0.0, s / W, s * ground.slope / W, -s / self.r + 0.0, ground.alpha)
        return dict(zip(STATES, map(float, values), strict=True))

    def energy(self, state: Mapping[str, float]) -> float:
        """Kinetic plus potential energy of a state [J]."""
        moving = self.M * (state["x_dot"] ** 2 + state["z_dot"] ** 2) + self.J * state["theta_dot"] ** 2
        return moving / 2 + self.M * self.g * state["z"]

    def speed_squared(self, ground: Ground, energy: float) -> Real:
        """s^2 [m^2/s^2] at profile points, below 0 where the energy does not suffice."""
        return 2 * (energy / self.M - self.g * ground.centre(self.r)[1]) / (1 + self.kappa)

    def normal_force(self, ground: Ground, square: Real) -> Real:
        """n [N] at profile points for s^2."""
        curvature = ground.curvature
        return self.M * (self.g / ground.W + square * curvature / (1 - self.r * curvature))

    def tangential_force(self, ground: Ground) -> Real:
        """F_t [N] at profile points."""
        return self.kappa / (1 + self.kappa) * self.M * self.g * ground.slope / ground.W


@dataclass(frozen=True)
class Rates:
    """The full equations with their stabilisation, as numbers: what servonode derives, once more by hand."""

    profile: Profile
    hoop: Hoop
    rate: float  # lambda [1/s]
    epsilon: float
    energy: float  # E_0 [J]

    def local(self, x: Array) -> tuple[Array, Array, Array, Array, Array, Any]:
        """mu, chi, eta, tau, H, h at the contact point of a state (7,)."""
        c, s = math.cos(x[6]), math.sin(x[6])
        h = self.profile.jet(x[0] + self.hoop.r * c, x[1] + self.hoop.r * s)
        eta, H = np.array([h.x, h.z], float), np.array([[h.xx, h.xz], [h.xz, h.zz]], float)
        return np.array([c, s]), np.array([-s, c]), eta, np.array([-eta[1], eta[0]]), H, h

    def residuals(self, x: Array) -> Array:
        """f1..f4 at a state (7,)."""
        b = self.hoop
        mu, chi, _, tau, _, h = self.local(x)
        v = x[3:5]
        energy = b.M * (v @ v) / 2 + b.J * x[5] ** 2 / 2 + b.M * b.g * x[1] - self.energy
        return np.array([float(h.value), energy, v @ chi + b.r * x[5], mu @ tau])

    def reactions(self, x: Array) -> Array:
        """R_x, R_z, Q, U at a state (7,)."""
        b, rate = self.hoop, self.rate
        mu, chi, eta, _, H, _ = self.local(x)
        v, turning = x[3:5], x[5]
        f1, f2, f3, f4 = self.residuals(x)
        U = (v @ H @ chi - rate * f4) / (eta @ mu - b.r * (chi @ H @ chi))
        g1 = v @ eta
        k = turning / (turning**2 + self.epsilon**2)
        part = (1 - k * turning) * b.r
        contact = b.g * eta[1] - v @ H @ v - b.r * (v @ H @ chi) * U - 2 * rate * (g1 - b.r * U * f4) - rate**2 * f1
        rows = [
            [*eta, 0.0],
            [k * v[0] + part * mu[1], k * v[1] - part * mu[0], 1.0],
            [*chi, 1 / (b.kappa * b.r)],
        ]
        right = [b.M * contact, -rate * f2 * k, b.M * (b.g * mu[0] - rate * f3 + U * (v @ mu))]
        return np.array([*np.linalg.solve(rows, right), U])

    def __call__(self, x: Array) -> Array:
        """The rates (7,) of a state."""
        b = self.hoop
        R_x, R_z, Q, U = self.reactions(x)
        return np.array([*x[3:6], R_x / b.M, R_z / b.M - b.g, Q / b.J, U])

    def normal_force(self, x: Array) -> float:
        """n [N] at a state (7,)."""
        return float(-(self.reactions(x)[:2] @ self.local(x)[0]))

    def largest_residual(self, x: Array, step: float, count: int) -> float:
        """The largest |f_i| over a run by the classical Runge-Kutta method; infinite where the motion escapes."""
        worst = 0.0
        for _ in range(count):
            k1 = self(x)
            k2 = self(x + step / 2 * k1)
            k3 = self(x + step / 2 * k2)
            x = x + step / 6 * (k1 + 2 * k2 + 2 * k3 + self(x + step * k3))
            worst = max(worst, float(np.abs(self.residuals(x)).max()))
        return worst if np.isfinite(x).all() else math.inf


@dataclass(frozen=True)
class Segment:
    """The profile points outward from the start in one direction, and the time to the last one [s].

    turns: whether the hoop turns there; else the time is over before, or contact lost.
    """

    points: Ground
    square: Array  # s^2 at the points [m^2/s^2]
    time: float
    turns: bool


@dataclass(frozen=True)
class ReachableRange:
    """Where the energy and the run's duration let the hoop get: the profile there from left to right, and s^2.

    closed: whether it turns on both sides. period: the time for there and back [s], or that of the run.
    """

    points: Ground
    square: Array
    closed: bool
    period: float
    turns: tuple[bool, bool]  # on the left, on the right

    def lowest(self, r: float) -> float | None:
        """The lowest height of the centre [m]; None where it continues falling when the time is over."""
        heights = np.asarray(self.points.centre(r)[1])
        i = int(np.argmin(heights))
        falls = (i == 0 and not self.turns[0]) or (i == len(heights) - 1 and not self.turns[1])
        return None if falls and len(heights) > 1 else float(heights[i])


class ProfileTraversal:
    """Goes along a profile from a start point with a certain energy.

    It has a method for each question on the way: where it ends, turns, loses contact, and how long it takes.

    Raises (its methods): TooCurved, ProfileEnd.
    """

    def __init__(self, profile: Profile, hoop: Hoop, start: Ground, energy: float) -> None:
        self.profile, self.hoop, self.start, self.energy = profile, hoop, start, energy

    def reach(self, s: float, duration: float) -> ReachableRange:
        """Where it gets from the start with the speed s there in this time."""
        downhill = -np.sign(float(self.start.slope))
        ahead = float(np.sign(s) or downhill)
        if ahead == 0.0:  # at rest where nothing pulls, perhaps on a top: either way
            segments = {side: self.segment(side, duration) for side in (-1.0, 1.0)}
        else:
            first = self.segment(ahead, duration)
            left = duration - 2 * first.time if first.turns else 0.0
            segments = {ahead: first, -ahead: self.segment(-ahead, left)}
        left_segment, right_segment = segments[-1.0], segments[1.0]
        points, square = self._sampled(left_segment, right_segment)
        self._check_curvature(points)
        closed = left_segment.turns and right_segment.turns
        period = 2 * (left_segment.time + right_segment.time)
        return ReachableRange(
            points, square, closed, period if closed else duration, (left_segment.turns, right_segment.turns)
        )

    def segment(self, ahead: float, limit: float) -> Segment:
        """Outward in the direction +1 or -1 for at most the time `limit` [s], and as long as it keeps contact."""
        parts, time, spacing, chunks = [self.start_points()], 0.0, self.hoop.r / PER_RADIUS, 0
        while limit > 0 and chunks * CHUNK < MOST:
            chunks += 1
            last = _point(parts[-1], -1)
            more = self.ground(last, float(last.q) + ahead * spacing * np.arange(1.0, CHUNK + 1))
            square = np.asarray(self.hoop.speed_squared(more, self.energy))
            beyond = int(np.argmax(square < 0)) if (square < 0).any() else len(square)
            inside = _cut(more, beyond)
            taken = np.cumsum(self._times(_joined(_cut(parts[-1], None, -1), inside)))
            late = min(int(np.searchsorted(taken, limit - time)), self._leaves(inside))
            if late < len(taken):
                parts.append(_cut(inside, late + 1))
                return self._segment(parts, limit, False)
            time += float(taken[-1]) if len(taken) else 0.0
            parts.append(inside)
            if beyond < CHUNK:  # the hoop gets to the last of them: only now it matters what comes after
                before = _point(_joined(_cut(parts[-2], None, -1), inside), -1)
                q = float(last.q) + ahead * spacing * (beyond + 1)
                return self._ended(parts, before, q, beyond < len(square), time, limit)
            if chunks % COARSER == 0:
                spacing *= 2
        return self._segment(parts, limit, False)

    def _ended(
        self, parts: list[Ground], last: Ground, q: float, energy_ends: bool, time: float, limit: float
    ) -> Segment:  # fmt: skip
        """The segment whose last point was reached at a time [s], and that ends somewhere between this point and q.

        Raises:
            ProfileEnd: the profile does, and neither time nor contact before.
        """
        high = q if energy_ends else self._last_place(last, q)
        if not energy_ends and self._square(self.next(last, high)) >= 0:
            end = _row(self.next(last, high))
            if time + self._shortest(_joined(_row(last), end)) >= limit or self._leaves(end) == 0:
                return self._segment(parts, limit, False)
            place = self.profile.vertical(high, float(end.p[0])) if self.profile.implicit else None
            raise ProfileEnd(*(place or (high, None)))
        turn = self._turning_point(last, high)
        time += float(self._times(_joined(_row(last), turn))[0])
        if time >= limit:
            return self._segment([*parts, turn], limit, False)
        return self._segment([*parts, turn], time, True)

    def _leaves(self, points: Ground) -> int:
        """The first of the points at which the profile would have to pull; their number if none exists."""
        square = np.maximum(np.asarray(self.hoop.speed_squared(points, self.energy)), 0.0)
        pulls = (np.asarray(self.hoop.normal_force(points, square)) < 0) & (points.bend < 0)
        return int(np.argmax(pulls)) if pulls.any() else len(pulls)

    def start_points(self) -> Ground:
        """The start as an array of one point."""
        return _row(self.start)

    def ground(self, last: Ground, q: Array) -> Ground:
        """The profile at abscissae that continue from a last point; it is cut where the profile ends or is vertical."""
        if not self.profile.implicit:
            found = self.profile.at(q, np.zeros_like(q))
        else:
            points = []
            for each in q:
                last = self.next(last, float(each))
                if not _stands(last):
                    break
                points.append((last.q, last.p, last.slope, last.bend))
            found = Ground(*np.array(points, float).reshape(-1, 4).T)
        bad = ~_stands(found)
        return _cut(found, int(np.argmax(bad)) if bad.any() else len(bad))

    def next(self, last: Ground, q: float) -> Ground:
        """The point at q on the branch of the last one; nan if none exists."""
        z = self.profile.height(q, float(last.p + last.slope * (q - last.q)))
        point = self.profile.at(q, z)
        fits = not self.profile.implicit or float(self.profile.jet(q, z).z) < 0
        return point if fits else Ground(q, np.nan, np.nan, np.nan)

    def _last_place(self, last: Ground, q: float) -> float:
        """The last abscissa between a last point and q that is still profile."""
        low, high = float(last.q), q
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if bool(_stands(self.next(last, middle))) else (low, middle)
        return low

    def _turning_point(self, last: Ground, high: float) -> Ground:
        """The turning point between a last point and an abscissa where the energy does not suffice."""
        from scipy.optimize import brentq

        if self._square(last) <= 0 or high == float(last.q):
            return _row(last)
        where = brentq(lambda q: self._square(self.next(last, q)), float(last.q), high, xtol=1e-15)
        return _row(self.next(last, float(where)))

    def _square(self, point: Ground) -> float:
        return float(self.hoop.speed_squared(point, self.energy))

    def _times(self, points: Ground) -> Array:
        """The times between neighbours [s]: as if it accelerated evenly from one to the next."""
        s = np.sqrt(np.maximum(np.asarray(self.hoop.speed_squared(points, self.energy)), 0.0))
        path = np.abs(np.diff(points.q) * _between((1 - self.hoop.r * points.curvature) * points.W))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(path > 0, path / _between(s), 0.0)

    def _shortest(self, two: Ground) -> float:
        """No more than the time between two points [s]: the centre straight on, since W may grow beyond all bounds."""
        x, z = two.centre(self.hoop.r)
        s = np.sqrt(np.maximum(np.asarray(self.hoop.speed_squared(two, self.energy)), 0.0))
        path = float(np.hypot(*np.diff([x, z])[:, 0]))
        return path / float(s.max()) if path > 0 and s.max() > 0 else 0.0

    def _segment(self, parts: list[Ground], time: float, turns: bool) -> Segment:
        points = parts[0]
        for each in parts[1:]:
            points = _joined(points, each)
        return Segment(points, np.maximum(np.asarray(self.hoop.speed_squared(points, self.energy)), 0.0), time, turns)

    def _sampled(self, left: Segment, right: Segment) -> tuple[Ground, Array]:
        """Both segments as one row of points, at least SAMPLES of them."""
        points = _joined(Ground(*(each[::-1] for each in _entries(left.points))), _cut(right.points, None, 1))
        q, once = np.unique(points.q, return_index=True)
        points = Ground(*(each[once] for each in _entries(points)))
        if 1 < len(q) < SAMPLES:
            fine = np.linspace(q[0], q[-1], SAMPLES)
            points = self.profile.at(fine, self._heights(points, fine))
        return points, np.maximum(np.asarray(self.hoop.speed_squared(points, self.energy)), 0.0)

    def _heights(self, points: Ground, fine: Array) -> Array:
        """The heights at abscissae between points that are known."""
        from scipy.interpolate import CubicHermiteSpline

        z = np.asarray(CubicHermiteSpline(points.q, points.p, points.slope)(fine))
        for _ in range(6 if self.profile.implicit else 0):
            h = self.profile.jet(fine, z)
            z = z - h.value / h.z
        return z

    def _check_curvature(self, points: Ground) -> None:
        curvature = np.asarray(points.curvature)
        i = int(np.argmax(curvature))
        if 1 - self.hoop.r * curvature[i] <= 0:
            raise TooCurved(float(points.q[i]), float(1 / curvature[i]))


def _entries(points: Ground) -> tuple[Array, Array, Array, Array]:
    return points.q, points.p, points.slope, points.bend


def _point(points: Ground, i: int) -> Ground:
    return Ground(*(each[i] for each in _entries(points)))


def _row(point: Ground) -> Ground:
    """One point as arrays."""
    return Ground(*(np.array([float(each)]) for each in _entries(point)))


def _cut(points: Ground, end: int | None, first: int = 0) -> Ground:
    return Ground(*(each[first:end] for each in _entries(points)))


def _joined(one: Ground, other: Ground) -> Ground:
    return Ground(*map(np.concatenate, zip(_entries(one), _entries(other), strict=True)))


def _between(values: Array) -> Array:
    return (values[1:] + values[:-1]) / 2


def _stands(points: Ground) -> Any:
    """Where there is a profile that is not vertical."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(points.p) & np.isfinite(points.bend) & (np.abs(points.slope) < STEEP)


def largest_second_changes(profile: Profile, hoop: Hoop, reach: ReachableRange) -> Array:
    """S_i = max |X'^T f_i'' X'| of the four residuals over the motion (4,); what a step leaves of them is as large."""
    points, s = reach.points, np.sqrt(reach.square)
    W, curvature, r = points.W, points.curvature, hoop.r
    mu, chi = np.array([points.slope, -np.ones_like(W)]) / W, np.array([np.ones_like(W), points.slope]) / W
    U = curvature * s / (1 - r * curvature)
    n, F_t = hoop.normal_force(points, reach.square), hoop.tangential_force(points)
    a = (F_t * chi - n * mu) / hoop.M - np.array([0.0 * W, hoop.g + 0.0 * W])
    moved = (s + r * U) * chi  # the contact point's velocity

    def gradient(shift: float) -> tuple[Array, Array]:
        h = profile.jet(points.q + shift * moved[0], points.p + shift * moved[1])
        zero = np.zeros_like(W)
        H = np.array([[h.xx + zero, h.xz + zero], [h.xz + zero, h.zz + zero]])
        return np.array([h.x + zero, h.z + zero]), np.einsum("ijk,jk->ik", H, moved)

    def dot(one: Array, other: Array) -> Array:
        return np.asarray(np.einsum("ik,ik->k", one, other))

    tiny = 1e-4 * r / max(float(np.abs(moved).max()), 1e-300)
    eta, H_moved = gradient(0.0)
    bent = (gradient(tiny)[1] - gradient(-tiny)[1]) / (2 * tiny)  # the third derivatives of h along the motion
    h = profile.jet(points.q, points.p)
    H_mu = np.array([h.xx * mu[0] + h.xz * mu[1], h.xz * mu[0] + h.zz * mu[1]])
    turned = np.array([-mu[1], mu[0]])  # f4 = (eta, -turned) up to the sign
    second = (
        dot(moved, H_moved) - r * U**2 * dot(eta, mu),
        hoop.M * dot(a, a) + F_t**2 / (hoop.kappa * hoop.M),
        -s * U**2 - 2 * U * dot(a, mu),
        dot(bent - r * U**2 * H_mu, -turned) + 2 * U * dot(H_moved, mu) - U**2 * dot(eta, -turned),
    )
    return np.array([float(np.abs(each).max()) for each in second])
