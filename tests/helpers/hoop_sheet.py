"""The hoop on a profile by hand: the explicit equations of its page, and the motion reduced to one freedom.

Nothing of servonode is used. Profiles are given by their derivatives, written out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import ellipk

Array = Any
DEFAULT = {"M": 1.0, "r": 0.01, "kappa": 1.0, "g": 9.81}
A, B = 0.13, 0.5
STANDARD = "x**4 + 0.13*x**3 - 0.5*x**2 - 0.13*x - 0.5"
SOLVER: Any = {"method": "DOP853", "rtol": 3e-14, "atol": 1e-15}


@dataclass(frozen=True)
class Curve:
    """A graph z = p(x): p, p', p'' as a function; and h, h_x, h_z, h_xx, h_xz, h_zz at a place."""

    text: str
    graph: Callable[[float], tuple[float, float, float]]
    jet: Callable[[float, float], tuple[float, float, float, float, float, float]]


def of_graph(text: str, graph: Callable[[float], tuple[float, float, float]]) -> Curve:
    """A curve of p, p', p''."""

    def jet(x: float, z: float) -> tuple[float, float, float, float, float, float]:
        p, first, second = graph(x)
        return p - z, first, -1.0, second, 0.0, 0.0

    return Curve(text, graph, jet)


def _standard(x: float) -> tuple[float, float, float]:
    p = x**4 + A * x**3 - B * x**2 - A * x - (1 - B)
    return p, 4 * x**3 + 3 * A * x**2 - 2 * B * x - A, 12 * x**2 + 6 * A * x - 2 * B


def incline(slope: float) -> Curve:
    """z = -slope x."""
    return of_graph(f"-{slope}*x", lambda x: (-slope * x, -slope, 0.0 * x))


def wave() -> Curve:
    """A cosine on a slope."""
    return of_graph(
        "0.2*cos(2*x) - 0.1*x",
        lambda x: (0.2 * np.cos(2 * x) - 0.1 * x, -0.4 * np.sin(2 * x) - 0.1, -0.8 * np.cos(2 * x)),
    )


def ellipse(a: float, b: float) -> Curve:
    """The lower half of an ellipse, given implicitly."""

    def graph(x: float) -> tuple[float, float, float]:
        root = np.sqrt(1 - (x / a) ** 2)
        return -b * root, b * x / a**2 / root, b / a**2 / root**3

    def jet(x: float, z: float) -> tuple[float, float, float, float, float, float]:
        return (x / a) ** 2 + (z / b) ** 2 - 1, 2 * x / a**2, 2 * z / b**2, 2 / a**2, 0.0, 2 / b**2

    return Curve(f"x**2/{a**2} + z**2/{b**2} - 1", graph, jet)


standard = of_graph(STANDARD, _standard)


