"""The pendulum sphero rolls along a circle (docs/systems/pendulum_sphero.md, section circle)."""

from typing import Literal

from sympy import Rational, sqrt

from servonode.controllers.engine.program import Program, signal
from servonode.controllers.pendulum_sphero import Drive, Sphero, dot, point, turned
from servonode.mechanics import Model, condition, parameter


def program(machine: Model, rule: Literal["min_norm", "spin"] = "min_norm") -> Program:
    """Along the circle of `radius` about `point` with the speed V(t); `rule` as in pursuit."""
    robot = Sphero(machine)
    drive = Drive(robot)
    centre = point("centre of the circle", (0.0, 1.5))
    radius = parameter("radius", "radius of the circle", "m", default=1.5, above=0)
    V = signal("V", "speed along the circle, positive anticlockwise", "m/s", default="0.3")
    ray = [r - c for r, c in zip(robot.r, centre, strict=True)]
    d = sqrt(dot(ray, ray))
    e = [each / d for each in ray]
    t = turned(e)
    distance = drive.row("distance", d - radius, e, "distance from the centre less the radius", "m")
    speed = drive.row("speed", dot(t, robot.v) - V, t, "speed along the circle less V(t)", "m/s")
    text = "the robot is at the circle's centre (within 1 mm), where no tangent is defined; start nearer to the circle"
    return drive.program(
        "circle",
        "the centre rolls along a circle",
        (distance, speed),
        rule,
        parameters=(*centre, radius),
        signals=(V,),
        finite=(distance,),
        guards=(condition(d > Rational(1, 1000), text),),
    )
