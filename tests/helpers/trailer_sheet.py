"""The robot with trailer by hand: the closed forms of its model sheet, to compare with what is derived."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from servonode.arrays import Array


def wrap(angle: float) -> float:
    return (angle + np.pi) % (2 * np.pi) - np.pi


def random_state(rng: np.random.Generator) -> Array:
    """X, Y, psi, phi, V, Omega, theta1, theta2 and the work."""
    return rng.normal(size=9) * [3.0, 3.0, 2.0, 1.0, 1.0, 1.0, 9.0, 9.0, 1.0]


def random_parameters(rng: np.random.Generator, friction: bool = True) -> dict[str, float]:
    """Machines of all sizes; the platform's centre of mass may be behind its axle."""
    names = ("m1", "m_k", "m2", "I2", "Iky", "Ikz", "b", "l", "r")
    p = dict(zip(names, map(float, np.exp(rng.normal(scale=0.4, size=9))), strict=True))
    p = {name: value * SIZES[name] for name, value in p.items()}
    p["d1"] = float(rng.normal(scale=0.3))
    p["I1"] = p["m1"] * p["d1"] ** 2 + float(rng.uniform(0.1, 1.0))
    return p | ({"c_w": float(rng.uniform(0.001, 0.1))} if friction else {})


SIZES = {
    "m1": 4.0,
    "m_k": 1.0,
    "m2": 2.0,
    "I2": 0.3,
    "Iky": 0.0028,
    "Ikz": 0.0014,
    "b": 1.0,
    "l": 0.2,
    "r": 0.075,
}


