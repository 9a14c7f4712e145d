"""Quadrotor in a vertical plane, by its thrust and torque (the textbook PVTOL without its small lateral force).

x points to the right, z upwards. theta = 0 is level; theta > 0 is counterclockwise and turns the thrust towards -x.
T > 0 lifts along the body's own vertical axis, tau > 0 turns counterclockwise.
"""

from collections.abc import Mapping

import numpy as np
from sympy import cos, sin

from servonode.mechanics import Model, condition, coordinate, input_, parameter
from servonode.plants.view import View

Values = Mapping[str, float]


def model() -> Model:
    """Its place x, z and its tilt."""
    x, z = coordinate("x", "position", "m"), coordinate("z", "height", "m")
    theta = coordinate("theta", "tilt, positive turns the thrust towards -x", "rad")
    m = parameter("m", "mass", "kg", default=0.5, above=0)
    I = parameter("I", "moment of inertia", "kg m^2", default=0.01, above=0)  # noqa: E741
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    c_T = parameter("c_T", "brake along the thrust, after a fault", "N s/m", default=2.0, at_least=0)
    c_tau = parameter("c_tau", "brake of the rotation, after a fault", "N m s/rad", default=0.05, at_least=0)
    T, tau = input_("T", "thrust", "N"), input_("tau", "torque", "N m")
    climb = z.rate * cos(theta) - x.rate * sin(theta)
    return Model(
        name="quadrotor",
        description="quadrotor in a plane",
        coordinates=(x, z, theta),
        parameters=(m, I, g, c_T, c_tau),
        kinetic=(m * (x.rate**2 + z.rate**2) + I * theta.rate**2) / 2,
        potential=m * g * z,
        inputs={T: climb, tau: theta.rate},
        safe={T: -c_T * climb, tau: -c_tau * theta.rate},
        panels=(("theta",), ("x_dot", "z_dot")),
        warnings=(condition(T > 0, "the rotors would have to push downwards"),),
    )


def axes(values: Values) -> np.ndarray:
    """The body's axes to its right and upwards, as rows (2, 2)."""
    c, s = np.cos(values["theta"]), np.sin(values["theta"])
    return np.array([[c, s], [-s, c]])


def outline(values: Values, _parameters: Values) -> list[np.ndarray]:
    """Lines (n, 2) [m] of the body and its two rotors, from the side."""
    frame = np.array([[-0.18, 0.05], [-0.18, 0.0], [0.18, 0.0], [0.18, 0.05]])
    rotors = [np.array([[side - 0.09, 0.05], [side, 0.05], [side + 0.09, 0.05]]) for side in (-0.18, 0.18)]
    return [line @ axes(values) + [values["x"], values["z"]] for line in (frame, *rotors)]


def thrust(values: Values, _parameters: Values) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The thrust at the middle of the body."""
    return {"thrust": (np.array([values["x"], values["z"]]), values["T"] * axes(values)[1])}


VIEW = View(
    outline=outline,
    title="from the side",
    trails={"quadrotor": ("x", "z")},
    goal=("X", "Z"),
    axes=("x [m]", "height [m]"),
    arrows=thrust,
)
