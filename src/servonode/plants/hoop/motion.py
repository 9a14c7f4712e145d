"""A hoop on a profile in plain numbers: consistent states, where the energy lets it get, the full equations by hand.

On the profile the motion has one freedom, the contact abscissa q with the centre's speed s, and the energy gives s
wherever the hoop gets. docs/systems/hoop_on_profile.md has the formulas.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.plants.hoop.profile import Ground, Jet, Profile, row
from servonode.plants.prepare import Unprepared, boundary

Real = Any  # a float or an array of floats

STATES = ("x", "z", "theta", "x_dot", "z_dot", "theta_dot", "alpha")
CHUNK = 256  # profile points that are looked at first; then twice as many, and so on
PER_RADIUS = 4  # profile points per hoop radius, near the start
OFFSETS = np.cumsum(2.0 ** (np.arange(2**16) // 2048))  # where they stand, further and further apart
SAMPLES = 4001  # points in the range of the motion, for its largest values


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


@dataclass(frozen=True)
class Rates:
    """The full equations with their stabilisation, as numbers: what servonode derives, once more by hand."""

    profile: Profile
    hoop: Hoop
    rate: float  # lambda [1/s]
    epsilon: float
    energy: float  # E_0 [J]

    def local(self, x: Array) -> tuple[Array, Array, Jet, Array]:
        """mu, chi, h at the contact point of a state (7,), and the residuals f1..f4."""
        b, c, s = self.hoop, math.cos(x[6]), math.sin(x[6])
        h = self.profile.jet(x[0] + b.r * c, x[1] + b.r * s)
        energy = b.energy(dict(zip(STATES, x.tolist(), strict=True))) - self.energy
        slip = x[4] * c - x[3] * s + b.r * x[5]
        return np.array([c, s]), np.array([-s, c]), h, np.array([float(h.value), energy, slip, s * h.x - c * h.z])

    def residuals(self, x: Array) -> Array:
        """f1..f4 at a state (7,)."""
        return self.local(x)[3]

    def reactions(self, x: Array) -> Array:
        """R_x, R_z, Q, U at a state (7,)."""
        b, rate = self.hoop, self.rate
        mu, chi, h, (f1, f2, f3, f4) = self.local(x)
        eta, H = np.array([h.x, h.z], float), np.array([[h.xx, h.xz], [h.xz, h.zz]], float)
        v, turning = x[3:5], x[5]
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
    time: float
    turns: bool


@dataclass(frozen=True)
class ReachableRange:
    """Where the energy and the run's duration let the hoop get: the profile there from left to right, and s^2.

    period: the time for there and back [s], or that of the run. turns: on the left, on the right.
    """

    points: Ground
    square: Array
    period: float
    turns: tuple[bool, bool]


@dataclass(frozen=True)
class ProfileTraversal:
    """Goes along a profile from a start point with a certain energy, to where it ends, turns, or loses contact.

    Raises (its methods): Unprepared.
    """

    profile: Profile
    hoop: Hoop
    start: Ground
    energy: float

    def reach(self, s: float, duration: float) -> ReachableRange:
        """Where it gets from the start with the speed s there in this time."""
        ahead = float(np.sign(s) or -np.sign(float(self.start.slope)))
        if ahead == 0.0:  # at rest where nothing pulls, perhaps on a top: either way
            segments = {side: self.segment(side, duration) for side in (-1.0, 1.0)}
        else:
            first = self.segment(ahead, duration)
            left = duration - 2 * first.time if first.turns else 0.0
            segments = {ahead: first, -ahead: self.segment(-ahead, left)}
        sides = (segments[-1.0], segments[1.0])
        points = row(*(each.points for each in sides))
        points = points[np.unique(points.q, return_index=True)[1]]
        if 1 < len(points.q) < SAMPLES:
            points = self._sampled(points)
        self._check_curvature(points)
        turns = (sides[0].turns, sides[1].turns)
        period = 2 * (sides[0].time + sides[1].time) if all(turns) else duration
        return ReachableRange(points, np.maximum(self._square(points), 0.0), period, turns)

    def segment(self, ahead: float, limit: float) -> Segment:
        """Outward in the direction +1 or -1 for at most the time `limit` [s], and as long as it keeps contact."""
        points, count = row(self.start), 0
        while limit > 0 and count < len(OFFSETS):
            count = 2 * count or CHUNK
            q = float(self.start.q) + ahead * self.hoop.r / PER_RADIUS * OFFSETS[:count]
            points = self._continued(points, q[len(points.q) - 1 :])
            inside = _first(self._square(points)[1:] < 0)
            times = np.cumsum(self._times(points[: inside + 1]))
            over = _first((times >= limit) | self._pulls(points)[1 : inside + 1])
            if over < inside:
                return Segment(points[: over + 2], limit, False)
            if inside < count:  # the hoop gets to the last of them: only now it matters what comes after
                return self._ended(points[: inside + 1], float(q[inside]), float(times[-1]) if inside else 0.0, limit)
        return Segment(points, limit, False)

    def _ended(self, points: Ground, q: float, time: float, limit: float) -> Segment:
        """The segment whose last point was reached at a time [s], and that ends somewhere between this point and q.

        Raises:
            Unprepared: the profile does, and neither time nor contact before.
        """
        last = points[-1]

        def goes_on(q: float) -> bool:
            point = self._next(last, q)
            return bool(point.stands) and self._square(point) >= 0

        low, high = boundary(goes_on, float(last.q), q)
        end = row(last if low == last.q else self._next(last, low))
        time += float(self._times(row(last, end))[0])
        turns = bool(self._next(last, high).stands)
        if time >= limit or turns:
            return Segment(row(points, end), min(time, limit), turns and time < limit)
        if self._pulls(end)[0]:
            return Segment(points, limit, False)
        place = self.profile.vertical(low, float(end.p[0])) if self.profile.implicit else None
        where = f"x = {low:.6g}" if place is None else f"x = {place[0]:.6g}, z = {place[1]:.6g}"
        text = f"the profile ends or is vertical at {where}, and the hoop gets there"
        raise Unprepared("plant.settings", "profile", f"{text}; start lower or slower, or run for a shorter time")

    def _pulls(self, points: Ground) -> npt.NDArray[np.bool_]:
        """At which points the profile would have to pull."""
        square = np.maximum(self._square(points), 0.0)
        return np.asarray((self.hoop.normal_force(points, square) < 0) & (points.bend < 0))

    def _continued(self, points: Ground, q: Array) -> Ground:
        """The points and those at abscissae after them; it is cut where the profile ends or is vertical."""
        if not self.profile.implicit:
            more = self.profile.at(q, np.zeros_like(q))
            return row(points, more[: _first(~more.stands)])
        found = [points[-1]]
        for each in q:
            found.append(self._next(found[-1], float(each)))
            if not found[-1].stands:
                return row(points, *found[1:-1])
        return row(points, *found[1:])

    def _next(self, last: Ground, q: float) -> Ground:
        """The point at q on the branch of the last one; nan if none exists."""
        z = self.profile.height(q, float(last.p + last.slope * (q - last.q)))
        point = self.profile.at(q, z)
        fits = not self.profile.implicit or float(self.profile.jet(q, z).z) < 0
        return point if fits else Ground(q, np.nan, np.nan, np.nan)

    def _square(self, points: Ground) -> Any:
        return self.hoop.speed_squared(points, self.energy)

    def _times(self, points: Ground) -> Array:
        """The times between neighbours [s]: the centre straight on, as if it accelerated evenly."""
        s = np.sqrt(np.maximum(self._square(points), 0.0))
        path = np.hypot(*np.diff(points.centre(self.hoop.r)))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(path > 0, path / _between(s), 0.0))

    def _sampled(self, points: Ground) -> Ground:
        """SAMPLES points of the same range, each from the nearest of these."""
        q = np.linspace(points.q[0], points.q[-1], SAMPLES)
        near = points[np.searchsorted(_between(points.q), q)]
        z = near.p + (q - near.q) * (near.slope + (q - near.q) * near.bend / 2)
        for _ in range(6 if self.profile.implicit else 0):
            h = self.profile.jet(q, z)
            z = z - h.value / h.z
        return self.profile.at(q, z)

    def _check_curvature(self, points: Ground) -> None:
        i = int(np.argmax(points.curvature))
        curvature, r = float(points.curvature[i]), self.hoop.r
        if 1 - r * curvature <= 0:
            text = f"too narrow a valley at x = {points.q[i]:.4g}: its radius is {1 / curvature:.4g} m, the hoop's "
            raise Unprepared("plant.settings", "profile", f"{text}{r:g} m; make r smaller or the profile flatter")


def _first(holds: npt.NDArray[np.bool_]) -> int:
    """The first place at which it holds; the length where it does nowhere."""
    return int(np.argmax(holds)) if holds.any() else len(holds)


def _between(values: Array) -> Array:
    return (values[1:] + values[:-1]) / 2


def largest_second_changes(profile: Profile, hoop: Hoop, reach: ReachableRange) -> Array:
    """S_i = max |X'^T f_i'' X'| of the four residuals over the motion (4,); what a step leaves of them is as large."""
    points, s = reach.points, np.sqrt(reach.square)
    W, curvature, r = points.W, points.curvature, hoop.r
    mu, chi = np.array([points.slope, -np.ones_like(W)]) / W, np.array([np.ones_like(W), points.slope]) / W
    U = curvature * s / (1 - r * curvature)
    n = hoop.normal_force(points, reach.square)
    F_t = hoop.kappa / (1 + hoop.kappa) * hoop.M * hoop.g * points.slope / points.W
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
