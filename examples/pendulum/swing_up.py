from sympy import Max, Min, cos, pi

from servonode.controllers import Program, residual
from servonode.mechanics import Model, parameter, wrap


def program(machine: Model) -> Program:
    """Swing-up by the energy, with a motor too weak to lift the pendulum; near the upright a PD law catches it."""
    theta, theta_dot, tau = machine["theta"], machine["theta_dot"], machine["tau"]
    m, l, g = machine["m"], machine["l"], machine["g"]  # noqa: E741
    k = parameter("k", "feedback of the energy", "s", default=1.0, above=0)
    most = parameter("most", "largest torque", "N m", default=1.0, above=0)
    energy = m * l**2 * theta_dot**2 / 2 - m * g * l * (1 + cos(theta))  # 0: just enough to stand
    off = wrap(theta - pi)
    near = Max(0, Min(1, 2 - off**2 / 0.04))  # 1 within 0.2 rad of the upright, 0 beyond 0.28 rad
    torque = (1 - near) * (-k * energy * theta_dot) - near * (10 * off + 2 * theta_dot)
    return Program(
        name="swing_up",
        description="swing up and stand",
        residuals=(
            residual("energy", energy, "energy beside that of standing", "J"),
            residual("upright", off, "angle beside the upright", "rad"),
        ),
        parameters=(k, most),
        inputs={tau: Max(-most, Min(most, torque))},
    )
