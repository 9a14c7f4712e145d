"""A ball on a turning plate by hand: exact motion, its attitude integrated, the three-angle model by Euler's method.

Plain numpy and floats; nothing here is shared with the machine under test. Attitudes are quaternions from body to
space, scalar first; vectors are in space axes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import asin, cos, hypot, pi, sin, tan
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

Array = Any
SOLVER = {"method": "DOP853", "rtol": 3e-14, "atol": 1e-14}
K_DIAGONAL = (-5.0, 0.0, 0.0, -5.0)


@dataclass(frozen=True)
class Ball:
    """Parameters of ball and plate, and a start on the constraint."""

    Omega: float = 1.0
    r0: tuple[float, float] = (1.0, 0.0)
    omega0: tuple[float, float, float] = (0.0, 0.0, 0.5)
    G: tuple[float, float] = (0.0, 0.0)
    m: float = 1.0
    a: float = 1.0
    J: float = 0.4
    q0: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)

    @property
    def s(self) -> float:
        return self.J / (self.J + self.m * self.a**2)

    @property
    def v0(self) -> Array:
        """The velocity at which nothing slips (2,)."""
        (x, y), (w1, w2, _) = self.r0, self.omega0
        return np.array([self.a * w2 - self.Omega * y, -self.a * w1 + self.Omega * x])

    @property
    def turning(self) -> float:
        """Rate at which the velocity turns."""
        return self.s * self.Omega

    @property
    def centre(self) -> Array:
        (x, y), (x_dot, y_dot) = self.r0, self.v0
        return np.array([x - y_dot / self.turning, y + x_dot / self.turning])

    @property
    def drift(self) -> Array:
        """Velocity (2,) with which the circle moves across the slope."""
        return self.m * self.a**2 / (self.J * self.Omega) * np.array([-self.G[1], self.G[0]])

    def place(self, t: Any) -> Array:
        """x, y, x_dot, y_dot (4, ...) at times: a circle whose centre drifts."""
        relative = complex(*(np.array(self.r0) - self.centre))
        # the drift is part of v0, so the circle is that of the rest of it
        spun = complex(*(self.v0 - self.drift)) / (1j * self.turning)
        home = complex(*self.r0) - spun
        assert np.any(self.G) or abs(relative - spun) < 1e-12 * (1 + abs(spun))
        turn, drift = np.exp(1j * self.turning * np.asarray(t)), complex(*self.drift)
        r, v = home + spun * turn + drift * np.asarray(t), 1j * self.turning * spun * turn + drift
        return np.array([r.real, r.imag, v.real, v.imag])

    def omega(self, t: Any) -> Array:
        """Angular velocity (3, ...) at times, from the place at which nothing slips."""
        x, y, x_dot, y_dot = self.place(t)
        spin = self.omega0[2] + 0 * x
        return np.array([(self.Omega * x - y_dot) / self.a, (x_dot + self.Omega * y) / self.a, spin])

    def attitude(self, times: Any) -> Array:
        """q (4, n) at times, from the exact angular velocity at high order."""

        def rates(t: float, q: Array) -> Array:
            return quaternion_rate(self.omega(t), q)

        end = float(np.max(times))
        if end == 0.0:
            return np.array(self.q0)[:, None]
        found = solve_ivp(rates, (0.0, end), self.q0, t_eval=np.atleast_1d(times), max_step=0.1, **SOLVER)
        assert found.success
        return found.y / np.linalg.norm(found.y, axis=0)

    def centred_attitude(self, t: float) -> Array:
        """q (4,) in closed form, for a circle about the plate's axis."""
        assert np.allclose(self.centre, 0.0, atol=1e-12)
        k = np.array([0.0, 0.0, 1.0])
        body = turn(np.array(self.omega0) - self.turning * k, t)
        return product(product(turn(self.turning * k, t), body), np.array(self.q0))


S1 = Ball(Omega=0.1, r0=(0.0, 0.0), omega0=(-0.1, 1.02, 0.0))
S2 = Ball()
S3 = Ball(omega0=(5 / 7, 0.0, 0.5))
S4 = Ball(G=(-0.5, 0.0))


def product(p: Array, q: Array) -> Array:
    """The quaternion product p q."""
    return np.array([p[0] * q[0] - p[1:] @ q[1:], *(p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:]))])


