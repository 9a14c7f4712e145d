"""Machines on moving constraints: a bead on a wire that is turned, a pendulum whose pivot is shaken."""

from sympy import cos, sin

from servonode.mechanics import Model, constraint, coordinate, parameter, time, velocity


def wire() -> Model:
    """A bead on a straight wire that turns at an even rate in a horizontal plane."""
    x, y = coordinate("x", "position of the bead", "m"), coordinate("y", "position of the bead", "m")
    u = velocity("u", "speed along the wire", "m/s")
    m = parameter("m", "mass", "kg", default=0.4, above=0)
    w = parameter("w", "rate of the wire", "rad/s", default=1.5)
    c, s = cos(w * time), sin(w * time)
    return Model(
        name="wire",
        description="bead on a turning wire",
        parameters=(m, w),
        kinematics={x: u * c - w * y, y: u * s + w * x},
        velocities=(u,),
        kinetic=m * (x.rate**2 + y.rate**2) / 2,
        constraints=(constraint("N", "force of the wire, ahead", y * c - x * s),),
    )


def shaken() -> Model:
    """Kapitza's pendulum: its pivot moves up and down as A cos(W t); theta = 0 hangs down, pi stands."""
    y, theta = coordinate("y", "height of the pivot", "m"), coordinate("theta", "angle", "rad")
    m = parameter("m", "mass", "kg", default=0.2, above=0)
    L = parameter("L", "length", "m", default=0.5, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    A = parameter("A", "amplitude of the pivot", "m", default=0.05)
    W = parameter("W", "angular frequency of the pivot", "rad/s", default=80.0)
    bob = (L * theta.rate * cos(theta)) ** 2 + (y.rate + L * theta.rate * sin(theta)) ** 2
    return Model(
        name="shaken",
        description="pendulum with a shaken pivot",
        coordinates=(y, theta),
        parameters=(m, L, g, A, W),
        kinematics={y: -A * W * sin(W * time)},
        kinetic=m * bob / 2,
        potential=m * g * (y - L * cos(theta)),
        constraints=(constraint("lift", "force on the pivot, up", y - A * cos(W * time)),),
    )
