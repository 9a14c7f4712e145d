"""Snakeboard: a board on two steered axles, with a rotor (Ostrowski, Lewis, Murray and Burdick 1994).

x and y are in the ground, angles counterclockwise from above. The front axle is steered by phi, the rear one by -phi;
no axle slips sideways. tau_r > 0 turns the rotor counterclockwise against the board, tau_w > 0 steers to the left.
"""

from collections.abc import Mapping

import numpy as np
from sympy import cos, sin, tan

from servonode.mechanics import Model, coordinate, input_, parameter, velocity
from servonode.plants.view import View

Values = Mapping[str, float]


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
    )


def outline(values: Values, parameters: Values) -> list[np.ndarray]:
    """Lines (n, 2) [m] of the board, its axles and the rotor, from above."""
    l, phi = parameters["l"], values["phi"]  # noqa: E741
    board, axle = np.array([[-l, 0.0], [l, 0.0]]), np.array([[0.0, -0.5 * l], [0.0, 0.5 * l]])
    axles = [turned(axle, side * phi) + np.array([side * l, 0.0]) for side in (1, -1)]
    rotor = turned(np.array([[-0.6 * l, 0.0], [0.0, 0.0], [0.6 * l, 0.0]]), values["psi"])
    place = np.array([values["x"], values["y"]])
    return [turned(line, values["theta"]) + place for line in (board, *axles, rotor)]


def turned(points: np.ndarray, angle: float) -> np.ndarray:
    """The points (n, 2) turned counterclockwise by an angle [rad]."""
    return points @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


VIEW = View(outline=outline, title="from above", trails={"board": ("x", "y")}, goal=("X", "Y"))
