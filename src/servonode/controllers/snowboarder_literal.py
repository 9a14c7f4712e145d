"""The paper's servo-constraints exactly as printed, in absolute angles (docs/systems/snowboarder.md, section literal).

They are singular with the body upright, where the paper's own example passes; this program needs a body that leans
forward all the time.
"""

from typing import Literal

from sympy import Abs, asin, atan2, cos, pi, sin

from servonode.controllers.engine.program import Program, residual
from servonode.controllers.snowboarder import RATE, completed, graph_guard, path_heading, refuse_absolute
from servonode.mechanics import Model, condition, parameter


def program(machine: Model, actuation: Literal["physical", "ideal"] = "physical") -> Program:
    """The literal program; actuation as of the slalom."""
    refuse_absolute(machine)
    psi_c = parameter("psi_c", "mean elevation of the body over the slope", "rad", default=1.2)
    A = parameter("A", "amplitude of the path", "m", default=1.5)
    k = parameter("k", "wave number of path and elevation", "rad/m", default=0.2, above=0)
    delta = parameter("delta", "amplitude of the elevation", "rad", default=0.1)
    x, theta, sigma = machine["x0"], machine["theta"], machine["sigma"]
    E = (cos(sigma) * sin(theta), sin(sigma), cos(sigma) * cos(theta))
    residuals = (
        path_heading(machine, A * sin(k * x)),
        residual("lean", atan2(E[1], E[0]), "azimuth of the body less the heading", "rad", rate=RATE),
        residual(
            "pitch",
            asin(E[2]) - psi_c - delta * cos(k * x),
            "elevation of the body less its reference",
            "rad",
            rate=RATE,
            output=asin(E[2]),
        ),
    )
    completion = completed(machine, actuation, residuals)
    upright = "the body does not lean forward (E_t <= 0), where azimuth and elevation mean nothing; "
    completion["guards"] += [
        graph_guard(machine),
        condition(E[0] > 0, upright + "choose a smaller psi_c, or take the program slalom"),
    ]
    return Program(
        name="literal",
        description="the paper's constraints exactly as printed, singular with the body upright",
        parameters=(psi_c, A, k, delta),
        requirements=(
            condition(
                psi_c + Abs(delta) < pi / 2,
                "the body would pass the upright, where this program is singular; lower psi_c, or take the program "
                "slalom",
            ),
        ),
        **completion,
    )
