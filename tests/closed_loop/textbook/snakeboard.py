"""Snakeboard: a board on two steered axles, with a rotor (Ostrowski, Lewis, Murray and Burdick 1994)."""

from sympy import cos, sin, tan

from servonode.mechanics import Model, coordinate, input_, parameter, velocity


def model() -> Model:
    """The board's centre at x, y, its heading theta, the rotor at psi; the axles are steered by phi and -phi."""
    x, y = coordinate("x", "place", "m"), coordinate("y", "place", "m")
    theta, psi = coordinate("theta", "heading", "rad"), coordinate("psi", "angle of the rotor to the board", "rad")
    phi = coordinate("phi", "angle of the front axle to the board, the rear one's is -phi", "rad")
    v = velocity("v", "speed along the board", "m/s")
    m = parameter("m", "mass", "kg", default=6.0, above=0)
    l = parameter("l", "half the distance of the axles", "m", default=0.2, above=0)  # noqa: E741
    J = parameter("J", "moment of inertia of the board", "kg m^2", default=0.02, above=0)
    J_r = parameter("J_r", "moment of inertia of the rotor", "kg m^2", default=0.2, above=0)
    J_w = parameter("J_w", "moment of inertia of each axle", "kg m^2", default=0.01, above=0)
    tau_r, tau_w = input_("tau_r", "torque on the rotor", "N m"), input_("tau_w", "torque on each axle", "N m")
    turning = J * theta.rate**2 + J_r * (theta.rate + psi.rate) ** 2
    turning += J_w * ((theta.rate + phi.rate) ** 2 + (theta.rate - phi.rate) ** 2)
    return Model(
        name="snakeboard",
        description="snakeboard",
        coordinates=(x, y, theta, psi, phi),
        velocities=(v,),
        kinematics={x: v * cos(theta), y: v * sin(theta), theta: v * tan(phi) / l},
        parameters=(m, l, J, J_r, J_w),
        kinetic=(m * (x.rate**2 + y.rate**2) + turning) / 2,
        inputs={tau_r: psi.rate, tau_w: 2 * phi.rate},
    )
