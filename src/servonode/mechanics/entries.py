"""What users state of links, joints and frames, checked: expressions, vectors, axes, rotations."""

from typing import Any

import numpy as np
import sympy

from servonode.definitions.source_location import here
from servonode.errors import ModelError
from servonode.mechanics.straight_line import exact
from servonode.mechanics.symbols import refuse_uncompilable

Expr = Any
Entries = Any  # of a vector or matrix: nested sequences, an array of numpy, a matrix of sympy
NEAR = 1e-12  # of 0, 1 and -1: rounding of a quarter turn; one that a file has with 12 digits is taken as it stands


def entry(what: str, stated: Any) -> Expr:
    refuse_uncompilable(what, stated, here())
    expression = sympy.sympify(stated)
    return exact(expression) if expression.is_Float else expression


def armature_of(name: str, stated: Any) -> Expr:
    armature = entry(f"armature of {name}", stated)
    if armature.is_number and armature < 0:
        raise ModelError(f"armature of {name} is {float(armature):g}; an inertia is not negative", here())
    return armature


def triple(what: str, entries: Entries) -> tuple[Expr, ...]:
    if not hasattr(entries, "__len__") or isinstance(entries, str) or len(entries) != 3:
        raise ModelError(f"{what} is {entries!r}; give three entries", here())
    return tuple(entry(what, each) for each in entries)


def rows_of(what: str, rows: Entries) -> tuple[tuple[Expr, ...], ...]:
    stated = rows.tolist() if isinstance(rows, sympy.MatrixBase) else rows
    if not hasattr(stated, "__len__") or isinstance(stated, str) or len(stated) != 3:
        raise ModelError(f"{what} is {rows!r}; give three rows of three entries", here())
    return tuple(triple(what, row) for row in stated)


def unit_axis(name: str, axis: Entries) -> tuple[Expr, ...]:
    entries = triple(f"axis of {name}", axis)
    numbers = [float(each) for each in entries if each.is_number]
    length = sympy.sqrt(sympy.Add(*(each**2 for each in entries))) if len(numbers) == 3 else sympy.Integer(0)
    if length == 0:
        text = f"axis of {name} is {tuple(map(str, entries))}; give three numbers that are not all zero, as (0, 0, 1)"
        raise ModelError(text, here())
    return tuple(_rounded(each / length) for each in entries)


def _rounded(entry: Expr) -> Expr:
    """A number as a fraction: 0, 1 or -1 where it is so but for rounding."""
    if not entry.is_number:
        return entry
    near = round(float(entry))
    return sympy.Integer(near) if abs(float(entry) - near) < NEAR else exact(entry)


def rotation_rows(what: str, rows: Entries) -> tuple[tuple[Expr, ...], ...]:
    table = rows_of(f"{what}: rotation", rows)
    if all(each.is_number for row in table for each in row):
        R = np.array(table, dtype=float)
        if not np.allclose(R @ R.T, np.eye(3), rtol=0, atol=1e-6) or np.linalg.det(R) < 0:
            text = (
                f"{what}: rotation {R.tolist()} is not one; give three rows of length 1, at right angles, right-handed"
            )
            raise ModelError(text, here())
    return tuple(tuple(_rounded(each) for each in row) for row in table)
