"""The machines of `verdict_machines` by hand, their laws, and a simulation that servonode has no part in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

Array = Any
Accelerations = Callable[[Array, Array, Array], Array]  # of coordinates, rates, inputs
Law = Callable[[float, Array, Array], Array]
g = 9.81


def crane(q: Array, v: Array, u: Array, M: float = 2.0, m: float = 0.5, L: float = 0.8, c: float = 0.05) -> Array:
    s, k = np.sin(q[1]), np.cos(q[1])
    inertia = [[M + m, m * L * k], [m * L * k, m * L**2]]
    return np.linalg.solve(inertia, [u[0] + m * L * s * v[1] ** 2, -m * g * L * s - c * v[1]])


def heavy_crane(q: Array, v: Array, u: Array) -> Array:
    return crane(q, v, u, m=600.0)


def segway(q: Array, v: Array, u: Array, M: float = 1.0, m: float = 5.0, L: float = 0.5, r: float = 0.1) -> Array:
    s, k = np.sin(q[1]), np.cos(q[1])
    inertia = [[M + m, m * L * k], [m * L * k, m * L**2]]
    return np.linalg.solve(inertia, [u[0] / r + m * L * s * v[1] ** 2, m * g * L * s - u[0]])


def furuta(q: Array, v: Array, u: Array) -> Array:
    J, m, a, L, c = 0.02, 0.2, 0.2, 0.3, 0.005
    s, k = np.sin(q[1]), np.cos(q[1])
    inertia = [[J + m * a**2 + m * L**2 * s**2, m * a * L * k], [m * a * L * k, m * L**2]]
    first = u[0] - 2 * m * L**2 * s * k * v[0] * v[1] + m * a * L * s * v[1] ** 2
    return np.linalg.solve(inertia, [first, m * L**2 * s * k * v[0] ** 2 - m * g * L * s - c * v[1]])


def two_links(q: Array, v: Array, torques: Sequence[float]) -> Array:
    m1, m2, l1, l2, c = 1.0, 0.7, 0.5, 0.4, 0.1
    k, h = m2 * l1 * l2 * np.cos(q[1]), m2 * l1 * l2 * np.sin(q[1])
    inertia = [[(m1 + m2) * l1**2 + m2 * l2**2 + 2 * k, m2 * l2**2 + k], [m2 * l2**2 + k, m2 * l2**2]]
    far = m2 * g * l2 * np.sin(q[0] + q[1])
    first = h * (2 * v[0] * v[1] + v[1] ** 2) - (m1 + m2) * g * l1 * np.sin(q[0]) - far - c * v[0] + torques[0]
    return np.linalg.solve(inertia, [first, -h * v[0] ** 2 - far - c * v[1] + torques[1]])


def pendubot(q: Array, v: Array, u: Array) -> Array:
    return two_links(q, v, [u[0], 0.0])


def acrobot(q: Array, v: Array, u: Array) -> Array:
    return two_links(q, v, [0.0, u[0]])


def ball_and_beam(q: Array, v: Array, u: Array, J: float = 0.02, m: float = 0.1) -> Array:
    ball = (q[0] * v[1] ** 2 - g * np.sin(q[1])) * 5 / 7
    return np.array([ball, (u[0] - 2 * m * q[0] * v[0] * v[1] - m * g * q[0] * np.cos(q[1])) / (J + m * q[0] ** 2)])


def tora(q: Array, v: Array, u: Array, M: float = 1.0, m: float = 0.2, e: float = 0.2) -> Array:
    s, k = np.sin(q[1]), np.cos(q[1])
    inertia = [[M + m, m * e * k], [m * e * k, 0.01 + m * e**2]]
    return np.linalg.solve(inertia, [m * e * s * v[1] ** 2 - 5.0 * q[0], u[0]])


def quadrotor(q: Array, v: Array, u: Array) -> Array:
    return np.array([-u[0] * np.sin(q[2]), u[0] * np.cos(q[2]) - g, u[1] / 0.02])


def pendulum(q: Array, v: Array, u: Array, m: float = 0.2, L: float = 0.5, c: float = 0.02) -> Array:
    return np.array([(u[0] - c * v[0] - m * g * L * np.sin(q[0])) / (m * L**2)])


def pivot(q: Array, v: Array, u: Array, M: float = 1.0, m: float = 0.2, L: float = 0.3, c: float = 0.002) -> Array:
    s, k = np.sin(q[1]), np.cos(q[1])
    inertia = [[M + m, m * L * s], [m * L * s, m * L**2]]
    return np.linalg.solve(inertia, [u[0] - m * L * k * v[1] ** 2 - (M + m) * g, -m * g * L * s - c * v[1]])


def hoist(q: Array, v: Array, u: Array, M: float = 2.0, m: float = 3.0, J: float = 0.05, r: float = 0.1) -> Array:
    """Unknown are the accelerations and the tension S of the rope."""
    l, s, k = q[1], np.sin(q[2]), np.cos(q[2])  # noqa: E741
    rows = [[M, 0, 0, -s], [0, J / r**2, 0, -1], [1, s, l * k, s / m], [0, -k, l * s, -k / m]]
    turned = [2 * v[1] * v[2] * k - l * v[2] ** 2 * s, 2 * v[1] * v[2] * s + l * v[2] ** 2 * k]
    return np.linalg.solve(rows, [u[0], u[1] / r, -turned[0], -g - turned[1]])[:3]


def elastic_arm(q: Array, v: Array, u: Array) -> Array:
    twist = 50.0 * (q[0] - q[1])
    return np.array([(u[0] - twist) / 0.05, (twist - 5.0 * np.sin(q[1])) / 0.3])


def pvtol(q: Array, v: Array, u: Array, e: float = 0.2) -> Array:
    s, k = np.sin(q[2]), np.cos(q[2])
    return np.array([-u[0] * s + e * u[1] * k, u[0] * k + e * u[1] * s - g, u[1]])


def follow(machine: Accelerations, rows: Sequence[int], goals: Sequence[Callable[[float], float]], n: int) -> Law:
    """Inputs under which q_i - y_i =: f obeys f'' = -6 f' - 9 f; the n inputs enter affinely."""

    def law(t: float, q: Array, v: Array) -> Array:
        free = machine(q, v, np.zeros(n))[list(rows)]
        moved = np.array([machine(q, v, each)[list(rows)] - free for each in np.eye(n)]).T
        h = 1e-4
        y = np.array([[goal(t + k * h) for k in (-1, 0, 1)] for goal in goals])
        y_dot, y_ddot = (y[:, 2] - y[:, 0]) / (2 * h), (y[:, 2] - 2 * y[:, 1] + y[:, 0]) / h**2
        wanted = y_ddot - 6 * (v[list(rows)] - y_dot) - 9 * (q[list(rows)] - y[:, 1])
        return np.linalg.solve(moved, wanted - free)

    return law


