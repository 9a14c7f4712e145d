"""Quadrotor in a vertical plane, by its thrust and torque (the textbook PVTOL without its small lateral force)."""

from sympy import cos, sin

from servonode.mechanics import Model, coordinate, input_, parameter


def model() -> Model:
    """Its place x, z (up) and its tilt; the thrust acts along the body's own vertical axis."""
    x, z = coordinate("x", "place", "m"), coordinate("z", "height", "m")
    theta = coordinate("theta", "tilt, positive turns the thrust towards -x", "rad")
    m = parameter("m", "mass", "kg", default=0.5, above=0)
    I = parameter("I", "moment of inertia", "kg m^2", default=0.01, above=0)  # noqa: E741
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    T, tau = input_("T", "thrust", "N"), input_("tau", "torque", "N m")
    return Model(
        name="quadrotor",
        description="quadrotor in a plane",
        coordinates=(x, z, theta),
        parameters=(m, I, g),
        kinetic=(m * (x.rate**2 + z.rate**2) + I * theta.rate**2) / 2,
        potential=m * g * z,
        inputs={T: z.rate * cos(theta) - x.rate * sin(theta), tau: theta.rate},
    )
