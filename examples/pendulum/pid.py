from servonode.controllers import Program, residual, state, target
from servonode.mechanics import Model, parameter


def program(machine: Model) -> Program:
    """PID: the integral of the error is a state of the program."""
    theta, theta_dot, tau = machine["theta"], machine["theta_dot"], machine["tau"]
    goal = target("goal", "angle wanted", "rad")
    k_p = parameter("k_p", "feedback of the error", "N m", default=12.0, at_least=0)
    k_d = parameter("k_d", "feedback of its rate", "N m s", default=3.0, at_least=0)
    k_i = parameter("k_i", "feedback of its integral", "N m/s", default=10.0, at_least=0)
    error = theta - goal
    integral = state("integral", "integral of the error", "rad s")
    return Program(
        name="pid",
        description="PID control of the angle",
        residuals=(residual("angle", error, "angle beside the goal", "rad"),),
        targets=(goal,),
        parameters=(k_p, k_d, k_i),
        states={integral: error},
        inputs={tau: -k_p * error - k_d * (theta_dot - goal.rate) - k_i * integral},
    )
