"""Pursuit in two loops, for any pendulum (docs/systems/pendulum_sphero.md, section cascade).

The outer loop is `pursuit` and wants an acceleration of the centre; the inner one tilts the pendulum to the angle that
holds this acceleration steadily, taking it as constant. The program is followed approximately.
"""

from typing import Any

from servonode.controllers.engine.program import Program, limit, setpoint
from servonode.controllers.pendulum_sphero import (
    Approach,
    Plane,
    Sphero,
    acceleration_limit,
    dot,
    hanging,
    tilt_rows,
    torque_limit,
)
from servonode.mechanics import Model, condition, parameter
from servonode.mechanics.functions import Max, root

Expr = Any


def program(machine: Model) -> Program:
    """The cascade program: settings of pursuit, and `lambda_a`, the rate of the outer loop."""
    robot = Sphero(machine)
    approach = Approach(robot)
    lambda_a = parameter("lambda_a", "rate of the outer loop", "1/s", default=1.0, at_least=0)
    a_lim, (Q_max, torque) = acceleration_limit(), torque_limit(robot)
    wanted = [rate - lambda_a * (v - W) for rate, v, W in zip(approach.W_rate, robot.v, approach.W, strict=True)]
    text = "acceleration wanted of the centre, scaled down to a_lim"
    acceleration = limit("acceleration", wanted, a_lim, text)
    n_d = steady_tilt(robot, [acceleration.scale * each for each in wanted])
    points = [setpoint(f"tilt_{axis}_wanted", part) for axis, part in zip("xy", n_d, strict=True)]
    steady = "a_lim is above the largest acceleration that any tilt holds, g m l / sqrt((mu R)^2 - (m l)^2); lower it"
    return Program(
        name="cascade",
        description="the pendulum tilts so that the centre nearly follows the pursuit program",
        residuals=tilt_rows(robot, points, rate=10.0),
        parameters=(*approach.parameters, lambda_a, a_lim, Q_max),
        start={**approach.start, a_lim: robot.a_max / 2},
        targets=approach.targets,
        setpoints=points,
        guards=(approach.guard, hanging(robot)),
        limits=(acceleration, torque),
        least_norm=True,
        requirements=(condition(a_lim <= robot.a_max, steady), *approach.requirements),
    )


def steady_tilt(robot: Sphero, a: Plane) -> list[Expr]:
    """n_h that holds the acceleration a steadily: sin(theta_qs(|a|)) a / |a|, written without the quotient 0/0."""
    squared = dot(a, a)
    pull = robot.g**2 + squared
    lever = robot.mu * robot.R / robot.ml
    across = Max(0, 1 - lever**2 * squared / pull)  # rounding must not make it negative where |a| = a_max
    tilt = lever * robot.g / pull - root(across) * root(1 / pull)
    return [each * tilt for each in a]
