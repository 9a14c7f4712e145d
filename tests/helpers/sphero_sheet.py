"""The pendulum sphero's laws by hand: the explicit torques of its page, to compare with what is derived."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array

TARGET = {"x": "6*sin(0.05*t) - sin(0.3*t) + 2", "y": "5 + cos(0.3*t) - 6*cos(0.05*t)"}
POINT = {"l": 0.1, "i": 0.004, "C3": 0.003}  # a pendulum with A < m l R
E_Z = np.array([0.0, 0.0, 1.0])
N, OMEGA, PENDULUM = slice(2, 5), slice(5, 8), slice(8, 11)


def standard_target(t: float) -> Array:
    """Place, velocity and acceleration (3, 2) of the standard target."""
    s, c = np.sin, np.cos
    return np.array(
        [
            [6 * s(0.05 * t) - s(0.3 * t) + 2, 5 + c(0.3 * t) - 6 * c(0.05 * t)],
            [0.3 * c(0.05 * t) - 0.3 * c(0.3 * t), -0.3 * s(0.3 * t) + 0.3 * s(0.05 * t)],
            [-0.015 * s(0.05 * t) + 0.09 * s(0.3 * t), -0.09 * c(0.3 * t) + 0.015 * c(0.05 * t)],
        ]
    )


def random_parameters(rng: np.random.Generator) -> dict[str, float]:
    """Robots with friction whose pendulum swings about every program: A of 1.1 to 3 m l R."""
    ends = {"R": (0.1, 0.3), "M": (0.5, 2), "m": (0.5, 3), "g": (1, 12), "I": (0.005, 0.05)}
    p = {name: float(rng.uniform(*each)) for name, each in ends.items()}
    p["l"] = float(rng.uniform(0.1, 0.6)) * p["R"]
    p["i"] = p["m"] * p["l"] * (float(rng.uniform(1.1, 3)) * p["R"] - p["l"])
    p["C3"] = float(rng.uniform(0.2, 2)) * p["i"]
    return p | {"c_j": float(rng.uniform(0, 0.05)), "c_r": float(rng.uniform(0, 0.05))}


def random_state(rng: np.random.Generator, tilt: float = 1.3) -> dict[str, float]:
    """A state with a pendulum up to `tilt` [rad] off the vertical."""
    angle, heading = rng.uniform(0, tilt), rng.uniform(-np.pi, np.pi)
    n = [np.sin(angle) * np.cos(heading), np.sin(angle) * np.sin(heading), -np.cos(angle)]
    q = rng.normal(size=4)
    vectors = {"n": n, "omega": 2 * rng.normal(size=3), "Omega": 2 * rng.normal(size=3), "q": q / np.linalg.norm(q)}
    state = {"X": float(rng.normal()), "Y": float(rng.normal())}
    return state | {f"{name}_{k}": float(each) for name, vector in vectors.items() for k, each in enumerate(vector)}


def limited(vector: Array, bound: float) -> Array:
    """The vector brought down to a norm of `bound`."""
    return vector * min(1.0, bound / float(np.linalg.norm(vector)))


def turned(vector: Array) -> Array:
    """By +90 degrees."""
    return np.array([-vector[1], vector[0]])


@dataclass
class Law:
    """The torques of every program at one state (15 numbers) of one robot."""

    p: Mapping[str, float]
    x: Array

    def __post_init__(self) -> None:
        p, x = self.p, self.x
        self.ml = p["m"] * p["l"]
        self.A = p["i"] + self.ml * p["l"]
        self.mu = p["M"] + p["m"] + p["I"] / p["R"] ** 2
        self.k = self.ml**2 / self.A
        self.r, self.n, self.omega, self.Omega = x[:2], x[N], x[OMEGA], x[PENDULUM]
        self.v = p["R"] * np.array([self.omega[1], -self.omega[0]])
        self.n_dot = np.cross(self.Omega, self.n)
        self.s = self.Omega @ self.n
        self.slip = self.Omega - self.omega
        self.w = E_Z / p["R"] + self.ml / self.A * self.n
        n_h = self.n[:2]
        self.M_h = (self.mu - self.k) * np.eye(2) + self.k * np.outer(n_h, n_h)
        across = self.Omega - self.s * self.n
        pull = p["C3"] * self.s / self.A * across[:2] - across @ across * n_h
        pull += self.ml * p["g"] / self.A * self.n[2] * n_h
        self.r0 = -self.ml * pull - p["c_r"] / p["R"] ** 2 * self.v

    @property
    def a_max(self) -> float:
        return float(self.p["g"] * self.ml / np.sqrt((self.mu * self.p["R"]) ** 2 - self.ml**2))

    # section 5

    def torque(self, a: Array, rule: str, lambda_z: float = 2.0) -> Array:
        """What accelerates the centre with `a`, completed by a rule."""
        p, w = self.p, self.w
        b = self.M_h @ a - self.r0 + p["c_j"] * np.cross(w, self.slip)[:2]
        if rule == "min_norm":
            return -np.cross(w, np.array([b[0], b[1], -b @ w[:2] / w[2]])) / (w @ w)
        Q_z = (p["I"] * lambda_z - p["c_r"]) * self.omega[2] + p["c_j"] * (self.Omega[2] - self.omega[2])
        return np.array([(b[1] + w[0] * Q_z) / w[2], (w[1] * Q_z - b[0]) / w[2], Q_z])

    # section 7: accelerations of the centre, without internal damping

    def pursuit(self, P: Array, alpha: float, rho0: float, rate: float) -> Array:
        rho_vector = P[0] - self.r
        rho = np.linalg.norm(rho_vector)
        e = rho_vector / rho
        W = alpha * (1 - rho0 / rho) * rho_vector
        rho_dot = e @ (P[1] - self.v)
        a = alpha * rho_dot * e + alpha * (1 - rho0 / rho) * (P[1] - self.v - rho_dot * e)
        return np.asarray(a - rate * (self.v - W))

    def heading_and_speed(self, g_B: Array, V: Array, rate: float) -> Array:
        """7.2 with a speed program; value and rate of g_B and V."""
        size = np.sqrt(1 + g_B[0] ** 2)
        W = V[0] * np.array([1, -g_B[0]]) / size
        W_dot = V[1] * np.array([1, -g_B[0]]) / size + V[0] * g_B[1] * np.array([-g_B[0], -1]) / size**3
        return np.asarray(W_dot - rate * (self.v - W))

    def line(self, point: Array, direction: Array, V: Array, rate: float) -> Array:
        t = direction / np.linalg.norm(direction)
        nu = turned(t)
        f1, f1_dot, f2 = nu @ (self.r - point), nu @ self.v, t @ self.v - V[0]
        return np.asarray(t * (V[1] - rate * f2) + nu * (-2 * rate * f1_dot - rate**2 * f1))

    def circle(self, centre: Array, radius: float, V: Array, rate: float) -> Array:
        d = np.linalg.norm(self.r - centre)
        e = (self.r - centre) / d
        t = turned(e)
        v_r, v_t = e @ self.v, t @ self.v
        outwards = -(v_t**2) / d - 2 * rate * v_r - rate**2 * (d - radius)
        return np.asarray(e * outwards + t * (v_t * v_r / d + V[1] - rate * (v_t - V[0])))

    def trajectory(self, P: Array, rate: float) -> Array:
        return np.asarray(P[2] - 2 * rate * (self.v - P[1]) - rate**2 * (self.r - P[0]))

    def stop(self, rate: float) -> Array:
        return np.asarray(-rate * self.v)

    # section 7: torques of their own

    def bilimovich(self, g_B: Array, rate: float, kappa: float = 0.0) -> Array:
        """Heading alone; the damping stands where it does for a prescribed acceleration."""
        m, p = np.array([-g_B[0], -1]), self.p
        r0 = self.r0 - p["c_j"] * np.cross(self.w, self.slip)[:2]
        back = np.linalg.solve(self.M_h, m)
        f = self.omega[0] - g_B[0] * self.omega[1]
        wanted = p["R"] * (g_B[1] * self.omega[1] - rate * f) - kappa * m @ self.n_dot[:2]
        q = (back @ r0 - wanted) / (self.w[2] * m @ back)
        return np.asarray(q * np.array([1, -g_B[0], 0]))

    def tilt_acceleration(self, n_d: Array, rate: float) -> Array:
        """y of 7.7 for value, rate and second rate (3, 2) of the wanted n_h."""
        return np.asarray(n_d[2] - 2 * rate * (self.n_dot[:2] - n_d[1]) - rate**2 * (self.n[:2] - n_d[0]))

    def tilt(self, y: Array) -> Array:
        """The smallest torque for n_h'' = y."""
        p, ml = self.p, self.ml
        S = np.array([np.cross(self.w, each)[:2] for each in np.eye(3)]).T
        S_e = np.array([np.cross(E_Z, each)[:2] for each in np.eye(3)]).T
        K = (S_e / p["R"] - self.mu * np.linalg.solve(self.M_h, S)) / ml
        drift = (p["c_r"] / p["R"] ** 2 * self.v + self.mu * np.linalg.solve(self.M_h, self.r0)) / ml
        return np.asarray(K.T @ np.linalg.solve(K @ K.T, y + drift + p["c_j"] * K @ self.slip))

    def steady_tilt(self, a: Array) -> Array:
        """n_h of 7.8 for a wanted acceleration."""
        size, p = float(np.linalg.norm(a)), self.p
        if size < 1e-12:
            return np.zeros(2)
        angle = np.arcsin(self.mu * p["R"] * size / (self.ml * np.hypot(p["g"], size))) - np.arctan(size / p["g"])
        return np.asarray(np.sin(angle) * a / size)


def potential(law: Law, theta: float, a: float) -> float:
    """Pi(theta) of section 6."""
    p, ml, A, mu = law.p, law.ml, law.A, law.mu
    R, c, s = p["R"], np.cos(theta), np.sin(theta)
    push = A * mu * R * theta - ml * (A + mu * R**2) * s + ml**2 * R * (theta + s * c) / 2
    return float(ml * p["g"] * (A * (1 - c) - ml * R * s**2 / 2) - a * push)


def pursuit_path(alpha: float, rho0: float) -> Callable[[float, Array], Array]:
    """W(t, r) of the standard pursuit: the robot's path does not depend on its masses."""

    def W(t: float, r: Array) -> Array:
        d = standard_target(t)[0] - r
        return np.asarray(alpha * (1 - rho0 / np.linalg.norm(d)) * d)

    return W
