"""A cart on a rail with an inverted pendulum: x points along the rail, theta = 0 stands, theta > 0 leans towards +x."""

from sympy import cos, sin

from servonode.mechanics import Model, coordinate, input_, parameter


def model() -> Model:
    """The machine: a point mass m on a massless rod of length l, the force F acts on the cart."""
    x = coordinate("x", "position of the cart", "m")
    theta = coordinate("theta", "angle of the pendulum from the upward vertical", "rad")
    M = parameter("M", "mass of the cart", "kg", default=1.0, above=0)
    m = parameter("m", "mass of the bob", "kg", default=0.2, above=0)
    l = parameter("l", "length of the rod", "m", default=0.5, above=0)  # noqa: E741  (the symbol of the books)
    g = parameter("g", "gravity", "m/s^2", default=9.81, above=0)
    F = input_("F", "force on the cart", "N")
    bob = (x.rate + l * theta.rate * cos(theta)) ** 2 + (l * theta.rate * sin(theta)) ** 2
    return Model(
        name="cart_pendulum",
        description="cart with an inverted pendulum",
        coordinates=(x, theta),
        parameters=(M, m, l, g),
        kinetic=(M * x.rate**2 + m * bob) / 2,
        potential=m * g * l * cos(theta),
        inputs={F: x.rate},
    )
