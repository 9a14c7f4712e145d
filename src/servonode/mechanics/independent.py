"""Kinematics found from constraints: the rates of dependent coordinates by those of the independent ones.

The rows A q' = b are parted into A_d q_d' = b - A_i q_i', and solved in the order in which they determine their
unknowns: a row with one unknown by division, what hangs together by Cramer's rule. Where the determinant has too many
products (`trig_reduce.is_large`), entries and minors have names.

`mobility` says which constraints say something new, and which velocities they leave independent, by ranks at poses near
the start that keep the holonomic constraints: a row that follows from others on all of these is redundant, whatever it
is elsewhere, as the third row of a pin is in a loop that stays in a plane.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sympy
from sympy.functions.elementary.trigonometric import TrigonometricFunction

from servonode.arrays import Array
from servonode.definitions.source_location import Place
from servonode.errors import ModelError
from servonode.mechanics.description import Requirement
from servonode.mechanics.evaluate import GenericPoints, are_zero, at_states, rank
from servonode.mechanics.straight_line import auxiliaries_of, gradient, in_parts, named, ordered, symbols_of
from servonode.mechanics.symbols import Assembly, Condition, Constraint, Coordinate, Expr, Parameter, Velocity, time
from servonode.mechanics.trig_reduce import is_large, trig_reduce

SPREADS = (0.3, 0.1, 0.03, 0.01)  # of the random poses about the start, rad and m
POSES, ITERATIONS, CLOSED = 4, 50, 1e-9
ROUNDING = 1e-6  # of a row of length 1, by which it may miss the span of others
CLEAR = 0.05  # by how much a good choice of velocities misses that span
Matrix = Any  # sympy.Matrix
LARGEST, WRITTEN_OUT = 6, 4  # rates that may hang together, and whose minors need no names
NEAR = sympy.Rational(1, 50)  # rad from a dead point, from which on it counts as reached
Row = tuple[str, Expr]  # its name and what is zero, linear in rates


@dataclass(frozen=True)
class Solved:
    """Rates of the dependent coordinates, and where each group of them can no longer be solved for."""

    rates: Mapping[Coordinate, Expr]
    dead_points: tuple[Condition, ...]


@lru_cache(maxsize=1)  # a machine is copied while it is derived, its constraints as they were
def solved(what: str, coordinates: tuple[Coordinate, ...], independent: tuple[tuple[Velocity, Expr], ...],
           constraints: tuple[Constraint, ...], place: Place) -> Solved:  # fmt: skip
    """The dependent coordinates' rates, in velocities.

    independent: each velocity with what it is in rates: the rate of a coordinate, or a linear expression of several.

    Raises:
        ModelError: there are not as many constraints as dependent coordinates, or they do not determine them, or
            too many hang together, or a constraint follows from others.
    """
    try:
        return _solved(what, coordinates, independent, constraints, place)
    except ModelError:
        entries = [entry for each in constraints for entry in gradient(each.row, [q.rate for q in coordinates])]
        for values in GenericPoints(real=False).values(entries, most=1):
            rows = [values[i : i + len(coordinates)] for i in range(0, len(values), len(coordinates))]
            implied = next((each for i, each in enumerate(constraints) if rank(rows[: i + 1]) <= i), None)
            if implied is not None:
                names = ", ".join(each.quantity.name for each in constraints)
                text = f"{what}: the constraints {names} are redundant; leave out what others imply"
                raise ModelError(f"{text} ({implied.quantity.name})", implied.place) from None
        raise


def _solved(what: str, coordinates: tuple[Coordinate, ...], independent: tuple[tuple[Velocity, Expr], ...],
            constraints: tuple[Constraint, ...], place: Place) -> Solved:  # fmt: skip
    """As `solved`, which says of what it refuses whether a constraint is redundant."""
    where = place.argument("independent")
    own = {v.of: v for v, _ in independent if v.of is not None}
    strange = next((q for q in own if q not in coordinates), None)
    if strange is not None:
        raise ModelError(f"{what}: {strange} in independent= is not in coordinates=; list it there", where)
    dependent = [q for q in coordinates if q not in own]
    wanted = len(coordinates) - len(constraints)
    if wanted != len(independent):
        text = f"{what}: {len(coordinates)} coordinates and {len(constraints)} constraints leave {wanted} independent, "
        raise ModelError(f"{text}but independent= has {len(independent)}; state {wanted}", where)
    stated = [(v.name, sympy.sympify(rate) - v) for v, rate in independent if v.of is None]
    found: dict[Expr, Expr] = {q.rate: v for q, v in own.items()}
    conditions = list[Condition]()
    for rows, unknown in groups(what, stated + rows_of(constraints), dependent, where):
        if len(unknown) > LARGEST:
            names = ", ".join(q.name for q in unknown)
            text = f"{what}: the rates of {names} hang together, {LARGEST} are the most; give kinematics= yourself, or"
            raise ModelError(f"{text} add coordinates that part the loops", where)
        A, rest = _parted([row for _, row in rows], [q.rate for q in unknown])
        determinant, adjugate = _determinant_and_adjugate(A)
        if are_zero([determinant]):
            names, given = ", ".join(q.name for q in unknown), ", ".join(name for name, _ in rows)
            text = f"{what}: the constraints {given} do not determine the rates of {names}"
            raise ModelError(f"{text}; choose other independent= coordinates", where)
        values = -(adjugate * rest.xreplace(found)) / determinant
        if auxiliaries_of(determinant):
            values = values.applyfunc(named)
        if not determinant.free_symbols & set(coordinates):
            values = values.applyfunc(_reduced)
        found |= {q.rate: value for q, value in zip(unknown, values, strict=True)}
        if determinant.free_symbols & set(coordinates):
            conditions += _regular(determinant, unknown, [v for v, _ in independent], where)
    return Solved({q: found[q.rate] for q in dependent}, tuple(conditions))


def rows_of(constraints: Sequence[Constraint]) -> list[Row]:
    """The rows of constraints."""
    return [(each.quantity.name, each.row) for each in constraints]


def _parted(rows: Sequence[Expr], rates: Sequence[Expr]) -> tuple[Matrix, Matrix]:
    """The entries of rows by rates, and what is left without these; in names where the determinant is long."""
    stated, still = [in_parts(row) if _is_long(row) else row for row in rows], dict.fromkeys(rates, sympy.Integer(0))
    A = sympy.Matrix([gradient(row, rates) for row in stated])
    rest = sympy.Matrix([row.xreplace(still) for row in stated])
    if _is_long(sympy.Mul(*(sympy.Add(*A[i, :]) for i in range(A.rows)))):
        return A.applyfunc(named), rest.applyfunc(named)
    return A, rest


def _is_long(expression: Expr) -> bool:
    return bool(auxiliaries_of(expression)) or is_large(expression, ())


def _determinant_and_adjugate(A: Matrix) -> tuple[Expr, Matrix]:
    """By Laplace's expansion, each minor once; in names where the entries have some, or many hang together."""
    n, known = A.rows, dict[tuple[tuple[int, ...], tuple[int, ...]], Expr]()
    short = n <= WRITTEN_OUT and not any(auxiliaries_of(entry) for entry in A)

    def minor(rows: tuple[int, ...], columns: tuple[int, ...]) -> Expr:
        if not rows:
            return sympy.Integer(1)
        if (rows, columns) not in known:
            others = [columns[:j] + columns[j + 1 :] for j in range(len(columns))]
            terms = [
                (-1) ** (len(rows) - 1 + j) * A[rows[-1], columns[j]] * minor(rows[:-1], left)
                for j, left in enumerate(others)
                if A[rows[-1], columns[j]] != 0
            ]
            known[rows, columns] = sympy.Add(*terms) if short else named(sympy.Add(*terms))
        return known[rows, columns]

    def without(i: int) -> tuple[int, ...]:
        return (*range(i), *range(i + 1, n))

    adjugate = sympy.Matrix(n, n, lambda i, j: (-1) ** (i + j) * minor(without(j), without(i)))
    determinant = minor(without(n), without(n))
    reduced = _reduced(determinant)
    constant = all(isinstance(each, Parameter) for each in reduced.free_symbols)
    return reduced if constant else determinant, adjugate


