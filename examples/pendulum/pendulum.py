from sympy import cos

from servonode.mechanics import Model, coordinate, input_, parameter


def model() -> Model:
    """A pendulum with a motor in its joint: theta = 0 hangs, pi stands."""
    theta = coordinate("theta", "angle from the downward vertical", "rad")
    m = parameter("m", "mass of the bob", "kg", default=1.0, above=0)
    l = parameter("l", "length of the rod", "m", default=0.5, above=0)  # noqa: E741
    g = parameter("g", "gravity", "m/s^2", default=9.81, above=0)
    tau = input_("tau", "torque of the motor", "N m")
    return Model(
        name="pendulum",
        description="pendulum with a motor",
        coordinates=(theta,),
        parameters=(m, l, g),
        kinetic=m * l**2 * theta.rate**2 / 2,
        potential=-m * g * l * cos(theta),
        inputs={tau: theta.rate},
    )
