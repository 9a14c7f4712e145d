"""Slalom of the snowboarder that leans into its turns (docs/systems/snowboarder.md, section carve).

The lean Sigma(x0) balances the lateral load of path, speed and slope, the body's own inertia at the wave number of
the path included; the speed is that of a free run down the slope.
"""

from typing import Literal

from sympy import Abs, atan, cos, diff, sin, sqrt

from servonode.controllers.engine.program import Program
from servonode.controllers.snowboarder import (
    body_residuals,
    completed,
    graph_guard,
    offset_pull,
    path_heading,
    path_with_pitch,
    refuse_absolute,
)
from servonode.mechanics import Model, ModelError, condition, parameter


def program(
    machine: Model, path: Literal["sine", "line"] = "sine", actuation: Literal["physical", "ideal"] = "physical"
) -> Program:
    """The carving program; options as of the slalom."""
    refuse_absolute(machine)
    _refuse_paper_gravity(machine)
    shape, c_y = path_with_pitch(machine, path), offset_pull()
    V0 = parameter("V0", "speed at x_ref (default: the initial speed)", "m/s", at_least=0)
    x_ref = parameter("x_ref", "where the speed is V0, down the fall line", "m", default=0.0)

    x, g, alpha = machine["x0"], machine["g"], machine["alpha"]
    m1, d, J1 = machine["m1"], machine["l1"] * machine["n1"], machine["J1"]
    L = (m1 * d**2 + J1) / (m1 * d)
    slope = diff(shape.f, x)
    squared = V0**2 + 2 * g * sin(alpha) * (x - x_ref)
    steep = 1 + slope**2
    curvature = diff(shape.f, x, 2) / sqrt(steep) ** 3
    sideways = curvature * squared + g * sin(alpha) * slope / sqrt(steep)
    lean = atan(sideways / (g * cos(alpha) + L * shape.k**2 * squared / steep))

    residuals = (path_heading(machine, shape.f, c_y), *body_residuals(machine, lean, shape.pitch))
    completion = completed(machine, actuation, residuals)
    uphill = (
        "the path reaches so far up the slope that no speed is left there (V^2 = V0^2 + 2 g sin(alpha) (x0 - x_ref)); "
        "start farther down, or give a larger V0"
    )
    completion["guards"] += [graph_guard(machine), condition(squared > 0, uphill)]
    return Program(
        name="carve",
        description="the board follows a wavy path, the body leans into the turns",
        parameters=(*shape.parameters, V0, x_ref, c_y),
        start={**shape.start, V0: Abs(machine["v"])},
        requirements=(condition(squared > 0, uphill),),
        **completion,
    )


def _refuse_paper_gravity(machine: Model) -> None:
    """Where no weight pulls at the body there is no lean that balances it.

    Raises:
        ModelError: the potential energy does not know the body's pose.
    """
    if machine["sigma"] not in machine.potential.free_symbols:
        raise ModelError(
            'carve balances the body\'s weight, and gravity = "paper" lets none pull at the body; set gravity = "full" '
            "in [plant.settings]"
        )
