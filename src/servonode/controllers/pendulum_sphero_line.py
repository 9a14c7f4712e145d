"""The pendulum sphero rolls along a line (docs/systems/pendulum_sphero.md, Programs)."""

from typing import Literal

from sympy import sqrt

from servonode.controllers.engine.program import Program, signal
from servonode.controllers.pendulum_sphero import Drive, Sphero, dot, point, turned
from servonode.mechanics import Model, condition, parameter


def program(machine: Model, rule: Literal["min_norm", "spin"] = "min_norm") -> Program:
    """Along the line through `point` in `direction` with the speed V(t); `rule` as in pursuit."""
    robot = Sphero(machine)
    drive = Drive(robot)
    place = point("a point of the line", (0.0, 0.0))
    entries = [
        parameter(f"direction_{k}", f"direction of the line, of any length, along {axis}", default=default)
        for k, (axis, default) in enumerate((("x", 1.0), ("y", 0.0)))
    ]
    V = signal("V", "speed along the line", "m/s", default="0.3")
    length = sqrt(entries[0] ** 2 + entries[1] ** 2)
    along = [each / length for each in entries]
    across = turned(along)
    ray = [r - p for r, p in zip(robot.r, place, strict=True)]
    offset = drive.row("offset", dot(across, ray), across, "distance from the line, positive to the left", "m")
    speed = drive.row("speed", dot(along, robot.v) - V, along, "speed along the line less V(t)", "m/s")
    return drive.program(
        "line",
        "the centre rolls along a line",
        (offset, speed),
        rule,
        parameters=(*place, *entries),
        signals=(V,),
        finite=(offset,),
        requirements=(condition(length > 0, "direction is [0, 0], which is not a direction; give for example [1, 0]"),),
    )
