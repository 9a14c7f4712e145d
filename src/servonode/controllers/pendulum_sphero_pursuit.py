"""Pursuit of a target by the pendulum sphero (docs/systems/pendulum_sphero.md, section pursuit).

Two servo-constraints on the velocity of the centre: v = W = alpha (1 - rho0/rho) (P - r), straight at the target,
slower the nearer it is to the distance rho0, and back off when it is nearer.
"""

from typing import Literal

from servonode.controllers.engine.program import Program
from servonode.controllers.pendulum_sphero import Approach, Drive, Sphero
from servonode.mechanics import Model


def program(machine: Model, rule: Literal["min_norm", "spin"] = "min_norm") -> Program:
    """The pursuit program; `rule` gives the third torque.

    min_norm: the smallest torque, which lets the shell spin up slowly about the vertical. spin: no such spin.
    """
    robot = Sphero(machine)
    drive = Drive(robot)
    approach = Approach(robot)
    return drive.program(
        "pursuit",
        "the centre rolls straight at a moving target and keeps a distance",
        drive.velocity_rows(approach.W),
        rule,
        parameters=approach.parameters,
        start=approach.start,
        targets=approach.targets,
        guards=(approach.guard,),
        requirements=approach.requirements,
    )
