"""Double pendulum of two point masses on massless rods, in a vertical plane; y points up, angles from below."""

from sympy import cos

from servonode.mechanics import Model, constraint, coordinate, parameter, velocity
from servonode.mechanics.symbols import Parameter


def angles() -> Model:
    """A double pendulum in its two absolute angles."""
    th1 = coordinate("th1", "angle of the first rod", "rad")
    th2 = coordinate("th2", "angle of the second rod", "rad")
    m1, m2, l1, l2, g = parameters = _parameters()
    fast1 = (l1 * th1.rate) ** 2
    fast2 = fast1 + (l2 * th2.rate) ** 2 + 2 * l1 * l2 * th1.rate * th2.rate * cos(th1 - th2)
    return Model(
        name="double_pendulum",
        description="double pendulum in angles",
        coordinates=(th1, th2),
        parameters=parameters,
        kinetic=(m1 * fast1 + m2 * fast2) / 2,
        potential=-(m1 + m2) * g * l1 * cos(th1) - m2 * g * l2 * cos(th2),
    )


def places() -> Model:
    """The same double pendulum in the places of its masses, the rods as holonomic constraints."""
    x1, y1 = coordinate("x1", "place of the first mass", "m"), coordinate("y1", "its height", "m")
    x2, y2 = coordinate("x2", "place of the second mass", "m"), coordinate("y2", "its height", "m")
    w1 = velocity("w1", "rate of the first rod", "rad/s")
    w2 = velocity("w2", "rate of the second rod", "rad/s")
    m1, m2, l1, l2, g = parameters = _parameters()
    return Model(
        name="double_pendulum_in_places",
        description="double pendulum in Cartesian coordinates",
        parameters=parameters,
        kinematics={
            x1: -y1 * w1,
            y1: x1 * w1,
            x2: -y1 * w1 - (y2 - y1) * w2,
            y2: x1 * w1 + (x2 - x1) * w2,
        },
        velocities=(w1, w2),
        kinetic=(m1 * (x1.rate**2 + y1.rate**2) + m2 * (x2.rate**2 + y2.rate**2)) / 2,
        potential=m1 * g * y1 + m2 * g * y2,
        constraints=(
            constraint("S1", "force of the first rod, per 2 l1", x1**2 + y1**2 - l1**2, "N/m"),
            constraint("S2", "force of the second rod, per 2 l2", (x2 - x1) ** 2 + (y2 - y1) ** 2 - l2**2, "N/m"),
        ),
    )


def _parameters() -> tuple[Parameter, ...]:
    return (
        parameter("m1", "first mass", "kg", default=1.0, above=0),
        parameter("m2", "second mass", "kg", default=1.0, above=0),
        parameter("l1", "length of the first rod", "m", default=1.0, above=0),
        parameter("l2", "length of the second rod", "m", default=1.0, above=0),
        parameter("g", "gravity", "m/s^2", default=9.81, above=0),
    )
