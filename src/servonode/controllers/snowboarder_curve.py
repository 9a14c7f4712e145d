"""The snowboarder on a curve of given curvature, any heading (docs/systems/snowboarder.md, section curve).

The curve has curvature kappa(s) = kappa0 + kappa1 cos(2 pi s/Lambda). Arc length s and offset n of the blade to the
left of it are states of the program, so the curve begins where the run does and needs no place.
"""

from typing import Any, Literal

from sympy import atan, cos, pi, sign, sin

from servonode.controllers.engine.program import Program, residual, state
from servonode.controllers.snowboarder import RATE, body_residuals, completed, refuse_absolute
from servonode.mechanics import Model, condition, parameter

Expr = Any


def program(machine: Model, actuation: Literal["physical", "ideal"] = "physical") -> Program:
    """The curve program; actuation as of the slalom."""
    refuse_absolute(machine)
    kappa0 = parameter("kappa0", "mean curvature, to the left", "1/m", default=0.0)
    kappa1 = parameter("kappa1", "amplitude of the curvature", "1/m", default=0.0)
    Lambda = parameter("Lambda", "length of a wave of the curvature", "m", default=40.0, above=0)
    chi0 = parameter("chi0", "heading of the curve at s = 0, from the fall line", "rad", default=0.0)
    c_n = parameter("c_n", "pull towards the curve per metre of offset", "1/m", at_least=0)
    V_d = parameter("V_d", "speed for which the lean balances; 0: no lean", "m/s", default=0.0, at_least=0)
    Omega_d = parameter("Omega_d", "rate of the lean's change for which it balances", "rad/s", default=0.0)
    theta_c = parameter("theta_c", "constant pitch", "rad", default=0.0)
    s0 = parameter("s0", "initial arc length", "m", default=0.0)
    n0 = parameter("n0", "initial offset to the left of the curve", "m", default=0.0)
    s = state("s", "arc length along the curve", "m", start=s0)
    n = state("n", "offset to the left of the curve", "m", start=n0)

    v, phi = machine["v"], machine["phi0"]
    chi = chi0 + kappa0 * s + kappa1 * Lambda / (2 * pi) * sin(2 * pi * s / Lambda)
    kappa = kappa0 + kappa1 * cos(2 * pi * s / Lambda)
    eta = phi - chi
    states = {s: v * cos(eta) / (1 - kappa * n), n: v * sin(eta)}
    heading = residual(
        "heading", eta + atan(c_n * n), "heading less the curve's, and the pull of the offset", "rad", rate=RATE
    )
    residuals = (heading, *body_residuals(machine, _lean(machine, chi, kappa, V_d, Omega_d), theta_c))
    completion = completed(machine, actuation, residuals, states)
    centre = "the blade has reached the curve's centre of curvature (kappa n >= 1), where no point of the curve is "
    centre += "nearest; start nearer to the curve, or choose a larger c_n"
    completion["guards"].append(condition(1 - kappa * n > 0, centre))
    return Program(
        name="curve",
        description="the board follows a curve of given curvature, turning uphill if it does",
        parameters=(kappa0, kappa1, Lambda, chi0, c_n, V_d, Omega_d, theta_c, s0, n0),
        states=states,
        **completion,
    )


def _lean(machine: Model, chi: Expr, kappa: Expr, V_d: Expr, Omega_d: Expr) -> Expr:
    """Sigma(s) [rad]: what balances curvature and slope at the speed V_d; 0 where V_d is."""
    g, alpha, m1, d = machine["g"], machine["alpha"], machine["m1"], machine["l1"] * machine["n1"]
    L = (m1 * d**2 + machine["J1"]) / (m1 * d)
    sideways = kappa * V_d**2 + g * sin(alpha) * sin(chi)
    return sign(V_d) * atan(sideways / (g * cos(alpha) + L * Omega_d**2))
