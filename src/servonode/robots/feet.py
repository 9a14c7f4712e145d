"""Feet that stay where they are: points of the robot without velocity, with the forces that hold them."""

from collections.abc import Iterator, Sequence

from sympy import sqrt

from servonode.mechanics.symbols import Condition, Constraint, Parameter, condition, constraint
from servonode.mechanics.trees import Tree
from servonode.robots.file_text import RobotError


def feet_constraints(file: str, feet: Sequence[str], tree: Tree) -> Iterator[Constraint]:
    """Three for each foot, in rates: it stays where a run starts it.

    Raises:
        RobotError: there is no such link or frame, or it stays by itself.
    """
    names = [*(each.name for each in tree.links), *(each.name for each in tree.frames)]
    for foot in feet:
        if foot not in names:
            text = f"{foot!r} is no link or frame of the file; choose from {', '.join(names)}"
            raise RobotError(f"{file}: [plant.robot] feet: {text}")
        velocity = tree[foot].velocity
        if not all(rate.free_symbols for rate in velocity):
            text = f"{foot} cannot move along every axis by itself, so nothing is to be held there"
            raise RobotError(f'{file}: [plant.robot] feet: {text}; name a foot that can, or state base = "free"')
        for i, axis in enumerate("xyz"):
            yield constraint(f"{foot}_force_{axis}", f"force of the ground on {foot} along {axis}", velocity[i])


def feet_warnings(
    feet: Sequence[str], constraints: Sequence[Constraint], friction: Parameter | None
) -> Iterator[Condition]:
    """The ground only pushes, and its force stays in the cone of friction where a coefficient is stated."""
    forces = {each.quantity.name: each.multiplier for each in constraints}
    for foot in feet:
        x, y, z = (forces.get(f"{foot}_force_{axis}", 0) for axis in "xyz")
        yield condition(z >= 0, f"the ground would have to pull {foot}: a real foot lifts")
        if friction is not None:
            yield condition(friction * z >= sqrt(x**2 + y**2), f"{foot} would slip (friction)")