def _reduced(expression: Expr) -> Expr:
    """The expression with sin^2 + cos^2 = 1, where it is short."""
    constants = {each for each in expression.free_symbols if isinstance(each, Parameter)}
    if auxiliaries_of(expression) or is_large(expression, constants):
        return expression
    return trig_reduce(expression, constants)


def _regular(determinant: Expr, unknown: Sequence[Any], independent: Sequence[Any], place: Place) -> list[Condition]:
    """That a group is not near a dead point, and has not passed one since the start of the run.

    How near is |det| / |d det/dq|, Newton's distance to det = 0 in the angles q: it depends neither on units nor on
    axes, and also tells a change point, where whole rows vanish. What has passed one has another sign.
    """
    names, others = (", ".join(q.name for q in each) for each in (unknown, independent))
    text = f"dead point: {names} no longer follow from {others}, as the loop is stretched or folded there; stay away "
    text += "from it, or choose other independent coordinates"
    written = [determinant, *(each.definition for each in ordered([determinant]))]
    turning = {q for part in written for each in part.atoms(TrigonometricFunction) for q in each.free_symbols}
    angles = sorted((q for q in turning if isinstance(q, Coordinate)), key=lambda q: q.name)
    slopes = sympy.Add(*(each**2 for each in gradient(determinant, angles)))
    same = Assembly(f"assembly_{'_'.join(q.name for q in unknown)}") * determinant
    sides = [(determinant**2, NEAR**2 * slopes)] if angles else []
    return [
        Condition(greater - less, Requirement(text, strict, name="dead_point"), (greater, less), place)
        for strict, (greater, less) in (*((True, each) for each in sides), (False, (same, sympy.Integer(0))))
    ]


