"""Values of expressions at several states at once, for the checks of a model: no substitution, nothing compiled."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import sympy

from servonode.arrays import Array
from servonode.mechanics.functions import choose
from servonode.mechanics.straight_line import ordered

Expr = Any
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
        for each in ordered(entries):
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
