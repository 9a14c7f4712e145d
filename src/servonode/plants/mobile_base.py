"""Mobile base on two driven wheels: a unicycle, which rolls without slip on a horizontal plane.

Fixed axes X, Y. The base's frame sits at O1, the middle of the driven axle: forward along the heading psi, left at
psi + pi/2. Its centre of mass is at O1; castors are ignored. It takes a force along the heading and a moment about the
vertical, or the torques of its left wheel 1 and right wheel 2, positive where they drive forward. A base that is
bought takes the speeds of these inputs in their place: plant.command = "velocity" sends V and Omega, or the wheels'.
"""

from typing import Any, Literal

from sympy import Abs, Matrix, cos, sin

from servonode.mechanics import (
    Model,
    circle,
    condition,
    constraint,
    coordinate,
    input_,
    line,
    output,
    parameter,
    pose,
    sensor,
    trail,
    velocity,
    view,
)


def model(input_set: Literal["body", "wheels"] = "body") -> Model:
    """The machine of this file's title, in the state order X, Y, psi, V, Omega.

    `input_set`: a force and a moment on the whole base, whose speeds are V and Omega ("body"), or torques of its
    wheels.
    """
    X = coordinate("X", "position of the driven axle's middle along x", "m", rate_limit=50)
    Y = coordinate("Y", "position of the driven axle's middle along y", "m", rate_limit=50)
    psi = coordinate("psi", "heading, unwrapped", "rad", rate_limit=200)
    V = velocity("V", "forward speed", "m/s", limit=20, rate_limit=2000)
    Omega = velocity("Omega", "yaw rate", "rad/s", limit=200, rate_limit=20000)

    m = parameter("m", "mass, with what the wheels' spin adds", "kg", default=1.0, above=0)
    J = parameter("J", "yaw inertia, with what the wheels' spin adds", "kg m^2", default=0.01, above=0)
    l = parameter("l", "half of the track", "m", default=0.08, above=0)  # noqa: E741
    r = parameter("r", "driven wheel radius", "m", default=0.033, above=0)
    c_w = parameter("c_w", "viscous friction at a driven wheel", "N m s/rad", default=0.0, at_least=0)
    c_b = parameter(
        "c_b", "brake at a driven wheel, the safe action after a fault", "N m s/rad", default=0.002, at_least=0
    )
    a_slip = parameter("a_slip", "sideways force per mass that the tyres transmit", "m/s^2", default=5.0, above=0)

    forward = cos(psi) * X.rate + sin(psi) * Y.rate
    sideways = constraint("Lambda", "sideways force on the axle, to the left", cos(psi) * Y.rate - sin(psi) * X.rate)
    left, right = (forward - l * psi.rate) / r, (forward + l * psi.rate) / r
    if input_set == "body":
        F = input_("F", "force on the base along its heading", "N")
        M = input_("M", "moment on the base about the vertical", "N m")
        inputs = {F: forward, M: psi.rate}
        safe = {F: -2 * c_b / r**2 * forward, M: -2 * c_b * l**2 / r**2 * psi.rate}
    else:
        U1 = input_("U1", "torque of the left wheel", "N m")
        U2 = input_("U2", "torque of the right wheel", "N m")
        inputs = {U1: left, U2: right}
        safe = {U1: -c_b * left, U2: -c_b * right}
    return Model(
        name="mobile_base",
        description="mobile base on two driven wheels, a unicycle",
        parameters=(m, J, l, r, c_w, c_b, a_slip),
        kinematics={X: V * cos(psi), Y: V * sin(psi), psi: Omega},
        velocities=(V, Omega),
        order=(X, Y, psi, V, Omega),
        kinetic=(m * (X.rate**2 + Y.rate**2) + J * psi.rate**2) / 2,
        dissipation=c_w * (left**2 + right**2) / 2,
        constraints=(sideways,),
        inputs=inputs,
        outputs=(
            output("left_rate", "rate of the left wheel", (V - l * Omega) / r, "rad/s"),
            output("right_rate", "rate of the right wheel", (V + l * Omega) / r, "rad/s"),
        ),
        sensors=(
            sensor("odometer_left", "rate of the left wheel", (V - l * Omega) / r, "rad/s", noise=0.05),
            sensor("odometer_right", "rate of the right wheel", (V + l * Omega) / r, "rad/s", noise=0.05),
            sensor("gyroscope", "yaw rate", Omega, "rad/s", noise=0.01),
            sensor("camera_x", "position along x, seen from outside", X, "m", noise=0.01, rate=20, delay=0.05),
            sensor("camera_y", "position along y, seen from outside", Y, "m", noise=0.01, rate=20, delay=0.05),
            sensor("camera_psi", "heading, seen from outside", psi, "rad", noise=0.02, rate=20, delay=0.05),
        ),
        safe=safe,
        warnings=(
            condition(
                Abs(sideways.multiplier) < a_slip * m, "the wheels would slip sideways (Lambda >= a_slip times m)"
            ),
        ),
        panels=(("V",), ("Omega",), ("left_rate", "right_rate")),
        drawing=_drawing(Matrix([X, Y]), psi, l, r),
    )


def _drawing(O1: Any, psi: Any, l: Any, r: Any) -> list[Any]:  # noqa: E741
    """Its round body, its wheels and its heading, from above."""
    ahead, left = Matrix([cos(psi), sin(psi)]), Matrix([-sin(psi), cos(psi)])
    wheels = [line(O1 + side * l * left - r * ahead, O1 + side * l * left + r * ahead) for side in (1, -1)]
    heading = line(O1, O1 + 1.3 * l * ahead)
    return [view(circle(O1, 1.3 * l), *wheels, heading, trail(O1, "base"), pose("base", O1, psi), goal=("x", "y"))]
