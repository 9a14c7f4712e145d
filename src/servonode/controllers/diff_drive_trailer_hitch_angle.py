"""Hitch angle of the robot with trailer as a function of time (docs/systems/diff_drive_trailer.md, Hitch angle).

phi = g(t) is one servo-constraint of relative degree 2 for two motors, so it must be completed, and the motion
depends on how.
"""

from typing import Literal

from sympy import Abs

from servonode.controllers.engine.program import Program, residual, signal
from servonode.mechanics import Model, condition, parameter


def program(
    machine: Model,
    completion: Literal["speed", "opposed", "least_norm", "one_motor", "yaw_rate", "equal", "none"] = "speed",
) -> Program:
    """The hitch program; `completion` says what the second motor does.

    speed: V = v(t), the one to use, never singular. opposed: U1 = -U2 (the paper). least_norm: the smallest torques.
    one_motor: the right wheel is free, U2 = 0. yaw_rate: Omega = Omega_d(t), singular where the trailer is straight.
    With opposed, least_norm and one_motor the speed is left to itself and may escape in finite time. equal and none
    are there to be refused: equal torques U1 = U2 cannot turn a straight trailer's hitch, and without any completion
    the program is incomplete.
    """
    phi, V, Omega = machine["phi"], machine["V"], machine["Omega"]
    g = signal("g", "reference hitch angle", "rad", default="pi/4*sin(0.1*t)")
    v = signal("v", "reference forward speed", "m/s", default="0.4")
    Omega_d = signal("Omega_d", "reference yaw rate", "rad/s", default="0")
    V_max = parameter("V_max", "the law stops at this speed", "m/s", default=10.0, above=0)
    hitch = residual("phi", phi - g, "hitch angle less g(t)", "rad", rate=2.0)
    second = {
        "speed": (residual("speed", V - v, "speed less v(t)", "m/s", rate=2.0), v),
        "yaw_rate": (residual("yaw_rate", Omega - Omega_d, "yaw rate less Omega_d(t)", "rad/s", rate=2.0), Omega_d),
    }
    U1, U2 = machine["U1"], machine["U2"]
    relations = {"opposed": (U1 + U2,), "one_motor": (U2,), "equal": (U1 - U2,)}
    rows = second.get(completion)
    return Program(
        name="hitch_angle",
        description="the hitch angle follows a function of time",
        residuals=(hitch, rows[0]) if rows else (hitch,),
        signals=(g, rows[1]) if rows else (g,),
        parameters=(V_max,),
        relations=relations.get(completion, ()),
        least_norm=completion == "least_norm",
        guards=(
            condition(
                V_max > Abs(V),
                "the speed has passed V_max: this completion leaves it to itself and it escapes in finite time; "
                'use completion = "speed", or d1 = 0',
            ),
        ),
    )
