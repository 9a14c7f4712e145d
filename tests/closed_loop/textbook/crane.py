"""Overhead crane: a trolley on a rail, a winch on the trolley, the load on its rope (Blajer and Kolodziejczyk 2004)."""

from sympy import cos, sin

from servonode.mechanics import Model, coordinate, input_, parameter


def model() -> Model:
    """The trolley at s, the rope of length l at the angle theta from hanging straight down; z points downwards."""
    s, l = coordinate("s", "place of the trolley", "m"), coordinate("l", "length of the rope", "m")  # noqa: E741
    theta = coordinate("theta", "angle of the rope, 0 hangs down", "rad")
    m_t = parameter("m_t", "mass of the trolley", "kg", default=10.0, above=0)
    m = parameter("m", "mass of the load", "kg", default=100.0, above=0)
    J = parameter("J", "moment of inertia of the winch", "kg m^2", default=0.1, above=0)
    r = parameter("r", "radius of the winch", "m", default=0.1, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    F, M_w = input_("F", "force on the trolley", "N"), input_("M_w", "torque of the winch", "N m")
    along = s.rate + l.rate * sin(theta) + l * theta.rate * cos(theta)
    down = l.rate * cos(theta) - l * theta.rate * sin(theta)
    return Model(
        name="crane",
        description="overhead crane",
        coordinates=(s, l, theta),
        parameters=(m_t, m, J, r, g),
        kinetic=(m_t * s.rate**2 + J * (l.rate / r) ** 2 + m * (along**2 + down**2)) / 2,
        potential=-m * g * l * cos(theta),
        inputs={F: s.rate, M_w: l.rate / r},
    )
