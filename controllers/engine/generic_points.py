"""Values of straight-line programs at generic states with 60 digits: what vanishes there vanishes everywhere.

The values of parameters, states and derivatives of goals are random, so that a number that is not zero by its form is
not zero by chance; 60 digits tell rounding (below 1e-40) from every other number.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import mpmath
import sympy

from servonode.controllers.engine.straight_line import StraightLine
from servonode.mechanics.symbols import Parameter

Expr = Any
Number = Any  # of mpmath
DIGITS, ZERO, POINTS, TRIES = 60, 1e-35, 4, 40
_OTHERS: dict[str, Any] = {
    "Abs": mpmath.fabs,
    "Max": max,
    "Min": min,
    "root": mpmath.sqrt,
    "log": mpmath.ln,
    "wrap": mpmath.mpf,
    "choose": lambda margin, a, b: a if margin >= 0 else b,
}


class GenericPoints:
    """Random points at which all that is asked for is real and finite."""

    def __init__(self, line: StraightLine) -> None:
        self._line = line
        self._random = [Random(i) for i in range(TRIES)]
        self._values: list[dict[Expr, Number]] = [{} for _ in range(TRIES)]
        self._good = list(range(TRIES))

    def values(self, atoms: Sequence[Expr], most: int = POINTS) -> list[list[Number]]:
        """The atoms' values at this many points, a list for each point; fewer where they are not real and finite."""
        rows = []
        for point in list(self._good):
            row = self._at(point, atoms)
            if row is None:
                self._good.remove(point)
            else:
                rows.append(row)
            if len(rows) == most:
                break
        return rows

    def zero(self, atom: Expr) -> bool:
        """Whether an atom is zero at all points."""
        if not atom.is_Symbol:
            return bool(atom == 0)
        rows = self.values([atom])
        return bool(rows) and all(abs(value) < ZERO for (value,) in rows)

    def _at(self, point: int, atoms: Sequence[Expr]) -> list[Number] | None:
        """The values at one point; None where one is not real and finite."""
        known = self._values[point]
        with mpmath.workdps(DIGITS):
            try:
                self._define(point, known, self._line.needed(atoms))
                row = [self._value(point, each, known) for each in atoms]
            except (ArithmeticError, ValueError, TypeError):
                return None
        return row if all(isinstance(each, mpmath.mpf) and mpmath.isfinite(each) for each in row) else None

    def _define(self, point: int, known: dict[Expr, Number], needed: Iterable[Expr]) -> None:
        for each in needed:
            if each not in known:
                known[each] = self._value(point, self._line.definitions[each], known)

    def _value(self, point: int, node: Expr, known: dict[Expr, Number]) -> Number:
        if node in known:
            return known[node]
        if node.is_Symbol:
            known[node] = _generic(node, self._random[point])
            return known[node]
        if not node.args:
            return mpmath.mpf(node.p) / node.q if node.is_Rational else mpmath.mpmathify(node.evalf(DIGITS))
        return _applied(node, [self._value(point, each, known) for each in node.args])


def _generic(symbol: Expr, random: Random) -> Number:
    """A parameter near its default, everything else between -0.8 and 0.8."""
    default = symbol.quantity.default if isinstance(symbol, Parameter) else None
    if default:
        return mpmath.mpf(default) * mpmath.mpf(random.uniform(0.7, 1.3))
    return mpmath.mpf(random.uniform(0.2 if isinstance(symbol, Parameter) else -0.8, 0.8))


def _applied(node: Expr, arguments: list[Number]) -> Number:
    if node.is_Add:
        return mpmath.fsum(arguments)
    if node.is_Mul:
        return mpmath.fprod(arguments)
    if node.is_Pow:
        return mpmath.power(*arguments)
    name = type(node).__name__
    function = _OTHERS.get(name) or getattr(mpmath, name, None)
    if function:
        return function(*arguments)
    return mpmath.mpmathify(node.func(*(sympy.Float(each, DIGITS) for each in arguments)).evalf(DIGITS))


def rank(rows: Sequence[Sequence[Number]]) -> int:
    """The rank of a matrix, by elimination with full pivoting."""
    left, found = [list(row) for row in rows], 0
    largest = max((abs(each) for row in left for each in row), default=0)
    with mpmath.workdps(DIGITS):
        while left and largest:
            size, i, k = max((abs(each), i, k) for i, row in enumerate(left) for k, each in enumerate(row))
            if size <= ZERO * largest:
                break
            found += 1
            pivot = left.pop(i)
            left = [_eliminated(row, pivot, k) for row in left]
    return found


def _eliminated(row: list[Number], pivot: list[Number], k: int) -> list[Number]:
    factor = row[k] / pivot[k]
    return [mpmath.mpf(0) if i == k else a - factor * b for i, (a, b) in enumerate(zip(row, pivot, strict=True))]
