from sympy import sin

from servonode.controllers import Program, residual, state, target
from servonode.mechanics import Model, parameter


def program(machine: Model) -> Program:
    """Control of the angle without a measured rate: a Luenberger observer estimates it."""
    theta, theta_dot, tau = machine["theta"], machine["theta_dot"], machine["tau"]
    m, l, g = machine["m"], machine["l"], machine["g"]  # noqa: E741
    goal = target("goal", "angle wanted", "rad")
    p = parameter("p", "rate of the observer, both of its poles at -p", "1/s", default=20.0, above=0)
    angle = state("angle", "estimated angle", "rad", start=theta)
    rate = state("rate", "estimated rate", "rad/s")
    wanted = goal.derivative(2) - 4 * (rate - goal.rate) - 4 * (angle - goal)
    torque = m * l**2 * wanted + m * g * l * sin(theta)
    acceleration = (torque - m * g * l * sin(theta)) / (m * l**2)
    seen = theta - angle  # all that the observer is told of the machine
    return Program(
        name="observer",
        description="control of the angle from an estimated rate",
        residuals=(residual("estimate", theta_dot - rate, "rate beside its estimate", "rad/s"),),
        targets=(goal,),
        parameters=(p,),
        states={angle: rate + 2 * p * seen, rate: acceleration + p**2 * seen},
        inputs={tau: torque},
    )
