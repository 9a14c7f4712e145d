"""The snowboarder's programs by hand: matrix form, residuals with their rows and drifts, inputs. Plain numpy.

State (x0, y0, phi0, theta, sigma, v, omega, theta_dot, sigma_dot); triples in the blade's axes t, b, n. Nothing here is
shared with the programs under test.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
DEFAULTS = {"A": 1.5, "k": 0.2, "delta": 0.1, "theta_c": 0.0, "sigma_c": 0.0, "c_y": 0.0, "y_c": 0.0, "chi0": 0.0}


class Pose:
    """E, its derivatives, rates and the drift beta at a state."""

    def __init__(self, x: Array) -> None:
        theta, sigma, omega, p, q = x[3], x[4], x[6], x[7], x[8]
        st, ct, ss, cs = np.sin(theta), np.cos(theta), np.sin(sigma), np.cos(sigma)
        self.E = np.array([cs * st, ss, cs * ct])
        self.E_theta = np.array([cs * ct, 0.0, -cs * st])
        self.E_sigma = np.array([-ss * st, cs, -ss * ct])
        self.E_omega = np.array([-ss, cs * st, 0.0])
        self.r = self.E_theta * p + self.E_sigma * q
        E_t, E_b, E_n = self.E
        self.beta_0 = np.array([
            -E_t * (p**2 + q**2) - 2 * ss * ct * p * q,
            -E_b * q**2,
            -E_n * (p**2 + q**2) + 2 * ss * st * p * q,
        ])  # fmt: skip
        self.beta = self.beta_0 + np.array([
            -E_t * omega**2 - 2 * omega * self.r[1],
            -E_b * omega**2 + 2 * omega * self.r[0],
            0.0,
        ])  # fmt: skip


class Rider:
    """Matrix form M u' = F + (F_t, N_s, M_theta, M_sigma) of u = (v, omega, theta_dot, sigma_dot)."""

    def __init__(self, parameters: Any, gravity: str = "full") -> None:
        self.p = p = parameters
        d = p["l1"] * p["n1"]
        self.M, self.mu, self.I = p["m0"] + p["m1"], p["m1"] * d, p["m1"] * d**2 + p["J1"]
        self.L = self.I / self.mu
        self.s_g = 1.0 if gravity == "full" else 0.0

    def mass(self, x: Array) -> Array:
        st, ct, ss, cs = np.sin(x[3]), np.cos(x[3]), np.sin(x[4]), np.cos(x[4])
        mu, inertia = self.mu, self.I
        m = np.zeros((4, 4))
        m[0] = self.M, -mu * ss, mu * cs * ct, -mu * ss * st
        m[1, 1:] = self.p["J0"] + inertia * (1 - (cs * ct) ** 2), -inertia * ss * cs * ct, inertia * st
        m[2, 2], m[3, 3] = inertia * cs**2, inertia
        return np.triu(m) + np.triu(m, 1).T

    def force(self, x: Array) -> Array:
        p, pose, v, omega = self.p, Pose(x), x[5], x[6]
        g, alpha = p["g"], p["alpha"]
        G = g * np.array([np.sin(alpha) * np.cos(x[2]), -np.sin(alpha) * np.sin(x[2]), -np.cos(alpha)])
        along = self.M * G[0] - p["c1"] * v - p["c2"] * v * abs(v) - self.mu * pose.beta[0]
        inner = self.mu * self.s_g * G - self.mu * v * omega * np.array([0.0, 1.0, 0.0]) - self.I * pose.beta
        return np.array([along, *(row @ inner for row in (pose.E_omega, pose.E_theta, pose.E_sigma))])

    def physical(self, x: Array, G: Array, wanted: Array) -> tuple[Array, Array]:
        """u' and the inputs without thrust; `wanted` = G u'."""
        M, F = self.mass(x), self.force(x)
        u_dot = np.linalg.solve(np.vstack([M[0], G]), [F[0], *wanted])
        return u_dot, np.array([0.0, *(M @ u_dot - F)[1:]])

    def ideal(self, x: Array, G: Array, wanted: Array) -> tuple[Array, Array, Array]:
        """u', the inputs G^T lambda and lambda."""
        M, F = self.mass(x), self.force(x)
        solved = np.linalg.solve(np.block([[M, -G.T], [G, np.zeros((3, 3))]]), [*F, *wanted])
        return solved[:4], G.T @ solved[4:], solved[4:]

    def energy(self, x: Array) -> float:
        pose, p = Pose(x), self.p
        e_dot = pose.r + x[6] * pose.E_omega
        kinetic = self.M * x[5] ** 2 + p["J0"] * x[6] ** 2 + 2 * self.mu * x[5] * e_dot[0] + self.I * e_dot @ e_dot
        G = p["g"] * np.array(
            [np.sin(p["alpha"]) * np.cos(x[2]), -np.sin(p["alpha"]) * np.sin(x[2]), -np.cos(p["alpha"])]
        )
        potential = -self.M * p["g"] * np.sin(p["alpha"]) * x[0] - self.s_g * self.mu * G @ pose.E
        return float(kinetic / 2 + potential)