@dataclass
class Trailer:
    """Sections 2 and 3 of the sheet; states are X, Y, psi, phi, V, Omega, theta1, theta2."""

    p: Mapping[str, float]
    Mt: float = field(init=False)
    M0: float = field(init=False)
    J1: float = field(init=False)
    J2: float = field(init=False)
    kd: float = field(init=False)

    def __post_init__(self) -> None:
        p = self.p
        self.Mt = p["m1"] + p["m2"] + 2 * p["m_k"]
        self.M0 = self.Mt + 2 * p["Iky"] / p["r"] ** 2
        self.J1 = p["I1"] + 2 * p["m_k"] * p["l"] ** 2 + 2 * p["Ikz"] + 2 * p["l"] ** 2 * p["Iky"] / p["r"] ** 2
        self.J2 = p["I2"] - p["m2"] * p["b"] ** 2
        self.kd = p["m1"] * p["d1"]

    def Delta(self, phi: float) -> float:
        return self.J2 * np.sin(phi) ** 2 + self.M0 * self.p["b"] ** 2

    def phi_dot(self, x: Array) -> float:
        return -x[4] / self.p["b"] * np.sin(x[3]) - x[5]

    def wheel_rates(self, x: Array) -> Array:
        return (x[4] + np.array([-1, 1]) * self.p["l"] * x[5]) / self.p["r"]

    def rates(self, x: Array, u: Array) -> Array:
        """Equation (1) with friction, and the power of torques and friction."""
        b, r, l = self.p["b"], self.p["r"], self.p["l"]  # noqa: E741
        psi, phi, V, Omega = x[2:6]
        wheels, phi_dot = self.wheel_rates(x), self.phi_dot(x)
        U1, U2 = u - self.p["c_w"] * wheels
        coupling = -self.J2 * V * phi_dot * np.sin(phi) * np.cos(phi) + self.kd * b**2 * Omega**2
        V_dot = (coupling + b**2 / r * (U1 + U2)) / self.Delta(phi)
        Omega_dot = (-self.kd * V * Omega + l / r * (U2 - U1)) / self.J1
        power = U1 * wheels[0] + U2 * wheels[1]
        place = [V * np.cos(psi), V * np.sin(psi), Omega, phi_dot]
        return np.array([*place, V_dot, Omega_dot, *wheels, power])

    def kinetic(self, x: Array) -> float:
        return float(0.5 * self.Delta(x[3]) / self.p["b"] ** 2 * x[4] ** 2 + 0.5 * self.J1 * x[5] ** 2)

    def multipliers(self, x: Array, u: Array) -> Array:
        """Lambda1 .. Lambda4 of section 2."""
        p, b = self.p, self.p["b"]
        phi, V, Omega = x[3:6]
        V_dot, Omega_dot = self.rates(x, u)[4:6]
        phi_dot, turn = self.phi_dot(x), -V / b * np.sin(phi)
        turn_dot = -(V_dot * np.sin(phi) + V * phi_dot * np.cos(phi)) / b
        wheels_dot = (V_dot + np.array([-1, 1]) * p["l"] * Omega_dot) / p["r"]
        traction = (u - p["c_w"] * self.wheel_rates(x) - p["Iky"] * wheels_dot) / p["r"]
        side2 = -p["I2"] * turn_dot / b - p["m2"] / b * V**2 * np.sin(phi) * np.cos(phi)
        side1 = self.kd * Omega_dot - p["m2"] * b * (turn_dot * np.cos(phi) - turn * phi_dot * np.sin(phi))
        side1 += Omega * (self.Mt * V + p["m2"] * b * turn * np.sin(phi)) - side2 * np.cos(phi)
        return np.array([side1, side2, *traction])

    def torques(self, x: Array, alpha_V: float, alpha_Omega: float) -> Array:
        """The torque map (2), friction added."""
        b, r, l = self.p["b"], self.p["r"], self.p["l"]  # noqa: E741
        phi, V, Omega = x[3:6]
        coupling = self.J2 * V * self.phi_dot(x) * np.sin(phi) * np.cos(phi)
        S = r / b**2 * (self.Delta(phi) * alpha_V + coupling) - r * self.kd * Omega**2
        D = r / l * (self.J1 * alpha_Omega + self.kd * V * Omega)
        return np.array([S - D, S + D]) / 2 + self.p["c_w"] * self.wheel_rates(x)

    def pursuit(self, x: Array, y: Array, a: float, rho0: float) -> dict[str, float]:
        """Measured quantities of section 3.2; y = target x, x', x'', y, y', y''."""
        psi, V, Omega = x[2], x[4], x[5]
        position, velocity, acceleration = y.reshape(2, 3).T
        difference = position - x[:2]
        rho, beta = float(np.hypot(*difference)), float(np.arctan2(difference[1], difference[0]))
        e, n = np.array([np.cos(beta), np.sin(beta)]), np.array([-np.sin(beta), np.cos(beta)])
        error = wrap(psi - beta)
        v_t, v_n, a_n = velocity @ e, velocity @ n, acceleration @ n
        rho_dot = v_t - V * np.cos(error)
        beta_dot = (v_n - V * np.sin(error)) / rho
        result = {"rho": rho, "e": error, "rho_dot": rho_dot, "beta_dot": beta_dot}
        result |= {"f1": V - a * (rho - rho0), "e_dot": Omega - beta_dot}
        return result | {"v_t": v_t, "v_n": v_n, "a_n": a_n}

    def pursuit_torques(
        self, x: Array, y: Array, a: float, rho0: float, rates: tuple[float, float], variant: str
    ) -> Array:
        """The laws of section 3.2 in closed form."""
        m = self.pursuit(x, y, a, rho0)
        V, Omega = x[4], x[5]
        if variant == "literal":
            e, n = np.array([np.cos(x[2]), np.sin(x[2])]), np.array([-np.sin(x[2]), np.cos(x[2])])
            along, across = y.reshape(2, 3)[:, 1] @ e, y.reshape(2, 3)[:, 2] @ n
            turn = (across - V * Omega - 2 * Omega * (along - V)) / m["rho"]
            return self.torques(x, a * (along - V), turn)
        alpha_V = a * m["rho_dot"] - rates[0] * m["f1"]
        beta_ddot = m["a_n"] - m["v_t"] * m["beta_dot"] - m["rho_dot"] * m["beta_dot"]
        beta_ddot -= alpha_V * np.sin(m["e"]) + V * (Omega - m["beta_dot"]) * np.cos(m["e"])
        beta_ddot /= m["rho"]
        if variant == "differential":
            return self.torques(x, alpha_V, beta_ddot - rates[1] * m["e_dot"])
        return self.torques(x, alpha_V, beta_ddot - 2 * rates[1] * m["e_dot"] - rates[1] ** 2 * m["e"])
