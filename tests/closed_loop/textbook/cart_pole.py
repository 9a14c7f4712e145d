"""Cart on a rail with a pole, point mass at its end; theta = 0 hangs down, pi stands."""

from sympy import cos, sin

from servonode.mechanics import Model, coordinate, input_, parameter


def model() -> Model:
    """A cart with a pole."""
    x, theta = coordinate("x", "position of the cart", "m"), coordinate("theta", "angle of the pole", "rad")
    M = parameter("M", "mass of the cart", "kg", default=1.0, above=0)
    m = parameter("m", "mass of the bob", "kg", default=1.0, above=0)
    L = parameter("L", "length of the pole", "m", default=1.0, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    F = input_("F", "force on the cart", "N")
    bob = (x.rate + L * theta.rate * cos(theta)) ** 2 + (L * theta.rate * sin(theta)) ** 2
    return Model(
        name="cart_pole",
        description="cart with a pole",
        coordinates=(x, theta),
        parameters=(M, m, L, g),
        kinetic=(M * x.rate**2 + m * bob) / 2,
        potential=-m * g * L * cos(theta),
        inputs={F: x.rate},
    )