def total(x: Array, inputs: Array) -> Array:
    """The inputs with the whole yaw moment on the blade in place of the snow's."""
    pose = Pose(x)
    f = inputs[2] / np.cos(x[4]) ** 2 * pose.E_theta + inputs[3] * pose.E_sigma
    return inputs - np.array([0.0, f @ pose.E_omega, 0.0, 0.0])


@dataclass
class Jet:
    """A function of one variable by its value and first two derivatives."""

    a: float
    b: float = 0.0
    c: float = 0.0

    def __add__(self, other: "Jet | float") -> "Jet":
        o = other if isinstance(other, Jet) else Jet(other)
        return Jet(self.a + o.a, self.b + o.b, self.c + o.c)

    def __mul__(self, other: "Jet | float") -> "Jet":
        o = other if isinstance(other, Jet) else Jet(other)
        return Jet(self.a * o.a, self.a * o.b + self.b * o.a, self.a * o.c + 2 * self.b * o.b + self.c * o.a)

    def of(self, value: float, first: float, second: float) -> "Jet":
        """A function with these derivatives at self.a, of this one."""
        return Jet(value, first * self.b, second * self.b**2 + first * self.c)

    def power(self, n: float) -> "Jet":
        return self.of(self.a**n, n * self.a ** (n - 1), n * (n - 1) * self.a ** (n - 2))

    def arctan(self) -> "Jet":
        q = 1 + self.a**2
        return self.of(np.arctan(self.a), 1 / q, -2 * self.a / q**2)


class Rows:
    """f, f' (3,), G (3, 4) and b (3,) of a program at a state."""

    def __init__(self, rows: list[tuple[float, list[float], float]], u: Array) -> None:
        self.f = np.array([f for f, _, _ in rows])
        self.G = np.array([g for _, g, _ in rows], dtype=float)
        self.b = np.array([b for _, _, b in rows])
        self.f_dot = self.G @ u

    def wanted(self, K0: Array, K1: Array) -> Array:
        """G u' that the feedback asks for."""
        return -K1 @ self.f_dot - K0 @ self.f - self.b


def path(x: float, kind: str, s: dict[str, float]) -> list[float]:
    """f and four derivatives."""
    if kind == "line":
        return [s["y_c"] + x * np.tan(s["chi0"]), np.tan(s["chi0"]), 0.0, 0.0, 0.0]
    A, k = s["A"], s["k"]
    sine, cosine = np.sin(k * x), np.cos(k * x)
    return [A * sine, A * k * cosine, -A * k**2 * sine, -A * k**3 * cosine, A * k**4 * sine]


def graph_row(x: Array, f: list[float], c_y: float) -> tuple[float, list[float], float]:
    phi, v, omega = x[2], x[5], x[6]
    s, c = np.sin(phi), np.cos(phi)
    row = [-f[2] * c + c_y * (s - f[1] * c), 1 / c**2, 0.0, 0.0]
    b = 2 * s / c**3 * omega**2 - f[3] * c**2 * v**2 + f[2] * s * omega * v
    b += c_y * v * (omega * c + f[1] * omega * s - f[2] * v * c**2)
    return np.tan(phi) - f[1] + c_y * (x[1] - f[0]), row, b


def along_x(x: Array, value: float, wanted: Jet, column: int) -> tuple[float, list[float], float]:
    """The row of an angle that is to be a function of x0."""
    phi, v, omega = x[2], x[5], x[6]
    row = [-wanted.b * np.cos(phi), 0.0, 0.0, 0.0]
    row[column] = 1.0
    return value - wanted.a, row, -wanted.c * np.cos(phi) ** 2 * v**2 + wanted.b * np.sin(phi) * omega * v


def pitch(x: float, s: dict[str, float], k_theta: float) -> Jet:
    delta, sine, cosine = s["delta"], np.sin(k_theta * x), np.cos(k_theta * x)
    return Jet(s["theta_c"] - delta * cosine, delta * k_theta * sine, delta * k_theta**2 * cosine)


def carving_lean(rider: Rider, x: float, kind: str, s: dict[str, float]) -> Jet:
    """Sigma with two derivatives by Taylor arithmetic."""
    f = path(x, kind, s)
    g, alpha = rider.p["g"], rider.p["alpha"]
    k = s["k"] if kind == "sine" else 0.0
    slope, bend = Jet(f[1], f[2], f[3]), Jet(f[2], f[3], f[4])
    steep = slope * slope + 1.0
    down = 2 * g * np.sin(alpha)
    squared = Jet(s["V0"] ** 2 + down * (x - s["x_ref"]), down)
    sideways = bend * steep.power(-1.5) * squared + slope * steep.power(-0.5) * (g * np.sin(alpha))
    upright = squared * steep.power(-1.0) * (rider.L * k**2) + g * np.cos(alpha)
    lean: Jet = (sideways * upright.power(-1.0)).arctan()
    return lean


