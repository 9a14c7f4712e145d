from typing import Literal

from servonode.controllers import Program, residual, setpoint, target
from servonode.mechanics import Model


def program(machine: Model, inner: Literal["constant", "exact"] = "constant") -> Program:
    """An outer loop wants a rate of the angle, an inner loop holds it."""
    theta, theta_dot = machine["theta"], machine["theta_dot"]
    goal = target("goal", "angle wanted", "rad")
    wanted = goal.rate + 2 * (goal - theta)
    held = setpoint("wanted", wanted)
    constant = inner == "constant"
    return Program(
        name="cascade",
        description="rate loop within an angle loop",
        residuals=(
            residual("rate", theta_dot - (held if constant else wanted), "rate beside the wanted one", "rad/s"),
        ),
        targets=(goal,),
        setpoints=(held,) if constant else (),
    )
