"""The pendulum sphero follows a target's trajectory exactly (docs/systems/pendulum_sphero.md, Programs)."""

from typing import Literal

from servonode.controllers.engine.program import Program, target
from servonode.controllers.pendulum_sphero import Drive, Sphero
from servonode.mechanics import Model


def program(machine: Model, rule: Literal["min_norm", "spin"] = "min_norm") -> Program:
    """The centre is where the target is, both coordinates finite constraints; `rule` as in pursuit."""
    robot = Sphero(machine)
    drive = Drive(robot)
    x = target("x", "reference position of the centre along x", "m")
    y = target("y", "reference position of the centre along y", "m")
    rows = (
        drive.row("x", robot.r[0] - x, (1, 0), "position along x less its reference", "m"),
        drive.row("y", robot.r[1] - y, (0, 1), "position along y less its reference", "m"),
    )
    return drive.program("trajectory", "the centre follows a trajectory", rows, rule, targets=(x, y), finite=rows)
