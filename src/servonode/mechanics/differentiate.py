"""Partial derivatives, as sympy's own `diff` but with what was found of each subexpression remembered.

`sympy.diff` asks for assumptions and goes through the whole result once for each node, and knows nothing of what other
calls found. The same rules applied node by node give the same expressions in a tenth of the time.

Of straight-line programs (`straight_line`) the derivatives are straight-line programs as well: one sweep along the
definitions for a derivative along rates, one against their order for those by all symbols.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import sympy
from sympy.core.function import ArgumentIndexError

from servonode.mechanics.straight_line import (
    REMEMBERED,
    Auxiliary,
    auxiliaries_of,
    leaves_of,
    named,
    ordered,
    symbols_of,
)

Expr = Any
Matrix = Any  # sympy.Matrix


def diff(expression: Expr, symbol: sympy.Symbol) -> Expr:
    """The partial derivative of an expression."""
    return along(expression, {symbol: sympy.Integer(1)})


Auxiliary.differentiated = staticmethod(diff)


def diff_matrix(matrix: Matrix, symbol: sympy.Symbol) -> Matrix:
    """The partial derivatives of the entries."""
    return matrix.applyfunc(lambda entry: diff(entry, symbol))


def along(expression: Expr, rates: Mapping[Expr, Expr]) -> Expr:
    """The derivative of an expression whose symbols change at these rates."""
    expression, known = sympy.sympify(expression), dict(rates)
    for each in ordered([expression]):
        if not each.symbols.isdisjoint(rates):
            known[each] = named(_along(each.definition, known))
    return _along(expression, known)


def along_matrix(matrix: Matrix, rates: Mapping[Expr, Expr]) -> Matrix:
    """The derivatives of the entries along rates."""
    return matrix.applyfunc(lambda entry: along(entry, rates))


def gradient(expression: Expr, symbols: Sequence[sympy.Symbol]) -> list[Expr]:
    """The partial derivatives by several symbols."""
    expression = sympy.sympify(expression)
    if auxiliaries_of(expression):
        return _gradient_against_order(expression, symbols)
    return [_partial(expression, symbol) for symbol in symbols]


def _gradient_against_order(expression: Expr, symbols: Sequence[sympy.Symbol]) -> list[Expr]:
    """The same of a straight-line program: what each definition passes on to those below it."""
    wanted = set(symbols)
    passed: dict[Expr, list[Expr]] = defaultdict(list)

    def pass_on(definition: Expr, slope: Expr) -> None:
        for leaf in leaves_of(definition):
            if not wanted.isdisjoint(symbols_of(leaf)):
                passed[leaf].append(slope * _partial(definition, leaf))

    pass_on(expression, sympy.Integer(1))
    for each in reversed(ordered([expression])):
        if each in passed:
            pass_on(each.definition, named(sympy.Add(*passed[each])))
    return [named(sympy.Add(*passed[symbol])) for symbol in symbols]


def _along(definition: Expr, rates: Mapping[Expr, Expr]) -> Expr:
    """The derivative of an expression whose symbols, auxiliary ones too, change at these rates."""
    changing = leaves_of(definition) & rates.keys()
    return sympy.Add(*(_partial(definition, leaf) * rates[leaf] for leaf in changing))


@lru_cache(maxsize=REMEMBERED)
def _partial(node: Expr, symbol: sympy.Symbol) -> Expr:
    if node.is_Symbol:
        return sympy.Integer(int(node == symbol))
    if symbol not in leaves_of(node):
        return sympy.Integer(0)
    if node.is_Add:
        return sympy.Add(*(_partial(argument, symbol) for argument in node.args))
    if node.is_Mul:
        slopes = [(i, _partial(each, symbol)) for i, each in enumerate(node.args)]
        return sympy.Add(*(sympy.Mul(*node.args[:i], each, *node.args[i + 1 :]) for i, each in slopes if each != 0))
    if node.is_Pow and not node.exp.free_symbols:
        return node * (_partial(node.base, symbol) * node.exp / node.base)
    if isinstance(node, sympy.Function) and type(node)._eval_derivative is sympy.Function._eval_derivative:
        return sympy.Add(*(_slope(node, i) * _partial(each, symbol) for i, each in enumerate(node.args, 1)))
    plain = {each: sympy.Dummy(real=True) for each in auxiliaries_of(node)}  # sympy would go into their definitions
    back = {dummy: each for each, dummy in plain.items()}
    return sympy.diff(node.xreplace(plain), plain.get(symbol, symbol)).xreplace(back)


def _slope(function: Expr, i: int) -> Expr:
    try:
        return function.fdiff(i)
    except ArgumentIndexError:
        return sympy.Function.fdiff(function, i)