@dataclass(frozen=True)
class Motion:
    """What the simulation by hand found: times, states (n, 2 n_q), whether it came to its end."""

    times: Array
    states: Array
    whole: bool

    def late(self, f: Callable[[float, Array], Array]) -> Array:
        """The largest of each |f_i| in the last quarter."""
        quarter = self.times > 0.75 * self.times[-1]
        values = [np.abs(f(t, x)) for t, x in zip(self.times[quarter], self.states[quarter], strict=True)]
        return np.max(values, axis=0)


def move(
    machine: Accelerations, law: Law, start: Array, duration: float, period: float = 0.0, limit: float = np.inf
) -> Motion:
    """The motion under a law, held over `period` [s] (0: continuous); it ends where it is no longer finite."""
    n = len(start) // 2

    def rates(t: float, x: Array, held: Array | None = None) -> Array:
        u = law(t, x[:n], x[n:]) if held is None else held
        return np.concatenate([x[n:], machine(x[:n], x[n:], np.clip(u, -limit, limit))])

    def runs_away(t: float, x: Array) -> float:
        return 1e3 - float(np.abs(x).max())

    runs_away.terminal = True  # type: ignore[attr-defined]
    if not period:
        grid = np.linspace(0.0, duration, 1001)
        found = solve_ivp(
            rates, (0, duration), start, t_eval=grid, rtol=1e-8, atol=1e-10, events=runs_away, method="LSODA"
        )
        return Motion(found.t, found.y.T, found.status == 0)
    times, states = [0.0], [np.asarray(start, dtype=float)]
    while times[-1] < duration - period / 2:
        t, x = times[-1], states[-1]
        u = law(t, x[:n], x[n:])
        for _ in range(4):  # Runge and Kutta's rule, four steps a period
            h = period / 4
            a = rates(t, x, u)
            b = rates(t, x + h / 2 * a, u)
            c = rates(t, x + h / 2 * b, u)
            x = x + h / 6 * (a + 2 * b + 2 * c + rates(t, x + h * c, u))
        times.append(t + period)
        states.append(x)
        if not np.isfinite(x).all() or np.abs(x).max() > 1e3:
            return Motion(np.array(times), np.array(states), False)
    return Motion(np.array(times), np.array(states), True)
