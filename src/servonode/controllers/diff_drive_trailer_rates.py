"""Speed and yaw rate of the robot with trailer as functions of time: the joystick program."""

from servonode.controllers.engine.program import Program, residual, signal
from servonode.mechanics import Model


def program(machine: Model) -> Program:
    """V = v(t) and Omega = Omega_d(t), both of relative degree 1."""
    v = signal("v", "reference forward speed", "m/s", default="0.4")
    Omega_d = signal("Omega_d", "reference yaw rate", "rad/s", default="0")
    return Program(
        name="rates",
        description="forward speed and yaw rate follow functions of time",
        residuals=(
            residual("speed", machine["V"] - v, "speed less v(t)", "m/s", rate=2.0),
            residual("yaw_rate", machine["Omega"] - Omega_d, "yaw rate less Omega_d(t)", "rad/s", rate=2.0),
        ),
        signals=(v, Omega_d),
    )
