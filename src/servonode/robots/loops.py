"""Loops of a robot: the equalities that join two bodies, or two joints, as holonomic constraints."""

from collections.abc import Iterator, Mapping
from typing import Any

import sympy

from servonode.mechanics.straight_line import exact
from servonode.mechanics.symbols import Constraint, Coordinate, constraint
from servonode.mechanics.trees import Tree
from servonode.robots.file_text import RobotError
from servonode.robots.inertia import rotation_of
from servonode.robots.robot import Loop, Robot, identifier

Matrix = Any  # of sympy
AXES = "xyz"
CLOSED = 1e-6  # m


def loop_constraints(robot: Robot, tree: Tree, coordinates: Mapping[str, Coordinate]) -> Iterator[Constraint]:
    """The constraints of all loops. coordinates: by the names of their joints."""
    for loop in robot.loops:
        if loop.kind == "joint":
            yield _coupled_joints(loop, coordinates)
            continue
        (p, R), (r, S) = (_placed(tree, name) for name in (loop.first, loop.second))
        if loop.kind == "connect":
            here, there = (_column(place) for place in loop.places)
            yield from _points(identifier(loop.name), p + R * here - r - S * there)
            continue
        position, quaternion = loop.places
        turned = rotation_of(quaternion)
        yield from _points(identifier(loop.name), p + R * _column(position) - r)
        yield from _axes(identifier(loop.name), R * sympy.Matrix(3, 3, [exact(each) for each in turned.flat]), S)


def _placed(tree: Tree, name: str) -> tuple[Matrix, Matrix]:
    """Position and rotation of a body; of the ground, whose name is empty, too."""
    if not name:
        return sympy.zeros(3, 1), sympy.eye(3)
    located = tree[identifier(name)]
    return located.position, located.rotation


def _column(entries: tuple[float, ...]) -> Matrix:
    return sympy.Matrix([exact(each) for each in entries])


def _points(name: str, gap: Matrix) -> Iterator[Constraint]:
    """Two points that stay together; what depends on no coordinate must be closed by itself.

    Raises:
        RobotError: it is not.
    """
    for axis, entry in zip(AXES, gap, strict=True):
        if _moves(entry):
            yield constraint(f"{name}_force_{axis}", f"force of the loop {name} on its first body along {axis}", entry)
        elif abs(entry) > CLOSED:
            raise RobotError(f"loop {name}: its ends are {float(entry):.3g} m apart along {axis} at every pose")


def _axes(name: str, R: Matrix, S: Matrix) -> Iterator[Constraint]:
    """Two sets of axes that stay parallel: each axis of one is at a right angle to another one of the other."""
    for i in range(3):
        entry = R.col((i + 1) % 3).dot(S.col((i + 2) % 3))
        if _moves(entry):
            text = f"torque of the loop {name} on its first body about its axis {AXES[i]}"
            yield constraint(f"{name}_torque_{AXES[i]}", text, entry, "N m")


def _moves(entry: Any) -> bool:
    return any(isinstance(symbol, Coordinate) for symbol in sympy.sympify(entry).free_symbols)


def _coupled_joints(loop: Loop, coordinates: Mapping[str, Coordinate]) -> Constraint:
    """A joint that is a polynomial of another one, or stays at a value."""
    factors, zeros = loop.places
    moved = coordinates[loop.first] - exact(zeros[0])
    other = coordinates[loop.second] - exact(zeros[1]) if loop.second else sympy.Integer(0)
    wanted = sympy.Add(*(exact(factor) * other**power for power, factor in enumerate(factors) if factor))
    unit = "N" if coordinates[loop.first].quantity.unit == "m" else "N m"
    return constraint(f"{identifier(loop.name)}_force", f"force of {loop.name} on {loop.first}", moved - wanted, unit)
