"""Which constraints of a machine say something new, and which velocities they leave independent: by numbers.

Both are decided by ranks at poses near the start that keep the holonomic constraints: a row that follows from others on
all of these is redundant, whatever it is elsewhere, as the third row of a pin is in a loop that stays in a plane.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.definitions.source_location import Place
from servonode.errors import ModelError
from servonode.mechanics.differentiate import gradient
from servonode.mechanics.evaluate import at_states
from servonode.mechanics.independent import Row, groups, rows_of
from servonode.mechanics.symbols import Constraint, Coordinate, Expr, Parameter, Velocity, time

SPREADS = (0.3, 0.1, 0.03, 0.01)  # of the random poses about the start, rad and m
POSES, ITERATIONS, CLOSED = 4, 50, 1e-9
ROUNDING = 1e-6  # of a row of length 1, by which it may miss the span of others
CLEAR = 0.05  # by how much a good choice of velocities misses that span


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
