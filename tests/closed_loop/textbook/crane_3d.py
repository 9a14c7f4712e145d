"""Overhead crane in space: a bridge, a trolley on it, a winch on the trolley, the load on its rope."""

from sympy import cos, sin

from servonode.mechanics import Model, coordinate, input_, parameter


def model() -> Model:
    """The bridge at x, the trolley at y on it, the rope of length l swung by alpha along x and by beta along y."""
    x, y = coordinate("x", "place of the bridge", "m"), coordinate("y", "place of the trolley on the bridge", "m")
    l = coordinate("l", "length of the rope", "m")  # noqa: E741
    alpha, beta = coordinate("alpha", "swing along the rails", "rad"), coordinate("beta", "swing along y", "rad")
    m_b = parameter("m_b", "mass of the bridge", "kg", default=20.0, above=0)
    m_t = parameter("m_t", "mass of the trolley", "kg", default=10.0, above=0)
    m = parameter("m", "mass of the load", "kg", default=100.0, above=0)
    J = parameter("J", "moment of inertia of the winch", "kg m^2", default=0.1, above=0)
    r = parameter("r", "radius of the winch", "m", default=0.1, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    F_x, F_y = input_("F_x", "force on the bridge", "N"), input_("F_y", "force on the trolley", "N")
    M_w = input_("M_w", "torque of the winch", "N m")
    coordinates = (x, y, l, alpha, beta)
    load = (x + l * sin(alpha), y + l * cos(alpha) * sin(beta), l * cos(alpha) * cos(beta))
    speeds = [sum(place.diff(q) * q.rate for q in coordinates) for place in load]
    return Model(
        name="crane_3d",
        description="overhead crane in space",
        coordinates=coordinates,
        parameters=(m_b, m_t, m, J, r, g),
        kinetic=(m_b * x.rate**2 + m_t * (x.rate**2 + y.rate**2) + J * (l.rate / r) ** 2) / 2
        + m * sum(speed**2 for speed in speeds) / 2,
        potential=-m * g * load[2],
        inputs={F_x: x.rate, F_y: y.rate, M_w: l.rate / r},
    )
