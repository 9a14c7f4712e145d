"""Differential-drive robot with a passive trailer, rolling without slip on a horizontal plane.

Fixed axes X, Y. The robot frame sits at O1, the middle of the driven axle: forward along the heading psi, left at
psi + pi/2. Wheel 1 is the left wheel, wheel 2 the right one; wheel angles and torques are positive when they
drive forward. The trailer is hinged at O1 and points back; its axle centre and centre of mass O2 lies b behind
the hinge. phi is the trailer's direction relative to the robot's (counterclockwise positive, 0 straight behind);
the trailer's heading is psi + phi. The castor is ignored; the wheels never slip: watch the contact forces.

Paper: E. A. Mikishanina, Principles for implementing servo-constraints in nonholonomic mechanical systems, 2024,
with the corrections listed in docs/systems/diff_drive_trailer.md.
"""

from typing import Any

from sympy import Abs, Matrix, cos, pi, sin, sqrt

from servonode.mechanics import (
    Model,
    condition,
    constraint,
    coordinate,
    input_,
    line,
    output,
    parameter,
    polygon,
    pose,
    sensor,
    trail,
    velocity,
    view,
)
from servonode.plants.physics.diff_drive_trailer import PHYSICS
from servonode.plants.views.diff_drive_trailer import VIEW

__all__ = ["PHYSICS", "VIEW", "model"]


