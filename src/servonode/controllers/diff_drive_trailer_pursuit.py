"""Pursuit of a target by the robot with trailer (docs/systems/diff_drive_trailer.md, section Pursuit).

The heading points at the target p(t) = (x, y), and the speed is V = a (rho - rho0): approach when farther than
rho0, back off when nearer. Both are servo-constraints: the speed of relative degree 1, the heading finite,
of relative degree 2.
"""

from typing import Literal

from sympy import atan2, cos, sin, sqrt

from servonode.controllers.engine.program import Program, Target, residual, target
from servonode.mechanics import Model, condition, parameter, wrap


def program(machine: Model, variant: Literal["finite", "differential", "plain", "literal"] = "finite") -> Program:
    """The pursuit program; `variant` chooses how the heading constraint is held.

    finite: e = 0 stabilised as a finite constraint (relative degree 2), the one to use. differential: only e' = 0, so a
    heading error is never removed. plain: nothing stabilised, errors grow. literal: the printed torques of the
    paper, with the robot's own heading in place of the bearing.
    """
    X, Y, psi, V = (machine[name] for name in ("X", "Y", "psi", "V"))
    x = target("x", "position of the target along x", "m")
    y = target("y", "position of the target along y", "m")
    a = parameter("a", "approach speed per metre of distance", "1/s", default=1.0, above=0)
    rho0 = parameter("rho0", "distance to keep (default: the initial distance)", "m", above=0)
    guard = parameter("rho_min", "the law stops when the target is nearer", "m", default=0.05, above=0)
    dx, dy = x - X, y - Y
    rho = sqrt(dx**2 + dy**2)
    heading_error = wrap(psi - atan2(dy, dx))
    bearing_rate = (dx * (y.rate - Y.rate) - dy * (x.rate - X.rate)) / rho**2
    stabilised = 0.0 if variant in ("plain", "literal") else 2.0
    rate_only = variant == "differential"
    heading = residual(
        "heading",
        psi.rate - bearing_rate if rate_only else heading_error,
        "heading rate less bearing rate" if rate_only else "heading less bearing of the target",
        "rad/s" if rate_only else "rad",
        rate=stabilised,
        output=psi.rate if rate_only else psi,
    )
    return Program(
        name="pursuit",
        description="the heading points at a moving target, the speed keeps a distance",
        residuals=(
            residual("speed", V - a * (rho - rho0), "speed less a (rho - rho0)", "m/s", rate=stabilised),
            heading,
        ),
        parameters=(a, rho0, guard),
        targets=(x, y),
        start={rho0: rho},
        guards=(
            condition(
                rho > guard,
                "the target is inside the guard radius rho_min, where its bearing is not defined; "
                "start farther away or give a larger rho0",
            ),
        ),
        inputs=_printed_torques(machine, x, y, a, rho) if variant == "literal" else {},
    )


def _printed_torques(machine: Model, x: Target, y: Target, a: object, rho: object) -> dict[object, object]:
    """The paper's torques with their signs restored; exact only on the program."""
    names = ("psi", "phi", "V", "Omega", "m1", "m_k", "m2", "I1", "I2", "Iky", "Ikz", "b", "d1", "l", "r", "c_w")
    psi, phi, V, Omega, m1, mk, m2, I1, I2, Iky, Ikz, b, d1, l, r, c_w = (machine[name] for name in names)  # noqa: E741
    M0 = m1 + m2 + 2 * mk + 2 * Iky / r**2
    J1 = I1 + 2 * mk * l**2 + 2 * Ikz + 2 * l**2 * Iky / r**2
    J2, kappa = I2 - m2 * b**2, m1 * d1
    Delta = J2 * sin(phi) ** 2 + M0 * b**2
    along = x.rate * cos(psi) + y.rate * sin(psi)
    across = -x.derivative(2) * sin(psi) + y.derivative(2) * cos(psi)
    torques: dict[object, object] = {}
    for wheel, sign in (("1", 1), ("2", -1)):
        torque = r * (
            (a * l * rho * Delta + sign * 2 * J1 * b**2 * Omega) / (2 * l * b**2 * rho) * (along - V)
            - sign * J1 / (2 * l * rho) * (across - V * Omega)
            + J2 * V * machine["phi"].rate * sin(phi) * cos(phi) / (2 * b**2)
            - kappa * Omega**2 / 2
            - sign * kappa * V * Omega / (2 * l)
        )
        torques[machine[f"U{wheel}"]] = torque + c_w * machine[f"theta{wheel}"].rate
    return torques