@dataclass(frozen=True)
class Explicit:
    """The right-hand side with all terms, solved by hand, at states (x, z, theta, x', z', theta', alpha)."""

    curve: Curve
    p: Mapping[str, float]
    rate: float
    epsilon: float
    energy: float
    turning: str = "blended"
    full: bool = True  # False: without the terms that vanish on the profile, as the paper has it

    def __post_init__(self) -> None:
        assert self.turning in ("blended", "energy")

    def residuals(self, y: Array) -> Array:
        """f1..f4."""
        x, z, _, vx, vz, w, alpha = y
        M, r, kappa, g = (self.p[name] for name in ("M", "r", "kappa", "g"))
        c, s = np.cos(alpha), np.sin(alpha)
        h, hx, hz, *_ = self.curve.jet(x + r * c, z + r * s)
        energy = 0.5 * M * (vx * vx + vz * vz) + 0.5 * kappa * M * r * r * w * w + M * g * z - self.energy
        return np.array([h, energy, -vx * s + vz * c + r * w, hx * s - hz * c])

    def reactions(self, y: Array) -> Array:
        """R_x, R_z, Q, U: U alone; Q from the rolling; the two forces by Cramer's rule."""
        x, z, _, vx, vz, w, alpha = y
        M, r, kappa, g = (self.p[name] for name in ("M", "r", "kappa", "g"))
        rate, full = self.rate, float(self.full)
        c, s = np.cos(alpha), np.sin(alpha)
        h, hx, hz, hxx, hxz, hzz = self.curve.jet(x + r * c, z + r * s)
        _, f2, f3, f4 = self.residuals(y)
        H_chi = (-hxx * s + hxz * c, -hxz * s + hzz * c)
        d = hx * c + hz * s - r * (-s * H_chi[0] + c * H_chi[1])
        across = vx * H_chi[0] + vz * H_chi[1]
        U = (across - rate * f4) / d
        vHv = hxx * vx * vx + 2 * hxz * vx * vz + hzz * vz * vz
        g1 = vx * hx + vz * hz
        a = M * (g * hz - vHv - r * across * U - 2 * rate * (g1 - full * r * U * f4) - rate**2 * h)
        rolling = M * (g * c - rate * f3 + full * U * (vx * c + vz * s))
        if self.turning == "energy":
            moves = w != 0
            cx, cz, cq, b = (vx, vz, w, -rate * f2) if moves else (r * s, -r * c, 1.0, 0.0)
        else:
            k = w / (w * w + self.epsilon**2)
            rest = self.epsilon**2 / (w * w + self.epsilon**2)
            cx, cz, cq, b = k * vx + rest * r * s, k * vz - rest * r * c, 1.0, -rate * f2 * k
        # Q = kappa r (rolling + s R_x - c R_z)
        cx, cz, b = cx + cq * kappa * r * s, cz - cq * kappa * r * c, b - cq * kappa * r * rolling
        det = hx * cz - hz * cx
        R_x, R_z = (a * cz - hz * b) / det, (hx * b - a * cx) / det
        return np.array([R_x, R_z, kappa * r * (rolling + s * R_x - c * R_z), U])

    def rates(self, y: Array) -> Array:
        """The seven rates."""
        M, r, kappa, g = (self.p[name] for name in ("M", "r", "kappa", "g"))
        R_x, R_z, Q, U = self.reactions(y)
        return np.array([y[3], y[4], y[5], R_x / M, R_z / M - g, Q / (kappa * M * r * r), U])

    def outputs(self, y: Array) -> dict[str, float]:
        """n, F_t, g1, d."""
        r = self.p["r"]
        c, s = np.cos(y[6]), np.sin(y[6])
        _, hx, hz, hxx, hxz, hzz = self.curve.jet(y[0] + r * c, y[1] + r * s)
        R_x, R_z, *_ = self.reactions(y)
        chi_H_chi = hxx * s * s - 2 * hxz * s * c + hzz * c * c
        return {
            "n": -(R_x * c + R_z * s),
            "F_t": -R_x * s + R_z * c,
            "g1": y[3] * hx + y[4] * hz,
            "d": hx * c + hz * s - r * chi_H_chi,
        }


@dataclass(frozen=True)
class Reduced:
    """The exact motion: contact abscissa q, the centre's speed s, the angle theta. Regular everywhere."""

    curve: Curve
    p: Mapping[str, float]

    def rates(self, _t: float, y: Array) -> Array:
        """q', s', theta'."""
        q, s, _ = y
        r, kappa, g = (self.p[name] for name in ("r", "kappa", "g"))
        _, first, second = self.curve.graph(q)
        W = np.sqrt(1 + first * first)
        return [s / ((1 - r * second / W**3) * W), -g / (1 + kappa) * first / W, -s / r]

    def at(self, q: float, s: float, times: Any, **more: Any) -> Array:
        """q, s, theta (3, times) from q and s at time 0."""
        times = np.atleast_1d(np.asarray(times, float))
        y, t, rows = np.array([q, s, 0.0]), 0.0, []
        for time in times:  # one solve an interval: the solver's steps are better than its dense output
            if time > t:
                y = solve_ivp(self.rates, (t, time), y, **{**SOLVER, **more}).y[:, -1]
            t = time
            rows.append(y)
        return np.array(rows).T

    def state(self, y: Array) -> Array:
        """The seven states of q, s, theta."""
        q, s, theta = y
        r = self.p["r"]
        p, first, _ = self.curve.graph(q)
        W = np.sqrt(1 + first * first)
        alpha = np.arctan2(-1.0, first)
        return np.array([q - r * first / W, p + r / W, theta, s / W, s * first / W, -s / r, alpha])

    def energy(self, q: float, s: float) -> float:
        """[J]."""
        M, kappa, g = (self.p[name] for name in ("M", "kappa", "g"))
        return float(0.5 * M * (1 + kappa) * s * s + M * g * self.state((q, s, 0.0))[1])

    def forces(self, y: Array) -> Array:
        """n, F_t, U."""
        q, s, _ = y
        M, r, kappa, g = (self.p[name] for name in ("M", "r", "kappa", "g"))
        _, first, second = self.curve.graph(q)
        W = np.sqrt(1 + first * first)
        bend = second / W**3
        n = M * g / W + M * s * s * bend / (1 - r * bend)
        return np.array([n, kappa / (1 + kappa) * M * g * first / W, bend * s / (1 - r * bend)])


def bowl_period(R: float, r: float, swing: float, kappa: float, g: float) -> float:
    """There and back in a circular bowl of radius R, the centre swinging to an angle [rad]."""
    return float(4 * ellipk(np.sin(swing / 2) ** 2) * np.sqrt((1 + kappa) * (R - r) / g))
