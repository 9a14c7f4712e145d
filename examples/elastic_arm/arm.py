"""An arm with an elastic joint: a motor turns it through a spring (Spong 1987).

Angles are counterclockwise; the arm hangs straight down at p = 0, and the spring is relaxed where q = p. tau > 0 turns
the motor counterclockwise.
"""

# ruff: noqa: E741
from collections.abc import Callable, Mapping

import numpy as np
from sympy import cos

from servonode.mechanics import Model, coordinate, input_, parameter
from servonode.plants.view import View, circle, leaning_by, shown_larger

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


def twist(values: Values, _parameters: Values) -> float:
    """By how much the spring is twisted [rad]."""
    return values["q"] - values["p"]


def outline(factor: float) -> Callable[[Values, Values], list[np.ndarray]]:
    """What draws the motor with a mark, and the arm with its weight, a dot, as lines (n, 2) [m].

    The mark is opposite to the arm where the spring is relaxed, and turned from there by `factor` times the twist.
    """

    def lines(values: Values, parameters: Values) -> list[np.ndarray]:
        arm = LENGTH * pointing(values["p"])
        mark = pointing(values["p"] + factor * twist(values, parameters) + np.pi)
        return [circle(np.zeros(2), 0.1), np.array([0.1 * mark, 0.2 * mark]), np.array([0.0 * arm, arm]), arm[None]]

    return lines


def vertical(_values: Values, _parameters: Values) -> list[np.ndarray]:
    """A line straight down from the axis."""
    return [LENGTH * np.array([[0.0, 0.0], [0.0, -1.0]])]


def caption(values: Values, parameters: Values) -> str:
    """The true twist of the spring."""
    return leaning_by("twist", twist(values, parameters))


def from_the_side(factor: float) -> View:
    """The arm with the twist of its spring `factor` times as large."""
    return View(
        outline=outline(factor),
        title=shown_larger("from the side; the line on top turns with the motor", "twist of the spring", factor),
        axes=("", "height [m]"),
        guides=vertical,
        strip=True,
        caption=caption,
        lean=twist,
        magnified=from_the_side,
    )


VIEW = from_the_side(1.0)
