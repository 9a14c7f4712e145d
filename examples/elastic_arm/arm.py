"""An arm with an elastic joint: a motor turns it through a spring (Spong 1987).

Angles are counterclockwise; the arm hangs straight down at p = 0, and the spring is relaxed where q = p. tau > 0 turns
the motor counterclockwise.
"""

# ruff: noqa: E741
from sympy import cos, pi, sin

from servonode.mechanics import Model, circle, coordinate, dot, input_, line, magnification, parameter, view

LENGTH = 0.5  # of the arm as it is drawn [m]


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
    twist, weight = q - p, (LENGTH * sin(p), -LENGTH * cos(p))
    opposite = p + magnification * twist + pi  # of the motor's mark, opposite to the arm where the spring is relaxed
    return Model(
        name="arm",
        description="arm with an elastic joint",
        coordinates=(q, p),
        parameters=(J, I, k, W, c),
        kinetic=(J * q.rate**2 + I * p.rate**2) / 2,
        potential=k * (q - p) ** 2 / 2 - W * cos(p),
        inputs={tau: q.rate},
        safe={tau: -c * q.rate},  # what the motor does after a fault
        drawing=[
            view(
                circle((0, 0), 0.1),
                line((0, -0.1), (0, -0.2)).at((0, 0), opposite),
                line((0, 0), weight),
                dot(weight),
                line((0, 0), (0, -LENGTH), thin=True),
                title="from the side; the line on top turns with the motor",
                strip=True,
                caption=("twist {:+.1f}°", twist * 180 / pi),
                lean=twist,
                magnified="twist of the spring",
            ),
        ],
    )
