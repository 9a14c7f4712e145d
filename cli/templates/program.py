"""NAME: a goal for the robot with trailer. Change it into your own: residuals that are to be zero.

The names in machine["..."] are the machine's states, inputs and parameters (servonode show FILE lists them).
"""

from typing import Literal

from sympy import atan2, sqrt

from servonode.controllers import Program, residual, signal, target
from servonode.mechanics import Model, condition, parameter, wrap


def program(machine: Model, look: Literal["at", "away"] = "at") -> Program:
    """The robot looks at a moving target, or away from it, and drives with a given speed."""
    X, Y, psi, V = (machine[name] for name in ("X", "Y", "psi", "V"))

    # A target comes from [target] of the launch file, with x.rate and x.derivative(2) where they are needed.
    x = target("x", "position of the target along x", "m")
    y = target("y", "position of the target along y", "m")

    # A signal is a function of time, a parameter a number; both are set in [controller.settings].
    v = signal("v", "wanted forward speed", "m/s", default="0.3")
    nearest = parameter("nearest", "distance at which the law gives up", "m", default=0.2, above=0)

    dx, dy = x - X, y - Y
    if look == "away":  # an option: an argument with a default, set in [controller.settings] too
        dx, dy = -dx, -dy

    return Program(
        name="NAME",
        description="look at a moving target and drive with a given speed",
        # As many residuals as inputs. How often each must be differentiated until an input appears is found for you.
        residuals=(
            residual("speed", V - v, "speed less the wanted one", "m/s", rate=2.0),
            residual("heading", wrap(psi - atan2(dy, dx)), "heading less the bearing", "rad", rate=2.0),
        ),
        targets=(x, y),
        signals=(v,),
        parameters=(nearest,),
        # Where the goal has no meaning the law must stop: a guard says why.
        guards=(condition(sqrt(dx**2 + dy**2) > nearest, "the target is too near for its bearing to be defined"),),
    )
