"""Overhead crane in space: a bridge on rails, a trolley on the bridge, a winch on the trolley, the load on its rope.

x points along the rails, y along the bridge, z upwards from the floor. The rope hangs straight down at alpha = 0 and
beta = 0; alpha > 0 swings the load towards +x, beta > 0 towards +y. F_x > 0 and F_y > 0 push towards +x and +y, M_w > 0
lets out rope. The rope has no mass and stays taut.
"""

from sympy import cos, sin

from servonode.mechanics import Model, circle, coordinate, input_, line, output, parameter, polygon, trail, view

COLUMN, TOP = 0.6, 1.2  # radius and height of a column in the middle [m]


def model() -> Model:
    """The bridge at s_x, the trolley at s_y on it, the rope of length l, the load at x, y, z."""
    s_x = coordinate("s_x", "place of the bridge", "m")
    s_y = coordinate("s_y", "position of the trolley", "m")
    l = coordinate("l", "length of the rope", "m", start=4.0)  # noqa: E741
    alpha, beta = coordinate("alpha", "swing along x", "rad"), coordinate("beta", "swing along y", "rad")
    m_b = parameter("m_b", "mass of the bridge", "kg", default=20.0, above=0)
    m_t = parameter("m_t", "mass of the trolley", "kg", default=10.0, above=0)
    m = parameter("m", "mass of the load", "kg", default=100.0, above=0)
    J = parameter("J", "moment of inertia of the winch", "kg m^2", default=0.1, above=0)
    r = parameter("r", "radius of the winch", "m", default=0.1, above=0)
    H = parameter("H", "height of the rails", "m", default=5.0, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    c_t = parameter("c_t", "brakes of bridge and trolley, after a fault", "N s/m", default=200.0, at_least=0)
    c_w = parameter("c_w", "brake of the winch, after a fault", "N m s/rad", default=500.0, at_least=0)
    F_x, F_y = input_("F_x", "force on the bridge", "N"), input_("F_y", "force on the trolley", "N")
    M_w = input_("M_w", "torque of the winch", "N m")
    coordinates = (s_x, s_y, l, alpha, beta)
    load = (s_x + l * sin(alpha), s_y + l * cos(alpha) * sin(beta), H - l * cos(alpha) * cos(beta))
    speeds = [sum(place.diff(q) * q.rate for q in coordinates) for place in load]
    trolley, bridge, beam = (s_x, s_y), line((s_x, -2.2), (s_x, 2.2)), line((-2.5, 0), (2.5, 0), thin=True)
    box = [polygon((-w, -h), (w, -h), (w, h), (-w, h)) for w, h in ((0.15, 0.15), (0.3, 0.1), (0.2, 0.2))]
    above, beside = load[:2], (load[0], load[2])
    column = line((-COLUMN, 0), (-COLUMN, TOP), (COLUMN, TOP), (COLUMN, 0), thin=True)
    words = ("position of the load along x", "position of the load along y", "height of the load")
    return Model(
        name="crane_3d",
        description="overhead crane in space",
        coordinates=coordinates,
        parameters=(m_b, m_t, m, J, r, H, g, c_t, c_w),
        kinetic=(m_b * s_x.rate**2 + m_t * (s_x.rate**2 + s_y.rate**2) + J * (l.rate / r) ** 2) / 2
        + m * sum(speed**2 for speed in speeds) / 2,
        potential=m * g * load[2],
        inputs={F_x: s_x.rate, F_y: s_y.rate, M_w: l.rate / r},
        safe={F_x: -c_t * s_x.rate, F_y: -c_t * s_y.rate, M_w: -c_w * l.rate / r},
        outputs=[output(name, word, place, "m") for name, word, place in zip("xyz", words, load, strict=True)],
        panels=(("s_x", "x"), ("s_y", "y"), ("alpha", "beta")),
        drawing=[
            view(
                bridge,
                box[0].at(trolley),
                line(trolley, above),
                box[2].at(above),
                circle((0, 0), COLUMN, thin=True),
                trail(above, "load"),
                title="from above",
                goal=("X", "Y"),
            ),
            view(
                line((s_x, H), beside),
                box[1].at((s_x, H)),
                box[2].at(beside),
                beam,
                beam.at((0, H)),
                column,
                trail(beside, "load"),
                title="from the side",
                axes=("x [m]", "height [m]"),
                goal=("X", "Z"),
            ),
        ],
    )