def groups(
    what: str, stated: Sequence[Row], dependent: Sequence[Coordinate], place: Place
) -> Iterator[tuple[list[Row], list[Coordinate]]]:
    """Rows with the coordinates that they determine, in the order of solving: the smallest groups first.

    Raises:
        ModelError: some rows determine fewer coordinates than there are rows.
    """
    within = [frozenset(q for q in dependent if q.rate in symbols_of(row)) for _, row in stated]
    left, known = list(range(len(stated))), frozenset[Coordinate]()
    while left:
        unknown = [each - known for each in within]
        rows = min((_closed(i, left, unknown) for i in left), key=len)
        own = frozenset[Coordinate]().union(*(unknown[i] for i in rows))
        if len(own) != len(rows):
            names = ", ".join(stated[i][0] for i in rows)
            text = f"{what}: the constraints {names} contain {len(own)} of the dependent coordinates and must "
            raise ModelError(f"{text}determine {len(rows)}; choose other independent= coordinates", place)
        yield [stated[i] for i in rows], [q for q in dependent if q in own]
        left, known = [i for i in left if i not in rows], known | own


def _closed(first: int, left: Sequence[int], unknown: Sequence[frozenset[Coordinate]]) -> list[int]:
    """Rows from `first` on, added where they bring the fewest unknowns, until there are as many as unknowns."""
    rows, own = [first], unknown[first]
    while len(own) > len(rows) and len(rows) < len(left):
        rows.append(min((i for i in left if i not in rows), key=lambda i: len(own | unknown[i])))
        own |= unknown[rows[-1]]
    return rows


@dataclass(frozen=True)
class Mobility:
    """The constraints that say something new, the names of the others, and the independent velocities in rates.

    fixed: the velocities of the first choice that the constraints hold at a value.
    """

    constraints: tuple[Constraint, ...]
    redundant: tuple[str, ...]
    independent: dict[Velocity, Expr]
    fixed: tuple[Velocity, ...]


def mobility(
    what: str, parameters: Iterable[Parameter], coordinates: Sequence[Coordinate], constraints: Sequence[Constraint],
    choices: Sequence[Mapping[Velocity, Expr]], place: Place,
) -> Mobility:  # fmt: skip
    """Drop redundant constraints and choose independent velocities.

    choices: velocities in rates, those to choose first before others; of several choices that with which the fewest
    rates hang together is taken, of equals the first.

    Raises:
        ModelError: no pose near the start keeps the constraints, nothing can move, or no choice determines the rest.
    """
    at = _Poses(what, parameters, coordinates, constraints, place)
    span = [np.zeros((0, len(coordinates))) for _ in range(POSES)]
    kept = [row for row in constraints if _extends(span, at.rows([row.row])[0], ROUNDING)]
    missing = len(coordinates) - len(kept)
    if not missing:
        text = f"{what}: the constraints {', '.join(each.quantity.name for each in kept)} leave nothing that can move"
        raise ModelError(text, place)
    found = [_chosen(at, list(span), choice, missing) for choice in choices]
    stated = [(_largest_group(what, coordinates, kept, each, place), each) for each in found if len(each) == missing]
    if not stated:
        names, n = ", ".join(v.name for v in choices[0]), len(found[0])
        text = f"{what}: of {names} only {n} are independent, and {missing} must be; state others"
        raise ModelError(text, place)
    best = min(stated, key=lambda each: each[0])[1]
    best = {v: rate for v, rate in choices[0].items() if v in best}
    redundant = tuple(each.quantity.name for each in constraints if each not in kept)
    first = zip(choices[0], at.rows(list(choices[0].values())), strict=True)
    fixed = tuple(v for v, row in first if not _extends(list(span), row, ROUNDING))
    return Mobility(tuple(kept), redundant, best, fixed)


