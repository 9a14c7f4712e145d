"""The trailer drives along a line or a circle, forward or backward (docs/systems/diff_drive_trailer.md, Path).

Open loop backwards jackknifes. Here the hitch angle is given a program of the trailer's own pose, phi = arctan F,
which steers the trailer's offset y and heading error eta onto the path as a double root exp(-mu distance).
"""

from typing import Any, Literal

from sympy import Abs, Integer, atan, cos, pi, sin, sqrt

from servonode.controllers.engine.program import Program, residual, signal
from servonode.mechanics import Model, condition, parameter

Expr = Any


def program(
    machine: Model,
    path: Literal["line", "circle"] = "line",
    travel: Literal["forward", "backward"] = "forward",
    far: Literal["plain", "soft"] = "plain",
    turn: Literal["1", "-1"] = "1",
) -> Program:
    """The path program.

    path: line through `point` along `direction`, or circle of `radius` about `point`, `turn` = 1 counterclockwise.
    travel: the direction of motion, fixed for the run; backward the robot still faces along the path. far: soft
    bounds the pull of a distant path at that of an offset `y_s`.
    """
    X, Y, psi, phi, V, b = (machine[name] for name in ("X", "Y", "psi", "phi", "V", "b"))
    sign = Integer(1 if travel == "forward" else -1)
    v = signal("v", "speed of the robot", "m/s", default=f"{0.4 * int(sign)}")
    mu = parameter("mu", "convergence per metre driven", "1/m", default=1.0, above=0)
    y_s = parameter("y_s", "offset at which the pull stops to grow", "m", default=1.0, above=0)
    heading = psi + phi
    O2 = (X - b * cos(heading), Y - b * sin(heading))
    shape = _line(O2, heading) if path == "line" else _circle(O2, heading, Integer(int(turn)))
    offset, sin_eta, cos_eta, kappa, nu, parameters = shape
    pull = mu**2 * offset / (sqrt(1 + (offset / y_s) ** 2) if far == "soft" else 1)
    F = b * (2 * mu * sign * sin_eta + pull - kappa * cos_eta / nu)
    guards = [
        condition(sign * v > -1e-9, "v(t) drives against `travel`, off the path: forward wants v > 0, backward v < 0"),
        condition(
            pi / 2 > Abs(phi),
            "the hitch angle has reached pi/2, where the trailer stands; start nearer to the path, "
            'use far = "soft" or a smaller mu',
        ),
    ]
    if path == "circle":
        inside = "the trailer is at the circle's centre, which has no nearest point; start nearer to the circle"
        guards.append(condition(nu > 0.05, inside))
    return Program(
        name="trailer_path",
        description="the trailer drives along a line or a circle",
        residuals=(
            residual("speed", V - v, "speed less v(t)", "m/s", rate=3.0),
            residual(
                "phi", phi - atan(F), "hitch angle less the one that steers the trailer", "rad", rate=3.0, output=phi
            ),
        ),
        parameters=(mu, *((y_s,) if far == "soft" else ()), *parameters),
        signals=(v,),
        guards=guards,
    )


def _point() -> tuple[Expr, Expr]:
    return (
        parameter("point_0", "a point of the line, or the circle's centre, along x", "m", default=0.0),
        parameter("point_1", "a point of the line, or the circle's centre, along y", "m", default=0.0),
    )


def _line(O2: tuple[Expr, Expr], heading: Expr) -> tuple[Any, ...]:
    """Offset to the left, sin and cos of the heading error, curvature, nu, parameters."""
    px, py = _point()
    chi = parameter("direction", "direction of the line", "rad", default=0.0)
    offset = -(O2[0] - px) * sin(chi) + (O2[1] - py) * cos(chi)
    return offset, sin(heading - chi), cos(heading - chi), Integer(0), Integer(1), (px, py, chi)


def _circle(O2: tuple[Expr, Expr], heading: Expr, turn: Expr) -> tuple[Any, ...]:
    px, py = _point()
    R = parameter("radius", "radius of the circle", "m", default=3.0, above=0)
    rx, ry = O2[0] - px, O2[1] - py
    distance = sqrt(rx**2 + ry**2)
    tx, ty = -turn * ry / distance, turn * rx / distance
    sin_eta = tx * sin(heading) - ty * cos(heading)
    cos_eta = tx * cos(heading) + ty * sin(heading)
    return turn * (R - distance), sin_eta, cos_eta, turn / R, distance / R, (px, py, R)
