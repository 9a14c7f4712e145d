"""A two-wheeled balancing robot on straight ground: x along the ground, theta = 0 upright, theta > 0 leans towards +x.

The motor turns the wheels against the body, so its torque tilts the body back when it drives forward.
"""

from sympy import cos, sin

from servonode.mechanics import Model, coordinate, input_, parameter


def model() -> Model:
    """The machine: a body on an axle with two wheels that roll without slip, both driven alike."""
    x = coordinate("x", "position of the axle", "m")
    theta = coordinate("theta", "lean of the body", "rad")
    M = parameter("M", "mass of the body", "kg", default=40.0, above=0)
    I = parameter("I", "moment of inertia of the body about its centre of mass", "kg m^2", default=3.0, above=0)  # noqa: E741
    l = parameter("l", "height of the centre of mass above the axle", "m", default=0.6, above=0)  # noqa: E741
    m = parameter("m", "mass of both wheels", "kg", default=6.0, above=0)
    J = parameter("J", "moment of inertia of both wheels", "kg m^2", default=0.1, above=0)
    r = parameter("r", "radius of the wheels", "m", default=0.2, above=0)
    b = parameter("b", "friction in the motors and bearings", "N m s", default=0.5, at_least=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, above=0)
    tau = input_("tau", "torque of both motors on the wheels", "N m")
    turning = x.rate / r - theta.rate  # of the wheels against the body
    body = (x.rate + l * theta.rate * cos(theta)) ** 2 + (l * theta.rate * sin(theta)) ** 2
    return Model(
        name="segway",
        description="balancing robot on two wheels",
        coordinates=(x, theta),
        parameters=(M, I, l, m, J, r, b, g),
        kinetic=(M * body + I * theta.rate**2 + (m + J / r**2) * x.rate**2) / 2,
        potential=M * g * l * cos(theta),
        dissipation=b * turning**2 / 2,
        inputs={tau: turning},
    )
