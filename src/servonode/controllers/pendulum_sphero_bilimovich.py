"""Bilimovich's servo-constraint on the pendulum sphero (docs/systems/pendulum_sphero.md, section bilimovich).

omega_x = g_B(t) omega_y prescribes where the shell rolls, v_y = -g_B v_x, and not how fast. The torque is along the
constraint's own covector, (1, -g_B, 0), and does no work on the shell once the constraint holds.
"""

from typing import Literal

from sympy import sqrt

from servonode.controllers.engine.program import Program, residual, signal
from servonode.controllers.pendulum_sphero import RATE, Drive, Sphero, dot
from servonode.mechanics import Model, ModelError


def program(
    machine: Model, speed: Literal["free", "program"] = "free", rule: Literal["min_norm", "spin"] = "min_norm"
) -> Program:
    """The Bilimovich program.

    speed = free: the heading alone, the robot coasts along it. program: along it with the speed V(t), and then `rule`
    gives the third torque as in pursuit.
    """
    robot = Sphero(machine)
    drive = Drive(robot)
    g_B = signal("g_B", "ratio omega_x / omega_y; v_y = -g_B v_x", default="0.5*sin(0.2*t)")
    size = sqrt(1 + g_B**2)
    if speed == "program":
        V = signal("V", "speed along (1, -g_B)", "m/s", default="0.3")
        return drive.program(
            "bilimovich",
            "the centre rolls along the heading (1, -g_B) with a speed",
            drive.velocity_rows((V / size, -g_B * V / size)),
            rule,
            signals=(g_B, V),
        )
    if rule == "spin":
        text = 'rule = "spin" asks for Q_z, and bilimovich with a free speed sets Q_z = 0; leave rule out'
        raise ModelError(text + ", or give a speed V")
    omega, Q = machine["omega"], robot.torques
    across = (-g_B / robot.R, -1 / robot.R)  # f' for a unit acceleration
    heading = residual(
        "heading",
        omega[0] - g_B * omega[1],
        "omega_x - g_B omega_y",
        "rad/s",
        rate=RATE,
        damping=drive.kappa * dot(across, robot.n_h_rate),
    )
    return Program(
        name="bilimovich",
        description="the centre rolls along the heading (1, -g_B) at the speed it has",
        residuals=(heading,),
        relations=(Q[2], g_B * Q[0] + Q[1]),
        parameters=(drive.kappa, drive.a_lim, drive.Q_max),
        start={drive.a_lim: robot.a_max / 2},
        signals=(g_B,),
        limits=(drive.limit_of((heading,), size / robot.R), drive.torque),
        requirements=(drive.no_runaway,),
        warnings=drive.warnings,
    )