def _chosen(at: "_Poses", span: list[Array], choice: Mapping[Velocity, Expr], n: int) -> dict[Velocity, Expr]:
    """The first n velocities of a choice that are independent of the constraints, clearly so where possible."""
    rows = dict(zip(choice, at.rows(list(choice.values())), strict=True))
    found: list[Velocity] = []
    for least in (CLEAR, ROUNDING):
        for v, row in rows.items():
            if len(found) < n and v not in found and _extends(span, row, least):
                found.append(v)
    return {v: choice[v] for v in choice if v in found}


def _largest_group(
    what: str, coordinates: Sequence[Coordinate], kept: Sequence[Constraint], chosen: Mapping[Velocity, Expr],
    place: Place,
) -> int:  # fmt: skip
    """How many rates hang together at most with a choice of velocities."""
    own = {v.of for v in chosen if v.of is not None}
    rows: list[Row] = [(v.name, rate - v) for v, rate in chosen.items() if v.of is None]
    dependent = [q for q in coordinates if q not in own]
    return max((len(each) for each, _ in groups(what, rows + rows_of(kept), dependent, place)), default=0)


def _extends(span: list[Array], rows: Array, least: float) -> bool:
    """Whether a row (poses, n) is independent of those before at some pose; if so it joins the span of all poses."""
    left = []
    for basis, row in zip(span, rows, strict=True):
        size = np.linalg.norm(row)
        row = row / size if size > CLOSED else 0 * row
        row = row - basis.T @ (basis @ row)
        left.append(row - basis.T @ (basis @ row))
    if max(np.linalg.norm(row) for row in left) < least:
        return False
    for i, row in enumerate(left):
        if np.linalg.norm(row) > ROUNDING:
            span[i] = np.vstack([span[i], row / np.linalg.norm(row)])
    return True


class _Poses:
    """Random poses near the start that keep the holonomic constraints."""

    def __init__(
        self, what: str, parameters: Iterable[Parameter], coordinates: Sequence[Coordinate],
        constraints: Sequence[Constraint], place: Place,
    ) -> None:  # fmt: skip
        self._rates = [q.rate for q in coordinates]
        self._coordinates = coordinates
        self._fixed = {p: np.full(POSES, p.quantity.default) for p in parameters} | {time: np.zeros(POSES)}
        held = [each for each in constraints if each.finite is not None]
        start, random = np.array([q.quantity.default or 0.0 for q in coordinates]), np.random.default_rng(0)
        for spread in SPREADS:
            self._q = start + spread * random.uniform(-1, 1, (POSES, len(coordinates)))
            if self._close(held):
                break
        else:
            names = ", ".join(each.quantity.name for each in held)
            raise ModelError(f"{what}: no pose near the start closes the loops ({names}); correct their places", place)
        largest = np.abs(self.slopes([each.row for each in constraints])).max(axis=(0, 1))
        self._units = np.where(largest > CLOSED, largest, 1.0)

    def rows(self, expressions: Sequence[Expr]) -> Array:
        """Coefficients as of `slopes`, of rates in units with which the constraints' largest ones are 1."""
        return self.slopes(expressions) / self._units

    def slopes(self, expressions: Sequence[Expr]) -> Array:
        """The coefficients of the rates in expressions that are linear in them (expressions, poses, rates)."""
        entries = [entry for each in expressions for entry in gradient(each, self._rates)]
        found = self._values(entries).reshape(POSES, len(expressions), len(self._rates))
        return np.nan_to_num(found.transpose(1, 0, 2))

    def _values(self, expressions: Sequence[Expr]) -> Array:
        return at_states(expressions, self._fixed | dict(zip(self._coordinates, self._q.T, strict=True)))

    def _close(self, held: Sequence[Constraint]) -> bool:
        """Bring the poses onto the constraints, by the steps of least size; whether this succeeds."""
        for _ in range(ITERATIONS if held else 0):
            missed = self._values([each.finite for each in held])
            if not np.isfinite(missed).all():
                return False
            if np.abs(missed).max() < CLOSED:
                return True
            slopes = self.slopes([each.row for each in held]).transpose(1, 0, 2)
            self._q = self._q - (np.linalg.pinv(slopes, rcond=1e-6) @ missed[:, :, None])[:, :, 0]
        return not held
