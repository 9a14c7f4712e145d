"""The pendulum sphero comes to a stop (docs/systems/pendulum_sphero.md, Programs)."""

from typing import Literal

from servonode.controllers.engine.program import Program
from servonode.controllers.pendulum_sphero import Drive, Sphero
from servonode.mechanics import Model


def program(machine: Model, rule: Literal["min_norm", "spin"] = "min_norm") -> Program:
    """The centre's velocity decays; `rule` as in pursuit."""
    drive = Drive(Sphero(machine))
    return drive.program("stop", "the centre comes to a stop", drive.velocity_rows((0, 0)), rule)
