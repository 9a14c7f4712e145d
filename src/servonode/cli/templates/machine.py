"""NAME: a crane. A trolley on a rail is pushed by a motor, a load hangs from it on a rod.

Edit this file to define your own machine. It shows most of what a machine definition can contain.
"""

from collections.abc import Mapping

import numpy as np
from sympy import cos, sin

from servonode.mechanics import Model, coordinate, input_, output, parameter
from servonode.plants.view import View


def model() -> Model:
    """A crane: trolley on a rail with a hanging load."""
    # Coordinates determine the position of every body. x.rate is the time derivative of x; it is the state x_dot.
    x = coordinate("x", "position of the trolley", "m")
    theta = coordinate("theta", "angle of the rod, 0 hanging down", "rad")

    # Parameters have a default and optional bounds. A launch file changes them in [plant.parameters].
    M = parameter("M", "mass of the trolley", "kg", default=2.0, above=0)
    m = parameter("m", "mass of the load", "kg", default=0.5, above=0)
    L = parameter("L", "length of the rod", "m", default=0.8, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    k = parameter("k", "friction of the trolley", "N s/m", default=1.0, at_least=0)
    c = parameter("c", "friction of the rod's joint", "N m s/rad", default=0.05, at_least=0)
    c_b = parameter("c_b", "brake of the trolley, the safe action after a fault", "N s/m", default=20.0, at_least=0)

    # Inputs are generalized forces. Below, inputs={F: x.rate} says that the power of F is F * x.rate.
    F = input_("F", "force on the trolley", "N")

    # The velocity of the load is the derivative of its position (x + L sin(theta), -L cos(theta)).
    load_x = x.rate + L * theta.rate * cos(theta)
    load_y = L * theta.rate * sin(theta)

    return Model(
        name="NAME",
        description="crane with a hanging load",
        coordinates=(x, theta),
        parameters=(M, m, L, g, k, c, c_b),
        kinetic=(M * x.rate**2 + m * (load_x**2 + load_y**2)) / 2,
        potential=-m * g * L * cos(theta),
        dissipation=(k * x.rate**2 + c * theta.rate**2) / 2,  # Rayleigh function: half of the dissipated power
        inputs={F: x.rate},
        # The safe action: the inputs after a fault. Without safe= they become zero and the machine coasts. This one is
        # a brake: its power -c_b * x.rate**2 is never positive, which `servonode check` tests.
        safe={F: -c_b * x.rate},
        outputs=(output("load", "horizontal position of the load", x + L * sin(theta), "m"),),
        panels=(("x", "load"), ("theta",)),  # the panels of the report: one tuple for each
        # A permanent contact is a constraint. It is linear in the rates (rolling) or contains none (a rail):
        #     constraints=(constraint("N", "force of the rail", y - 0.1 * x),)
        # With constraints, give the rate of each coordinate by independent velocities, so that the constraints hold:
        # kinematics={x: v, y: 0.1 * v} with v = velocity("v", "speed along the rail", "m/s") in velocities=(v,).
    )


def outline(state: Mapping[str, float], parameters: Mapping[str, float]) -> list[np.ndarray]:
    """Lines (n, 2) [m] that draw the trolley, the rod and the load in the report."""
    x, theta, L = state["x"], state["theta"], parameters["L"]
    pivot, load = np.array([x, 0.0]), np.array([x + L * np.sin(theta), -L * np.cos(theta)])
    trolley = pivot + np.array([[-0.12, -0.05], [0.12, -0.05], [0.12, 0.05], [-0.12, 0.05], [-0.12, -0.05]])
    angles = np.linspace(0.0, 2 * np.pi, 25)
    ball = load + 0.05 * np.column_stack([np.cos(angles), np.sin(angles)])
    return [trolley, np.array([pivot, load]), ball]


VIEW = View(outline=outline, axes=("x [m]", "height [m]"))