def turn(rate: Array, t: float) -> Array:
    """exp(rate t / 2), the quaternion of a turn at a constant angular velocity."""
    size = float(np.linalg.norm(rate))
    axis = rate / size if size else rate
    return np.array([cos(size * t / 2), *(sin(size * t / 2) * axis)])


def quaternion_rate(omega: Array, q: Array) -> Array:
    """q' (4,) for an angular velocity in space axes."""
    w1, w2, w3 = omega
    return 0.5 * np.array([
        -w1 * q[1] - w2 * q[2] - w3 * q[3],
        w1 * q[0] + w2 * q[3] - w3 * q[2],
        w2 * q[0] + w3 * q[1] - w1 * q[3],
        w3 * q[0] + w1 * q[2] - w2 * q[1],
    ])  # fmt: skip


def body_frame_rate(omega: Array, q: Array) -> Array:
    """q' (4,) if the same three numbers are taken as an angular velocity in body axes."""
    return 0.5 * product(q, np.array([0.0, *omega]))


def between(q: Array, other: Array) -> float:
    """Angle [rad] of the turn from one attitude to the other."""
    return 4 * asin(min(1.0, min(np.linalg.norm(q - other), np.linalg.norm(q + other)) / 2))


def prints(value: float, text: str) -> bool:
    """Whether a number is printed so: rounded to the digits of the text."""
    mantissa, _, exponent = text.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(value - float(text)) <= 0.5001 * unit


def friction(p: Any, x: Array, K: Any = None, Omega_rate: float = 0.0) -> tuple[Array, Array]:
    """Friction force (2,) and slip (2,) at x, y, x_dot, y_dot, omega; p maps parameter names to values."""
    k1, k2, k3, k4 = K if K is not None else (p["k1"], p["k2"], p["k3"], p["k4"])
    f1 = x[2] - p["a"] * x[5] + p["Omega"] * x[1]
    f2 = x[3] + p["a"] * x[4] - p["Omega"] * x[0]
    ms = p["m"] * p["J"] / (p["J"] + p["m"] * p["a"] ** 2)
    F_x = ms * (k1 * f1 + k2 * f2 - p["g_x"] - p["Omega"] * x[3] - Omega_rate * x[1])
    F_y = ms * (k3 * f1 + k4 * f2 - p["g_y"] + p["Omega"] * x[2] + Omega_rate * x[0])
    return np.array([F_x, F_y]), np.array([f1, f2])


def rates(p: Any, x: Array, Omega_rate: float = 0.0) -> Array:
    """Rates (11,) of x, y, x_dot, y_dot, omega, q."""
    (F_x, F_y), _ = friction(p, x, Omega_rate=Omega_rate)
    spin = [p["a"] * F_y / p["J"], -p["a"] * F_x / p["J"], 0.0]
    pull = [F_x / p["m"] + p["g_x"], F_y / p["m"] + p["g_y"]]
    return np.array([x[2], x[3], *pull, *spin, *quaternion_rate(x[4:7], x[7:11])])


def columns(alpha: float, beta: float, gamma: float) -> tuple[Array, Array, Array]:
    """l, m, n: the angular velocities (3,) of unit rates of gamma, beta, alpha."""
    sa, ca, sb, cb, sg, cg = sin(alpha), cos(alpha), sin(beta), cos(beta), sin(gamma), cos(gamma)
    return (
        np.array([2 * ca**2 * cb**2, 2 * ca * cb * (sa * cg + ca * sb * sg), 2 * ca * cb * (sa * sg - ca * sb * cg)]),
        np.array([-2 * sa * ca * cb, 2 * ca * (ca * cg - sa * sb * sg), 2 * ca * (ca * sg + sa * sb * cg)]),
        np.array([2 * sb, -2 * cb * sg, 2 * cb * cg]),
    )


def attitude_of(alpha: float, beta: float, gamma: float) -> Array:
    """q (4,) of the three angles."""
    return np.array([
        cos(alpha) * cos(beta) * cos(gamma), cos(alpha) * cos(beta) * sin(gamma), cos(alpha) * sin(beta), sin(alpha)
    ])  # fmt: skip


