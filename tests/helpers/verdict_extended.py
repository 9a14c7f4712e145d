"""Goals of relative degree 4 by hand: machines of `verdict_sheet` with laws from their flat outputs.

Crane, quadrotor and aircraft are moved alike: a point p has p'' = T n - g e, n = (-sin phi, cos phi) the direction of
rope or thrust, e upwards. The law demands T and phi'' such that (d/dt + 3)^4 (p - y) = 0, with T'' as its input: T is a
coordinate more.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy

from tests.helpers import verdict_sheet as sheet
from tests.helpers.verdict_sheet import Accelerations, Law, g

Array = Any
RATE = 3.0  # 1/s, of all residuals


class Goals:
    """Functions of t with their derivatives, from texts."""

    def __init__(self, *texts: str) -> None:
        t = sympy.Symbol("t")
        rows = [[sympy.sympify(text, {"t": t}).diff(t, n) for text in texts] for n in range(5)]
        self._of = sympy.lambdify(t, rows)

    def __call__(self, time: float) -> Array:
        """Derivatives 0 to 4 (5, n)."""
        return np.array(self._of(time), dtype=float)


def fourth(f: Sequence[Array], y: Array) -> Array:
    """The fourth derivative that is demanded, of f to f''' and the goals y (5, n)."""
    weights = [RATE**4, 4 * RATE**3, 6 * RATE**2, 4 * RATE]
    return y[4] - sum(weight * (each - goal) for weight, each, goal in zip(weights, f, y[:4], strict=True))


def directions(phi: float) -> tuple[Array, Array]:
    """n and b = dn/dphi."""
    return np.array([-np.sin(phi), np.cos(phi)]), np.array([-np.cos(phi), -np.sin(phi)])


def thrust_law(goals: Goals, p: Any, p_dot: Any) -> Law:
    """T'' and phi'', of coordinates (.., phi, T); p and p_dot: functions of coordinates and rates."""

    def law(t: float, q: Array, v: Array) -> Array:
        (n, b), T, T_dot, turning = directions(q[2]), q[3], v[3], v[2]
        f = [p(q), p_dot(q, v), T * n - [0, g], T_dot * n + T * turning * b]
        w = fourth(f, goals(t))
        return np.array([n @ w + T * turning**2, (b @ w - 2 * T_dot * turning) / T])

    return law


def on_goal(goals: Goals) -> tuple[float, float, float, float]:
    """phi, T and their rates at t = 0 on the goal."""
    y = goals(0.0)
    along = y[2] + [0, g]
    phi, T = float(np.arctan2(-along[0], along[1])), float(np.hypot(*along))
    n, b = directions(phi)
    return phi, T, float(y[3] @ b) / T, float(y[3] @ n)


def quadrotor(limit: float = np.inf) -> Accelerations:
    """Coordinates x, z, phi, T; inputs T'' and phi''."""

    def accelerations(q: Array, v: Array, u: Array) -> Array:
        T = float(np.clip(q[3], -limit, limit))
        return np.array([-T * np.sin(q[2]), T * np.cos(q[2]) - g, u[1], u[0]])

    return accelerations


def pvtol(q: Array, v: Array, u: Array, e: float = 0.2) -> Array:
    """Coordinates x, z, phi, T: T is the thrust less e phi'^2."""
    return np.append(sheet.pvtol(q, v, [q[3] + e * v[2] ** 2, u[1]]), u[0])


def hoist(limit: float = np.inf, M: float = 2.0, m: float = 3.0, J: float = 0.05, r: float = 0.1) -> Accelerations:
    """Coordinates s, l, theta, T: m T is the demanded tension of the rope, for which the inputs are found."""

    def accelerations(q: Array, v: Array, u: Array) -> Array:
        l, s, k, T, turning = q[1], np.sin(q[2]), np.cos(q[2]), q[3], u[1]  # noqa: E741
        l_ddot = (2 * v[1] * v[2] * s + l * turning * s + l * v[2] ** 2 * k - (T * k - g)) / k
        s_ddot = -T * s - l_ddot * s - 2 * v[1] * v[2] * k - l * turning * k + l * v[2] ** 2 * s
        inputs = np.clip([M * s_ddot - m * T * s, J / r * l_ddot - r * m * T], -limit, limit)
        return np.append(sheet.hoist(q, v, inputs), u[0])

    return accelerations


def arm_law(goals: Goals, J: float = 0.05, I: float = 0.3, k: float = 50.0, W: float = 5.0) -> Law:  # noqa: E741
    """The torque of the elastic arm."""

    def law(t: float, q: Array, v: Array) -> Array:
        twist, p, p_dot = k * (q[0] - q[1]), q[1], v[1]
        p_ddot = (twist - W * np.sin(p)) / I
        third = (k * (v[0] - p_dot) - W * np.cos(p) * p_dot) / I
        w = fourth([np.array([each]) for each in (p, p_dot, p_ddot, third)], goals(t))[0]
        q_ddot = p_ddot + (I * w + W * (np.cos(p) * p_ddot - np.sin(p) * p_dot**2)) / k
        return np.array([J * q_ddot + twist])

    return law
