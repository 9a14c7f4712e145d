"""Values of expressions for checks: at several states at once in double precision; at generic states with 60 digits.

What vanishes at generic states vanishes everywhere. The values of parameters, states and derivatives of goals are
random there, so that a number that is not zero by its form is not zero by chance; 60 digits tell rounding (below 1e-40)
from every other number. What this says of a sum of any length would else take to multiply it out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from random import Random
from typing import Any

import mpmath
import numpy as np
import sympy

from servonode.arrays import Array
from servonode.mechanics.computed import Computed
from servonode.mechanics.functions import choose
from servonode.mechanics.straight_line import definitions_of, ordered
from servonode.mechanics.symbols import Parameter

Expr = Any
Definitions = Callable[[Iterable[Expr]], list[tuple[Expr, Expr]]]  # of the symbols that expressions need, in order
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
Function = Callable[[Sequence[Array]], Any]  # of the arguments' values

_FUNCTIONS: dict[type, Function] = {
    sympy.Add: lambda terms: reduce(np.add, terms),
    sympy.Mul: lambda factors: reduce(np.multiply, factors),
    sympy.Pow: lambda arguments: np.power(*arguments),
    sympy.Abs: lambda arguments: np.abs(*arguments),
    sympy.cos: lambda arguments: np.cos(*arguments),
    sympy.exp: lambda arguments: np.exp(*arguments),
    sympy.sin: lambda arguments: np.sin(*arguments),
    sympy.tan: lambda arguments: np.tan(*arguments),
    sympy.atan: lambda arguments: np.arctan(*arguments),
    sympy.sign: lambda arguments: np.sign(*arguments),
    sympy.tanh: lambda arguments: np.tanh(*arguments),
    choose: lambda arguments: np.where(arguments[0] >= 0.0, arguments[1], arguments[2]),
}


def at_states(expressions: Sequence[Expr], states: Mapping[Expr, Array]) -> Array:
    """The values of expressions (n_states, n); nan where one is not real or contains a symbol that `states` does not.

    states: the values (n_states,) of each symbol.
    """
    size = len(next(iter(states.values())))
    values, entries = dict(states), [sympy.sympify(each) for each in expressions]
    with np.errstate(all="ignore"):
        for each in ordered(entries, written_out=False):
            if isinstance(each, Computed) and each not in values:
                values |= each.call.at_states(values, _value)
            elif each not in values:
                values[each] = _value(each.definition, values)
        columns = [np.broadcast_to(_value(each, values), size) for each in entries]
    return np.array(columns, dtype=float).reshape(len(columns), size).T


def _value(node: Expr, values: dict[Expr, Array]) -> Array:
    """The values of a node; those of all nodes below it are put into `values`."""
    if node not in values:
        arguments = [_value(each, values) for each in node.args]
        function = _FUNCTIONS.get(type(node))
        values[node] = np.asarray(function(arguments) if function else _by_sympy(node, arguments))
    return values[node]


def _by_sympy(node: Expr, arguments: Sequence[Array]) -> Array:
    """The values of a number, a symbol (nan), or of a function that is rarely used, as sympy evaluates them."""
    columns = np.broadcast_arrays(*arguments) if arguments else [np.zeros(1)]
    rows = zip(*columns, strict=True) if arguments else [()]
    numbers = [(node.func(*map(sympy.Float, row)) if row else node).evalf() for row in rows]
    return np.array([float(each) if each.is_Float or each.is_Integer else np.nan for each in numbers])


def are_zero(expressions: Sequence[Expr]) -> bool:
    """Whether all expressions vanish at all states, also where they are not real."""
    points = GenericPoints(real=False)
    return all(points.zero(sympy.sympify(each)) for each in expressions)


class GenericPoints:
    """Random points at which all that is asked for is finite and, unless `real` is false, real."""

    def __init__(self, definitions: Definitions = definitions_of, real: bool = True) -> None:
        """`definitions`: of symbols that stand for expressions; of auxiliary symbols unless given."""
        self._definitions, self._numbers = definitions, mpmath.mpf if real else (mpmath.mpf, mpmath.mpc)
        self._random = [Random(i) for i in range(TRIES)]
        self._values: list[dict[Expr, Number]] = [{} for _ in range(TRIES)]
        self._good = list(range(TRIES))

    def values(self, expressions: Sequence[Expr], most: int = POINTS) -> list[list[Number]]:
        """Their values at this many points, a list for each point; fewer where they are not finite, or not real."""
        rows, definitions = [], self._definitions(expressions)
        for point in list(self._good):
            row = self._at(point, expressions, definitions)
            if row is None:
                self._good.remove(point)
            else:
                rows.append(row)
            if len(rows) == most:
                break
        return rows

    def zero(self, expression: Expr) -> bool:
        """Whether an expression is zero at all points."""
        if expression.is_number and expression.is_Atom:
            return bool(expression == 0)
        rows = self.values([expression])
        return bool(rows) and all(abs(value) < ZERO for (value,) in rows)

    def _at(self, point: int, expressions: Sequence[Expr], definitions: list[tuple[Expr, Expr]]) -> list[Number] | None:
        """The values at one point; None where one is not finite, or not real."""
        known = self._values[point]
        with mpmath.workdps(DIGITS):
            try:
                for symbol, definition in definitions:
                    if symbol not in known:
                        known[symbol] = self._value(point, definition, known)
                row = [self._value(point, each, known) for each in expressions]
            except (ArithmeticError, ValueError, TypeError):
                return None
        return row if all(isinstance(each, self._numbers) and mpmath.isfinite(each) for each in row) else None

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