def angle_rates(p: Any, z: Array, Omega_rate: float = 0.0) -> tuple[Array, Array, Array]:
    """Rates (10,) of x, y, alpha, beta, gamma and their rates; slip (2,) and omega (3,)."""
    x, y, alpha, beta, gamma, x_dot, y_dot, alpha_dot, beta_dot, gamma_dot = map(float, z)
    l, m, n = columns(alpha, beta, gamma)  # noqa: E741
    omega = l * gamma_dot + m * beta_dot + n * alpha_dot
    (F_x, F_y), slip = friction(p, np.array([x, y, x_dot, y_dot, *omega]), Omega_rate=Omega_rate)
    lever, ca, cb = p["a"] / (4 * p["J"]), cos(alpha), cos(beta)
    alpha_ddot = -sin(2 * alpha) / 2 * (beta_dot**2 + cb**2 * gamma_dot**2) + lever * (F_y * n[0] - F_x * n[1])
    beta_ddot = 2 * tan(alpha) * alpha_dot * beta_dot - sin(2 * beta) / 2 * gamma_dot**2
    beta_ddot += lever / ca**2 * (F_y * m[0] - F_x * m[1])
    gamma_ddot = 2 * tan(alpha) * alpha_dot * gamma_dot + 2 * tan(beta) * beta_dot * gamma_dot
    gamma_ddot += lever / (ca * cb) ** 2 * (F_y * l[0] - F_x * l[1])
    pull = [F_x / p["m"] + p["g_x"], F_y / p["m"] + p["g_y"]]
    return np.array([*z[5:10], *pull, alpha_ddot, beta_ddot, gamma_ddot]), slip, omega


@dataclass
class AngleRun:
    """What Euler's method makes of the three-angle model: states (rows, 10), size of the slip, jumps (t, from, to)."""

    t: Array
    z: Array
    slip: Array
    jumps: list[tuple[float, float, float]] = field(default_factory=list)

    @property
    def end(self) -> Array:
        return self.z[-1]

    @property
    def attitude(self) -> Array:
        return attitude_of(*self.end[2:5])


def parameters(ball: Ball, K: Any = K_DIAGONAL) -> dict[str, float]:
    """The parameters by name."""
    own = {"m": ball.m, "a": ball.a, "J": ball.J, "Omega": ball.Omega, "g_x": ball.G[0], "g_y": ball.G[1]}
    return own | dict(zip(("k1", "k2", "k3", "k4"), K, strict=True))


def angle_start(ball: Ball) -> Array:
    """x, y, alpha, beta, gamma and their rates (10,) of the start."""
    q = np.array(ball.q0)
    alpha, beta, gamma = asin(q[3]), np.arctan2(q[2], hypot(q[0], q[1])), np.arctan2(q[1], q[0])
    l, m, n = columns(alpha, beta, gamma)  # noqa: E741
    spun = np.linalg.solve(np.column_stack([n, m, l]), ball.omega0)
    return np.array([*ball.r0, alpha, beta, gamma, *ball.v0, *spun])


def skip(old: float, new: float, delta: float) -> float:
    """Where the new beta goes: a jump from the old one, the way it moves."""
    return old + delta if new > old else old - delta


def split(old: float, new: float, delta: float) -> float:
    """Where the new beta goes: a jump from the middle of the window, the way it moves."""
    middle = pi / 2 + pi * round((new - pi / 2) / pi)
    return middle + delta if new > old else middle - delta


Bypass = Callable[[float, float, float], float]


def euler_angles(
    ball: Ball, h: float, steps: int, K: Any, bypass: Bypass | None = None, epsilon: float = 0.05, delta: float = 0.87
) -> AngleRun:
    """The three-angle model by Euler's method, until it ends or grows beyond all bounds."""
    p, z = parameters(ball, K), angle_start(ball)
    states, slips, jumps = [z], [], []
    for i in range(steps):
        rate, slip, _ = angle_rates(p, z)
        slips.append(float(np.hypot(*slip)))
        new = z + h * rate
        if not np.all(np.abs(new) < 1e100):
            break
        off = (new[3] - pi / 2 + pi / 2) % pi - pi / 2
        if bypass is not None and abs(off) < epsilon:
            landed = bypass(float(z[3]), float(new[3]), delta)
            jumps.append(((i + 1) * h, float(z[3]), landed))
            new[3] = landed
        states.append(new)
        z = new
    slips.append(float(np.hypot(*angle_rates(p, z)[1])))
    n = len(states)
    return AngleRun(h * np.arange(n), np.array(states), np.array(slips[:n]), jumps)
