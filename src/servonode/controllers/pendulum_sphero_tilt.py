"""The pendulum's tilt follows functions of time (docs/systems/pendulum_sphero.md, Programs).

Finite constraints on the pendulum in place of the centre. They can be held with any pendulum, also with those that run
away while the centre is held to a program; here the centre moves as the tilt accelerates it.
"""

from servonode.controllers.engine.program import Program, signal
from servonode.controllers.pendulum_sphero import Sphero, hanging, tilt_rows, torque_limit
from servonode.mechanics import Model


def program(machine: Model) -> Program:
    """The horizontal part of n follows (n_x, n_y), by the smallest torque."""
    robot = Sphero(machine)
    n_x = signal("n_x", "reference part of n along x, the sine of the tilt there", default="0")
    n_y = signal("n_y", "reference part of n along y", default="0")
    Q_max, torque = torque_limit(robot)
    return Program(
        name="tilt",
        description="the pendulum's tilt follows functions of time",
        residuals=tilt_rows(robot, (n_x, n_y), rate=2.0),
        parameters=(Q_max,),
        signals=(n_x, n_y),
        guards=(hanging(robot),),
        limits=(torque,),
        least_norm=True,
    )
