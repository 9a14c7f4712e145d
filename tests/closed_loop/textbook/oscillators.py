"""One-coordinate machines: a pendulum and a mass on a spring, both with friction and an input."""

from sympy import cos

from servonode.mechanics import Model, coordinate, input_, parameter


def pendulum() -> Model:
    """A pendulum with friction in its pivot."""
    theta = coordinate("theta", "angle from below", "rad")
    m = parameter("m", "mass", "kg", default=0.7, above=0)
    l = parameter("l", "length", "m", default=1.2, above=0)  # noqa: E741
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    c = parameter("c", "friction", "N m s/rad", default=0.0, at_least=0)
    N = input_("N", "torque", "N m")
    return Model(
        name="pendulum",
        description="pendulum",
        coordinates=(theta,),
        parameters=(m, l, g, c),
        kinetic=m * (l * theta.rate) ** 2 / 2,
        potential=-m * g * l * cos(theta),
        dissipation=c * theta.rate**2 / 2,
        inputs={N: theta.rate},
    )


def spring() -> Model:
    """A mass on a spring with friction."""
    x = coordinate("x", "place", "m")
    m = parameter("m", "mass", "kg", default=0.8, above=0)
    k = parameter("k", "stiffness", "N/m", default=5.0, at_least=0)
    c = parameter("c", "friction", "N s/m", default=0.6, at_least=0)
    F = input_("F", "force", "N")
    return Model(
        name="spring",
        description="mass on a spring",
        coordinates=(x,),
        parameters=(m, k, c),
        kinetic=m * x.rate**2 / 2,
        potential=k * x**2 / 2,
        dissipation=c * x.rate**2 / 2,
        inputs={F: x.rate},
    )
