"""Kinematics found from constraints: the rates of dependent coordinates by those of the independent ones.

The rows A q' = b are parted into A_d q_d' = b - A_i q_i', and solved in the order in which they determine their
unknowns: a row with one unknown by division, what hangs together by Cramer's rule.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from sympy.functions.elementary.trigonometric import TrigonometricFunction

from servonode.definitions.source_location import Place
from servonode.errors import ModelError
from servonode.mechanics.description import Requirement
from servonode.mechanics.differentiate import gradient
from servonode.mechanics.symbols import Assembly, Condition, Constraint, Coordinate

Expr = Any
Matrix = Any  # sympy.Matrix
LARGEST = 4  # rates that may hang together
NEAR = sympy.Rational(1, 50)  # rad from a dead point, from which on it counts as reached


@dataclass(frozen=True)
class Solved:
    """Rates of the dependent coordinates, and where each group of them can no longer be solved for."""

    rates: Mapping[Coordinate, Expr]
    dead_points: tuple[Condition, ...]


def solved(what: str, coordinates: Sequence[Coordinate], independent: Sequence[Coordinate],
           constraints: Sequence[Constraint], place: Place) -> Solved:  # fmt: skip
    """The dependent coordinates' rates, in rates of the independent ones.

    Raises:
        ModelError: there are not as many constraints as dependent coordinates, or they do not determine them.
    """
    where = place.argument("independent")
    strange = next((q for q in independent if q not in coordinates), None)
    if strange is not None:
        raise ModelError(f"{what}: {strange} in independent= is not in coordinates=; list it there", where)
    dependent = [q for q in coordinates if q not in independent]
    if len(constraints) != len(dependent):
        wanted = len(coordinates) - len(constraints)
        text = (
            f"{what}: {len(coordinates)} coordinates and {len(constraints)} constraints leave {wanted} independent, but"
        )
        raise ModelError(f"{text} independent= has {len(independent)}; state {wanted}", where)
    found: dict[Expr, Expr] = {}
    conditions = list[Condition]()
    for rows, unknown in _groups(what, constraints, dependent, where):
        A = sympy.Matrix([gradient(row.row, [q.rate for q in unknown]) for row in rows])
        rest = sympy.Matrix([row.row.xreplace({q.rate: sympy.Integer(0) for q in unknown}) for row in rows])
        determinant = A.det(method="berkowitz")
        values = -(A.adjugate() * rest.xreplace(found)) / determinant
        found |= {q.rate: value for q, value in zip(unknown, values, strict=True)}
        if determinant.free_symbols & set(coordinates):
            conditions += _regular(determinant, unknown, independent, where)
    return Solved({q: found[q.rate] for q in dependent}, tuple(conditions))


def _regular(determinant: Expr, unknown: Sequence[Any], independent: Sequence[Any], place: Place) -> list[Condition]:
    """That a group is not near a dead point, and has not passed one since the start of the run.

    How near is |det| / |d det/dq|, Newton's distance to det = 0 in the angles q: it depends neither on units nor on
    axes, and also tells a change point, where whole rows vanish. What has passed one has another sign.
    """
    names, others = (", ".join(q.name for q in each) for each in (unknown, independent))
    text = (
        f"dead point: {names} no longer follow from {others}, as the loop is stretched or folded there; stay away from"
    )
    text += " it, or choose other independent coordinates"
    turning = {q for each in determinant.atoms(TrigonometricFunction) for q in each.free_symbols}
    angles = sorted((q for q in turning if isinstance(q, Coordinate)), key=lambda q: q.name)
    slopes = sympy.Add(*(each**2 for each in gradient(determinant, angles)))
    same = Assembly(f"assembly_{'_'.join(q.name for q in unknown)}") * determinant
    sides = [(determinant**2, NEAR**2 * slopes)] if angles else []
    return [
        Condition(greater - less, Requirement(text, strict, name="dead_point"), (greater, less), place)
        for strict, (greater, less) in (*((True, each) for each in sides), (False, (same, sympy.Integer(0))))
    ]


def _groups(
    what: str, constraints: Sequence[Constraint], dependent: Sequence[Coordinate], place: Place
) -> Iterator[tuple[list[Constraint], list[Coordinate]]]:
    """Rows with the coordinates that they determine, in the order of solving: the smallest groups first.

    Raises:
        ModelError: some rows determine fewer coordinates than there are rows, or too many hang together.
    """
    left, unknown = list(constraints), list(dependent)
    while left:
        rows = min((_closed(row, left, unknown) for row in left), key=len)
        own = [q for q in unknown if any(q.rate in row.row.free_symbols for row in rows)]
        if len(own) != len(rows):
            names = ", ".join(row.quantity.name for row in rows)
            text = (
                f"{what}: the constraints {names} contain {len(own)} of the dependent coordinates and must determine "
            )
            raise ModelError(f"{text}{len(rows)}; choose other independent= coordinates", place)
        if len(own) > LARGEST:
            names = ", ".join(q.name for q in own)
            text = f"{what}: the rates of {names} hang together, {LARGEST} are the most; give kinematics= yourself, or"
            raise ModelError(f"{text} add coordinates that part the loops", place)
        yield rows, own
        left = [row for row in left if row not in rows]
        unknown = [q for q in unknown if q not in own]


def _closed(first: Constraint, left: Sequence[Constraint], unknown: Sequence[Coordinate]) -> list[Constraint]:
    """Rows from `first` on, added where they bring the fewest unknowns, until there are as many as unknowns."""
    rows = [first]

    def unknowns(more: Sequence[Constraint]) -> int:
        return sum(any(q.rate in row.row.free_symbols for row in more) for q in unknown)

    while unknowns(rows) > len(rows) and len(rows) < len(left):
        rows.append(min((row for row in left if row not in rows), key=lambda row: unknowns([*rows, row])))
    return rows
