"""Snakeboard: a board on two steered axles, with a rotor (Ostrowski, Lewis, Murray and Burdick 1994).

x and y are in the ground, angles counterclockwise from above. The front axle is steered by phi, the rear one by -phi;
no axle slips sideways. tau_r > 0 turns the rotor counterclockwise against the board, tau_w > 0 steers to the left.
"""

from sympy import cos, sin, tan

from servonode.mechanics import Model, coordinate, input_, line, parameter, trail, velocity, view


def model() -> Model:
    """The board's centre at x, y, its heading theta, the rotor at psi; the axles are steered by phi and -phi."""
    x, y = coordinate("x", "position", "m"), coordinate("y", "position", "m")
    theta, psi = coordinate("theta", "heading", "rad"), coordinate("psi", "angle of the rotor to the board", "rad")
    phi = coordinate("phi", "angle of the front axle, the rear one's is -phi", "rad")
    v = velocity("v", "speed along the board", "m/s")
    m = parameter("m", "mass", "kg", default=6.0, above=0)
    l = parameter("l", "half the distance of the axles", "m", default=0.2, above=0)  # noqa: E741
    J = parameter("J", "moment of inertia of the board", "kg m^2", default=0.02, above=0)
    J_r = parameter("J_r", "moment of inertia of the rotor", "kg m^2", default=0.2, above=0)
    J_w = parameter("J_w", "moment of inertia of each axle", "kg m^2", default=0.01, above=0)
    c_r = parameter("c_r", "brake of the rotor, after a fault", "N m s/rad", default=0.5, at_least=0)
    c_w = parameter("c_w", "brake of each axle's steering, after a fault", "N m s/rad", default=0.2, at_least=0)
    tau_r, tau_w = input_("tau_r", "torque on the rotor", "N m"), input_("tau_w", "torque on each axle", "N m")
    turning = J * theta.rate**2 + J_r * (theta.rate + psi.rate) ** 2
    turning += J_w * ((theta.rate + phi.rate) ** 2 + (theta.rate - phi.rate) ** 2)
    board, axle = line((-l, 0), (l, 0)), line((0, -0.5 * l), (0, 0.5 * l))
    rotor = line((-0.6 * l, 0), (0, 0), (0.6 * l, 0)).at((0, 0), psi)
    shapes = [board, axle.at((l, 0), phi), axle.at((-l, 0), -phi), rotor]
    return Model(
        name="snakeboard",
        description="snakeboard",
        coordinates=(x, y, theta, psi, phi),
        velocities=(v,),
        kinematics={x: v * cos(theta), y: v * sin(theta), theta: v * tan(phi) / l},
        parameters=(m, l, J, J_r, J_w, c_r, c_w),
        kinetic=(m * (x.rate**2 + y.rate**2) + turning) / 2,
        inputs={tau_r: psi.rate, tau_w: 2 * phi.rate},
        panels=(("v",), ("phi",), ("psi_dot",)),
        safe={tau_r: -c_r * psi.rate, tau_w: -2 * c_w * phi.rate},
        drawing=[
            view(
                *(each.at((x, y), theta) for each in shapes),
                trail((x, y), "board"),
                title="from above",
                goal=("X", "Y"),
            ),
        ],
    )