def slalom(rider: Rider, x: Array, kind: str, s: dict[str, float], lean: Jet | None = None) -> Rows:
    s = DEFAULTS | s
    k_theta = s.get("k_theta", s["k"])
    return Rows(
        [
            graph_row(x, path(x[0], kind, s), s["c_y"]),
            along_x(x, x[4], lean or Jet(s["sigma_c"]), 3),
            along_x(x, x[3], pitch(x[0], s, k_theta), 2),
        ],
        x[5:9],
    )


def carve(rider: Rider, x: Array, kind: str, s: dict[str, float]) -> Rows:
    return slalom(rider, x, kind, s, carving_lean(rider, x[0], kind, DEFAULTS | s))


def curve(rider: Rider, x: Array, s: dict[str, float], at: tuple[float, float]) -> Rows:
    """`at` is arc length and offset."""
    arc, n = at
    phi, v, omega = x[2], x[5], x[6]
    wave = 2 * np.pi / s["Lambda"]
    kappa, kappa_1 = s["kappa0"] + s["kappa1"] * np.cos(wave * arc), -s["kappa1"] * wave * np.sin(wave * arc)
    chi = s["chi0"] + s["kappa0"] * arc + s["kappa1"] / wave * np.sin(wave * arc)
    eta, D, q = phi - chi, 1 - kappa * n, 1 + (s["c_n"] * n) ** 2
    sine, cosine, c_n = np.sin(eta), np.cos(eta), s["c_n"]
    gamma = cosine / D
    arc_dot, n_dot = v * gamma, v * sine
    eta_dot = omega - kappa * arc_dot
    D_dot = -kappa_1 * arc_dot * n - kappa * n_dot
    gamma_dot = -sine * eta_dot / D - cosine * D_dot / D**2
    b1 = -kappa_1 * arc_dot * gamma - kappa * gamma_dot + c_n * cosine * eta_dot / q
    b1 = v * (b1 - 2 * c_n**3 * sine * n * n_dot / q**2)
    g, alpha = rider.p["g"], rider.p["alpha"]
    kappa_2 = -s["kappa1"] * wave**2 * np.cos(wave * arc)
    bend = Jet(kappa, kappa_1, kappa_2)
    towards = Jet(chi, kappa, kappa_1).of(np.sin(chi), np.cos(chi), -np.sin(chi))
    load = bend * s["V_d"] ** 2 + towards * (g * np.sin(alpha))
    lean = (load * (1 / (g * np.cos(alpha) + rider.L * s["Omega_d"] ** 2))).arctan() if s["V_d"] else Jet(0.0)
    b2 = -lean.c * arc_dot**2 - lean.b * v * gamma_dot
    return Rows(
        [
            (eta + np.arctan(c_n * n), [-kappa * gamma + c_n * sine / q, 1.0, 0.0, 0.0], b1),
            (x[4] - lean.a, [-lean.b * gamma, 0.0, 0.0, 1.0], b2),
            (x[3] - s["theta_c"], [0.0, 0.0, 1.0, 0.0], 0.0),
        ],
        x[5:9],
    )


def literal(rider: Rider, x: Array, s: dict[str, float]) -> Rows:
    pose, phi, v, omega = Pose(x), x[2], x[5], x[6]
    E, k, delta = pose.E, s["k"], s["delta"]
    across = np.hypot(E[0], E[1])

    def X(w: Array) -> float:
        return float((E[0] * w[1] - E[1] * w[0]) / across**2)

    b2 = X(pose.beta_0) - 2 * X(pose.r) * (E[0] * pose.r[0] + E[1] * pose.r[1]) / across**2
    sine, cosine = np.sin(k * x[0]), np.cos(k * x[0])
    b3 = (pose.beta_0[2] + E[2] * pose.r[2] ** 2 / across**2) / across
    b3 += delta * k**2 * cosine * np.cos(phi) ** 2 * v**2 - delta * k * sine * np.sin(phi) * omega * v
    return Rows(
        [
            graph_row(x, path(x[0], "sine", s), 0.0),
            (np.arctan2(E[1], E[0]), [0.0, 0.0, X(pose.E_theta), X(pose.E_sigma)], b2),
            (
                np.arcsin(E[2]) - s["psi_c"] - delta * cosine,
                [delta * k * sine * np.cos(phi), 0.0, pose.E_theta[2] / across, pose.E_sigma[2] / across],
                b3,
            ),
        ],
        x[5:9],
    )
