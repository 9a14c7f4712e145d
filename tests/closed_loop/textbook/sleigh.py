"""Chaplygin sleigh: a plate on ice with one blade; its centre of mass is `a` ahead of the blade."""

from sympy import cos, sin

from servonode.mechanics import Model, constraint, coordinate, parameter, velocity


def model() -> Model:
    """The Chaplygin sleigh."""
    x, y = coordinate("x", "position of the blade", "m"), coordinate("y", "position of the blade", "m")
    psi = coordinate("psi", "heading", "rad")
    v, w = velocity("v", "speed along the blade", "m/s"), velocity("w", "yaw rate", "rad/s")
    m = parameter("m", "mass", "kg", default=2.0, above=0)
    I = parameter("I", "inertia about the centre of mass", "kg m^2", default=0.3, above=0)  # noqa: E741
    a = parameter("a", "centre of mass ahead of the blade", "m", default=0.25)
    centre = (x.rate - a * psi.rate * sin(psi)) ** 2 + (y.rate + a * psi.rate * cos(psi)) ** 2
    return Model(
        name="sleigh",
        description="Chaplygin sleigh",
        parameters=(m, I, a),
        kinematics={x: v * cos(psi), y: v * sin(psi), psi: w},
        velocities=(v, w),
        kinetic=(m * centre + I * psi.rate**2) / 2,
        constraints=(
            constraint("N", "force of the ice on the blade, to its left", y.rate * cos(psi) - x.rate * sin(psi)),
        ),
    )
