"""Furuta's pendulum: an arm that a motor turns about the vertical, at its end a rod; theta = 0 hangs down."""

from sympy import cos, sin

from servonode.mechanics import Model, coordinate, input_, parameter


def model() -> Model:
    """Furuta's pendulum."""
    alpha, theta = coordinate("alpha", "angle of the arm", "rad"), coordinate("theta", "angle of the rod", "rad")
    J = parameter("J", "inertia of the arm", "kg m^2", default=0.01, above=0)
    m = parameter("m", "mass of the bob", "kg", default=0.1, above=0)
    r = parameter("r", "length of the arm", "m", default=0.2, above=0)
    L = parameter("L", "length of the rod", "m", default=0.3, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    c = parameter("c", "friction of the arm", "N m s/rad", default=1e-3, at_least=0)
    tau = input_("tau", "torque on the arm", "N m")
    along = r * alpha.rate + L * theta.rate * cos(theta)  # the arm's motion
    bob = along**2 + (L * alpha.rate * sin(theta)) ** 2 + (L * theta.rate * sin(theta)) ** 2
    return Model(
        name="furuta",
        description="pendulum on a turning arm",
        coordinates=(alpha, theta),
        parameters=(J, m, r, L, g, c),
        kinetic=(J * alpha.rate**2 + m * bob) / 2,
        potential=-m * g * L * cos(theta),
        dissipation=c * alpha.rate**2 / 2,
        inputs={tau: alpha.rate},
    )
