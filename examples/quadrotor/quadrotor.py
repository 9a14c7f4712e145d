"""Quadrotor in a vertical plane, by its thrust and torque (the textbook PVTOL without its small lateral force).

x points to the right, z upwards. theta = 0 is level; theta > 0 is counterclockwise and turns the thrust towards -x.
T > 0 lifts along the body's own vertical axis, tau > 0 turns counterclockwise.
"""

from sympy import cos, sin

from servonode.mechanics import Model, arrow, condition, coordinate, input_, line, parameter, trail, view


def model() -> Model:
    """Its place x, z and its tilt."""
    x, z = coordinate("x", "position", "m"), coordinate("z", "height", "m")
    theta = coordinate("theta", "tilt, positive turns the thrust towards -x", "rad")
    m = parameter("m", "mass", "kg", default=0.5, above=0)
    I = parameter("I", "moment of inertia", "kg m^2", default=0.01, above=0)  # noqa: E741
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    c_T = parameter("c_T", "brake along the thrust, after a fault", "N s/m", default=2.0, at_least=0)
    c_tau = parameter("c_tau", "brake of the rotation, after a fault", "N m s/rad", default=0.05, at_least=0)
    T, tau = input_("T", "thrust", "N"), input_("tau", "torque", "N m")
    climb = z.rate * cos(theta) - x.rate * sin(theta)
    frame = line((-0.18, 0.05), (-0.18, 0), (0.18, 0), (0.18, 0.05))
    rotors = [line((at - 0.09, 0.05), (at, 0.05), (at + 0.09, 0.05)) for at in (-0.18, 0.18)]
    thrust = arrow((0, 0), (0, T), name="thrust")
    return Model(
        name="quadrotor",
        description="quadrotor in a plane",
        coordinates=(x, z, theta),
        parameters=(m, I, g, c_T, c_tau),
        kinetic=(m * (x.rate**2 + z.rate**2) + I * theta.rate**2) / 2,
        potential=m * g * z,
        inputs={T: climb, tau: theta.rate},
        safe={T: -c_T * climb, tau: -c_tau * theta.rate},
        panels=(("theta",), ("x_dot", "z_dot")),
        warnings=(condition(T > 0, "the rotors would have to push downwards"),),
        drawing=[
            view(
                *(each.at((x, z), theta) for each in (frame, *rotors, thrust)),
                trail((x, z), "quadrotor"),
                title="from the side",
                axes=("x [m]", "height [m]"),
                goal=("X", "Z"),
            ),
        ],
    )
