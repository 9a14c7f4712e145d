"""Overhead crane: a trolley on a rail, a winch on the trolley, the load on its rope (Blajer and Kolodziejczyk 2004).

x points along the rail, z upwards from the floor. The rope hangs straight down at theta = 0, and theta > 0 swings the
load towards +x. F > 0 pushes the trolley towards +x, M_w > 0 lets out rope. The rope has no mass and stays taut.
"""

from sympy import cos, sin

from servonode.mechanics import Model, condition, coordinate, input_, line, output, parameter, polygon, trail, view


def model() -> Model:
    """The trolley at s, the rope of length l at the angle theta, the load at x, z."""
    s = coordinate("s", "position of the trolley", "m")
    l = coordinate("l", "length of the rope", "m", start=4.0)  # noqa: E741
    theta = coordinate("theta", "angle of the rope, 0 hangs down", "rad")
    m_t = parameter("m_t", "mass of the trolley", "kg", default=10.0, above=0)
    m = parameter("m", "mass of the load", "kg", default=100.0, above=0)
    J = parameter("J", "moment of inertia of the winch", "kg m^2", default=0.1, above=0)
    r = parameter("r", "radius of the winch", "m", default=0.1, above=0)
    H = parameter("H", "height of the rail", "m", default=5.0, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    c_t = parameter("c_t", "brake of the trolley, after a fault", "N s/m", default=200.0, at_least=0)
    c_w = parameter("c_w", "brake of the winch, after a fault", "N m s/rad", default=500.0, at_least=0)
    F, M_w = input_("F", "force on the trolley", "N"), input_("M_w", "torque of the winch", "N m")
    along = s.rate + l.rate * sin(theta) + l * theta.rate * cos(theta)
    down = l.rate * cos(theta) - l * theta.rate * sin(theta)
    pull = m * (g * cos(theta) + l * theta.rate**2 - l.acceleration - s.acceleration * sin(theta))
    load = (s + l * sin(theta), H - l * cos(theta))
    box = [polygon((-w, -h), (w, -h), (w, h), (-w, h)) for w, h in ((0.3, 0.1), (0.2, 0.2))]
    hall = [line((-3, 0), (3, 0), thin=True), line((-3, H), (3, H), thin=True)]
    obstacle = line((-0.7, 0), (-0.7, 1.4), (0.7, 1.4), (0.7, 0), thin=True)
    return Model(
        name="crane",
        description="overhead crane",
        coordinates=(s, l, theta),
        parameters=(m_t, m, J, r, H, g, c_t, c_w),
        kinetic=(m_t * s.rate**2 + J * (l.rate / r) ** 2 + m * (along**2 + down**2)) / 2,
        potential=m * g * (H - l * cos(theta)),
        inputs={F: s.rate, M_w: l.rate / r},
        safe={F: -c_t * s.rate, M_w: -c_w * l.rate / r},
        outputs=(
            output("x", "position of the load", load[0], "m"),
            output("z", "height of the load", load[1], "m"),
            output("S", "tension of the rope", pull, "N"),
        ),
        warnings=(condition(pull > 0, "the rope would be slack"),),
        panels=(("s", "x"), ("theta",), ("S",)),
        drawing=[
            view(
                line((s, H), load),
                box[0].at((s, H)),
                box[1].at(load),
                *hall,
                obstacle,
                trail(load, "load"),
                title="from the side",
                axes=("x [m]", "height [m]"),
                goal=("X", "Z"),
            ),
        ],
    )
