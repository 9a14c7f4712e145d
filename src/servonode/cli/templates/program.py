"""NAME: a goal for the robot with trailer, as residuals that the control law brings to zero.

Edit this file to define your own goal. The names in machine["..."] are the states, inputs and parameters of the
machine; servonode show FILE lists them.
"""

from typing import Literal

from sympy import atan2, sqrt

from servonode.controllers import Program, residual, signal, target
from servonode.mechanics import Model, condition, parameter, wrap


def program(machine: Model, look: Literal["at", "away"] = "at") -> Program:
    """The robot looks at a moving target, or away from it, and drives with a given speed."""
    X, Y, psi, V = (machine[name] for name in ("X", "Y", "psi", "V"))

    # A target is a function of time in [target] of the launch file. Its derivatives are x.rate and x.derivative(2).
    x = target("x", "position of the target along x", "m")
    y = target("y", "position of the target along y", "m")

    # A signal is a function of time, a parameter is a number. [controller.settings] of the launch file sets both.
    v = signal("v", "reference of the forward speed", "m/s", default="0.3")
    nearest = parameter("nearest", "distance below which the law stops", "m", default=0.2, above=0)

    dx, dy = x - X, y - Y
    if look == "away":  # look is an option: an argument with a default, which [controller.settings] sets, too
        dx, dy = -dx, -dy

    return Program(
        name="NAME",
        description="look at a moving target and drive with a given speed",
        # There are as many residuals as inputs. servonode finds the relative degree of each.
        residuals=(
            residual("speed", V - v, "speed less its reference", "m/s", rate=2.0),
            residual("heading", wrap(psi - atan2(dy, dx)), "heading less the bearing of the target", "rad", rate=2.0),
        ),
        targets=(x, y),
        signals=(v,),
        parameters=(nearest,),
        # A guard stops the law where the goal is not defined; its text gives the reason.
        guards=(condition(sqrt(dx**2 + dy**2) > nearest, "the target is too near for its bearing to be defined"),),
    )
