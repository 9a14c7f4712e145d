"""A point ahead of the robot with trailer follows a target (docs/systems/diff_drive_trailer.md, Look-ahead point).

The axle's middle itself cannot be put on a curve by servo-constraints of relative degree 2: both of its
components are moved by one combination of the torques. A point L ahead of it can.
"""

from sympy import cos, sin

from servonode.controllers.engine.program import Program, residual, target
from servonode.mechanics import Model, parameter


def program(machine: Model) -> Program:
    """P = O1 + L e(psi) follows (x(t), y(t)): two finite constraints. Backwards the heading turns over."""
    x = target("x", "position of the target along x", "m")
    y = target("y", "position of the target along y", "m")
    L = parameter("L", "distance of the point ahead of the axle", "m", default=0.3, at_least=0)
    psi = machine["psi"]
    return Program(
        name="look_ahead",
        description="a point ahead of the robot follows a target",
        residuals=(
            residual(
                "point_x", machine["X"] + L * cos(psi) - x, "look-ahead point less target, along x", "m", rate=2.0
            ),
            residual(
                "point_y", machine["Y"] + L * sin(psi) - y, "look-ahead point less target, along y", "m", rate=2.0
            ),
        ),
        parameters=(L,),
        targets=(x, y),
    )
