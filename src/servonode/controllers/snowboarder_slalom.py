"""Slalom of the snowboarder along y0 = f(x0), the body in step (docs/systems/snowboarder.md, section slalom).

The paper's program in a form that is regular with the body upright: heading along the path, constant lean, and a
pitch that swings with the way down.
"""

from typing import Literal

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
from servonode.mechanics import Model, parameter


def program(
    machine: Model, path: Literal["sine", "line"] = "sine", actuation: Literal["physical", "ideal"] = "physical"
) -> Program:
    """The slalom program.

    path: sine A sin(k x0), or line y_c + x0 tan(chi0). actuation: physical, no thrust, what a rider can do; ideal,
    reactions along the gradients of the servo-constraints, the paper's, with a force along the blade.
    """
    refuse_absolute(machine)
    shape, c_y = path_with_pitch(machine, path), offset_pull()
    sigma_c = parameter("sigma_c", "constant lean to the left", "rad", default=0.0)
    residuals = (path_heading(machine, shape.f, c_y), *body_residuals(machine, sigma_c, shape.pitch))
    completion = completed(machine, actuation, residuals)
    completion["guards"].append(graph_guard(machine))
    return Program(
        name="slalom",
        description="the board follows a wavy or straight path, the body rocks fore and aft",
        parameters=(*shape.parameters, sigma_c, c_y),
        start=shape.start,
        **completion,
    )
