"""An arm with an elastic joint: a motor turns it through a spring (Spong 1987).

Angles are counterclockwise; the arm hangs straight down at p = 0, and the spring is relaxed where q = p. tau > 0 turns
the motor counterclockwise.
"""

# ruff: noqa: E741
from collections.abc import Mapping

import numpy as np
from sympy import cos

from servonode.mechanics import Model, coordinate, input_, parameter
from servonode.plants.view import View, circle

Values = Mapping[str, float]


def model() -> Model:
    """An arm that a motor turns through an elastic joint."""
    q = coordinate("q", "angle of the motor", "rad")
    p = coordinate("p", "angle of the arm, 0 hangs down", "rad")
    J = parameter("J", "inertia of the motor", "kg m^2", default=0.05)
    I = parameter("I", "inertia of the arm", "kg m^2", default=0.3)
    k = parameter("k", "stiffness of the joint", "N m/rad", default=50.0)
    W = parameter("W", "weight of the arm times its lever", "N m", default=5.0)
    c = parameter("c", "brake of the motor", "N m s/rad", default=0.5)
    tau = input_("tau", "torque of the motor", "N m")
    return Model(
        name="arm",
        description="arm with an elastic joint",
        coordinates=(q, p),
        parameters=(J, I, k, W, c),
        kinetic=(J * q.rate**2 + I * p.rate**2) / 2,
        potential=k * (q - p) ** 2 / 2 - W * cos(p),
        inputs={tau: q.rate},
        safe={tau: -c * q.rate},  # what the motor does after a fault
    )


LENGTH = 0.5  # of the arm as it is drawn [m]


def pointing(angle: float) -> np.ndarray:
    """A unit vector at this angle from straight down."""
    return np.array([np.sin(angle), -np.cos(angle)])


def outline(values: Values, _parameters: Values) -> list[np.ndarray]:
    """Lines (n, 2) [m] of the motor with a mark opposite to the arm, and of the arm with its weight, a dot."""
    arm, mark = LENGTH * pointing(values["p"]), pointing(values["q"] + np.pi)
    return [circle(np.zeros(2), 0.1), np.array([0.1 * mark, 0.2 * mark]), np.array([0.0 * arm, arm]), arm[None]]


def vertical(_values: Values, _parameters: Values) -> list[np.ndarray]:
    """A line straight down from the axis."""
    return [LENGTH * np.array([[0.0, 0.0], [0.0, -1.0]])]


def twist(values: Values, _parameters: Values) -> str:
    """By how much the spring is twisted."""
    return f"twist {np.degrees(values['q'] - values['p']):+.1f}°".replace("-", "\u2212")


VIEW = View(
    outline=outline,
    title="from the side, with the twist of the spring; the line on top turns with the motor",
    axes=("", "height [m]"),
    guides=vertical,
    strip=True,
    caption=twist,
)
