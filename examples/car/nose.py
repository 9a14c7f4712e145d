"""A goal for the car: its nose follows a moving target."""

from sympy import cos, sin

from servonode.controllers import Program, residual, target
from servonode.mechanics import Model


def program(machine: Model) -> Program:
    """The nose of the car follows the target (X, Y)."""
    x, y, psi, delta, L, d = (machine[name] for name in ("x", "y", "psi", "delta", "L", "d"))
    X, Y = target("X", "position of the target along x", "m"), target("Y", "position of the target along y", "m")
    gap_x = residual("gap_x", x + L * cos(psi) + d * cos(psi + delta) - X, "nose less target along x", "m")
    gap_y = residual("gap_y", y + L * sin(psi) + d * sin(psi + delta) - Y, "nose less target along y", "m")
    return Program(name="nose", description="the nose follows a target", residuals=(gap_x, gap_y), targets=(X, Y))