def model() -> Model:
    """The machine of this file's title, in the state order X, Y, psi, phi, V, Omega, theta1, theta2."""
    X = coordinate("X", "position of the driven axle's middle O1 along x", "m", rate_limit=50)
    Y = coordinate("Y", "position of the driven axle's middle O1 along y", "m", rate_limit=50)
    psi = coordinate("psi", "heading of the robot, unwrapped", "rad", rate_limit=200)
    phi = coordinate("phi", "hitch angle, trailer relative to robot, unwrapped", "rad", rate_limit=200)
    theta1 = coordinate("theta1", "angle of the left wheel", "rad", rate_limit=500)
    theta2 = coordinate("theta2", "angle of the right wheel", "rad", rate_limit=500)
    V = velocity("V", "forward speed of O1", "m/s", limit=20, rate_limit=2000)
    Omega = velocity("Omega", "yaw rate of the robot", "rad/s", limit=200, rate_limit=20000)

    m1 = parameter("m1", "platform mass without driven wheels", "kg", default=4.0, above=0)
    mk = parameter("m_k", "mass of one driven wheel", "kg", default=1.0, above=0)
    m2 = parameter("m2", "trailer mass with its frame and wheels", "kg", default=2.0, above=0)
    I1 = parameter("I1", "platform yaw inertia about O1, without driven wheels", "kg m^2", default=0.7, above=0)
    I2 = parameter("I2", "trailer yaw inertia about its centre of mass O2", "kg m^2", default=0.3, above=0)
    Iky = parameter("Iky", "spin inertia of one driven wheel", "kg m^2", default=0.00028, above=0)
    Ikz = parameter("Ikz", "driven wheel's inertia about its own vertical", "kg m^2", default=0.00014, above=0)
    b = parameter("b", "hinge to trailer axle", "m", default=1.0, above=0)
    d1 = parameter("d1", "platform centre of mass ahead of the axle (any sign)", "m", default=0.3)
    l = parameter("l", "half of the track", "m", default=0.2, above=0)  # noqa: E741
    r = parameter("r", "driven wheel radius", "m", default=0.075, above=0)
    c_w = parameter("c_w", "viscous friction at a driven wheel", "N m s/rad", default=0.0, at_least=0)
    c_b = parameter(
        "c_b", "brake at a driven wheel, the safe action after a fault", "N m s/rad", default=0.05, at_least=0
    )
    a_slip = parameter("a_slip", "contact force per mass that the tyres transmit", "m/s^2", default=7.848, above=0)

    U1 = input_("U1", "torque of the left wheel", "N m")
    U2 = input_("U2", "torque of the right wheel", "N m")

    def e(a: Any) -> Any:
        return Matrix([cos(a), sin(a)])

    def n(a: Any) -> Any:
        return Matrix([-sin(a), cos(a)])

    heading_rate, trailer = psi.rate, psi + phi
    trailer_rate = psi.rate + phi.rate
    O1_rate = Matrix([X.rate, Y.rate])
    C_rate = O1_rate + d1 * heading_rate * n(psi)
    left_rate = O1_rate - l * heading_rate * e(psi)
    right_rate = O1_rate + l * heading_rate * e(psi)
    O2_rate = O1_rate - b * trailer_rate * n(trailer)

    kinetic = (
        m1 * C_rate.dot(C_rate)
        + (I1 - m1 * d1**2) * heading_rate**2
        + mk * (left_rate.dot(left_rate) + right_rate.dot(right_rate))
        + 2 * Ikz * heading_rate**2
        + Iky * (theta1.rate**2 + theta2.rate**2)
        + m2 * O2_rate.dot(O2_rate)
        + I2 * trailer_rate**2
    ) / 2

    contact = (
        constraint("Lambda1", "sideways force on the driven axle, to the left", n(psi).dot(O1_rate)),
        constraint("Lambda2", "sideways force on the trailer axle, to its left", n(trailer).dot(O2_rate)),
        constraint("Lambda3", "traction of the left wheel, forward", e(psi).dot(left_rate) - r * theta1.rate),
        constraint("Lambda4", "traction of the right wheel, forward", e(psi).dot(right_rate) - r * theta2.rate),
    )
    sideways, trailer_sideways, left_traction, right_traction = (each.multiplier for each in contact)
    traction = left_traction + right_traction
    return Model(
        name="diff_drive_trailer",
        description="differential-drive robot with a passive trailer",
        parameters=(m1, mk, m2, I1, I2, Iky, Ikz, b, d1, l, r, c_w, c_b, a_slip),
        kinematics={
            X: V * cos(psi),
            Y: V * sin(psi),
            psi: Omega,
            phi: -V / b * sin(phi) - Omega,
            theta1: (V - l * Omega) / r,
            theta2: (V + l * Omega) / r,
        },
        velocities=(V, Omega),
        order=(X, Y, psi, phi, V, Omega, theta1, theta2),
        kinetic=kinetic,
        dissipation=c_w * (theta1.rate**2 + theta2.rate**2) / 2,
        constraints=contact,
        inputs={U1: theta1.rate, U2: theta2.rate},
        outputs=(
            output("X2", "position of the trailer axle's middle O2 along x", X - b * cos(trailer), "m"),
            output("Y2", "position of the trailer axle's middle O2 along y", Y - b * sin(trailer), "m"),
            output("V2", "forward speed of O2", V * cos(phi), "m/s"),
            output("theta1_dot", "rate of the left wheel", theta1.rate, "rad/s"),
            output("theta2_dot", "rate of the right wheel", theta2.rate, "rad/s"),
        ),
        sensors=(
            sensor(
                "encoder_left",
                "angle of the left wheel, 2048 steps a turn",
                theta1,
                "rad",
                quantum=float(2 * pi / 2048),
            ),
            sensor(
                "encoder_right",
                "angle of the right wheel, 2048 steps a turn",
                theta2,
                "rad",
                quantum=float(2 * pi / 2048),
            ),
            sensor("gyroscope", "yaw rate of the robot", Omega, "rad/s", noise=0.01),
            sensor(
                "accelerometer_forward",
                "specific force at the platform's centre of mass, forward",
                V.rate - d1 * Omega**2,
                "m/s^2",
                noise=0.05,
            ),
            sensor(
                "accelerometer_left",
                "specific force at the platform's centre of mass, to the left",
                V * Omega + d1 * Omega.rate,
                "m/s^2",
                noise=0.05,
            ),
            sensor("hitch_potentiometer", "hitch angle", phi, "rad", noise=0.01),
            sensor("camera_x", "position of O1 along x, seen from outside", X, "m", noise=0.01, rate=20, delay=0.05),
            sensor("camera_y", "position of O1 along y, seen from outside", Y, "m", noise=0.01, rate=20, delay=0.05),
        ),
        safe={U1: -c_b * theta1.rate, U2: -c_b * theta2.rate},
        requirements=(
            condition(
                m1 * d1**2 <= I1,
                "no inertia is left about the platform's own centre of mass; raise I1",
            ),
        ),
        warnings=(
            condition(Abs(phi) < pi / 2, "hitch angle beyond pi/2: a real trailer touches the robot"),
            condition(
                Abs(trailer_sideways) < a_slip * m2,
                "the trailer's wheels would slip sideways (Lambda2 > a_slip m2)",
            ),
            condition(
                sqrt(sideways**2 + traction**2) < a_slip * (m1 + 2 * mk),
                "the driven wheels would slip (contact force > a_slip times the robot's mass)",
            ),
        ),
        panels=(("V",), ("Omega",), ("phi",), ("theta1_dot", "theta2_dot")),
        drawing=_drawing(Matrix([X, Y]), psi, Matrix([X, Y]) - b * e(trailer), trailer, l, r, b),
    )


def _drawing(O1: Any, psi: Any, O2: Any, trailer: Any, l: Any, r: Any, b: Any) -> list[Any]:  # noqa: E741
    """Robot, wheels, bed, drawbar and its wheels, from above."""
    wheel = line((-r, 0), (r, 0))
    nose = polygon((-0.6 * l, -l), (l, -l), (1.7 * l, 0), (l, l), (-0.6 * l, l))
    bed = polygon(*((0.9 * x * l - b, 0.8 * y * l) for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1))))
    robot = (nose, wheel.at((0, 1.15 * l)), wheel.at((0, -1.15 * l)))
    behind = (bed, line((0, 0), (-b, 0)), wheel.at((-b, l)), wheel.at((-b, -l)))
    return [
        view(*(each.at(O1, psi) for each in robot), *(each.at(O1, trailer) for each in behind),
             trail(O1, "robot"), trail(O2, "trailer"), pose("robot", O1, psi), pose("trailer", O2, trailer),
             goal=("x", "y")),
    ]  # fmt: skip
