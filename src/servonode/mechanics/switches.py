"""Expressions that switch, as the force of a spring that only pushes: in one form, and whether their value jumps."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import sympy

from servonode.arrays import Array
from servonode.definitions.source_location import Place
from servonode.errors import ModelError
from servonode.mechanics.evaluate import at_states
from servonode.mechanics.functions import choose
from servonode.mechanics.straight_line import definitions_of, ordered, written_out
from servonode.mechanics.symbols import Condition, Parameter, condition

Expr = Any
SMOOTH = "let both sides agree there, or take a smooth form such as tanh(v/v_s) for sign(v)"
PIECEWISE = (sympy.Piecewise, sympy.Heaviside)
_TRIED = 4  # states from which one symbol after the other is taken through all magnitudes
_BISECTIONS = 70
_APART = 1e-3  # share of a place, beside which the size of the expression is looked at
_JUMP = 1e-6  # of that size: what is more is no rounding
_LONGEST = 200  # operations of a margin that is written out in an error


def settled(expression: Expr) -> Expr:
    """The expression with `choose` for Piecewise, Heaviside, and Max and Min of what is no constant."""
    node = sympy.sympify(expression)
    if not node.has(*PIECEWISE, sympy.Max, sympy.Min):
        return node
    if isinstance(node, sympy.Piecewise):
        return _first_of([(settled(value), condition) for value, condition in node.args], node)
    arguments = [settled(each) for each in node.args]
    if isinstance(node, sympy.Heaviside):
        return choose(arguments[0], 1, 0)
    is_constant = all(isinstance(each, Parameter) for each in node.free_symbols)  # these have a default
    if isinstance(node, sympy.Max | sympy.Min) and not is_constant:
        result, sense = arguments[0], 1 if isinstance(node, sympy.Max) else -1
        for each in arguments[1:]:
            result = choose(sense * (result - each), result, each)
        return result
    return node.func(*arguments)


def without_signs(expression: Expr) -> Expr:
    """The expression, settled, with `choose` for sign too: where it does not jump it can then be differentiated."""
    return settled(expression).replace(sympy.sign, lambda argument: choose(argument, 1, -1))


def _first_of(branches: list[tuple[Expr, Any]], stated: Expr) -> Expr:
    """The value of the first branch whose condition holds.

    Raises:
        ModelError: no branch holds for all that is left.
    """
    (value, condition), *rest = branches
    if condition == sympy.true:
        return value
    if not rest:
        raise ModelError(f"{stated} has no value elsewhere; end it with (value, True)")
    return _where(condition, value, _first_of(rest, stated))


def _where(condition: Any, a: Expr, b: Expr) -> Expr:
    """a where a condition holds, else b.

    Raises:
        ModelError: the condition is not made of inequalities.
    """
    match condition:
        case sympy.Ge() | sympy.Le():
            return choose(settled(condition.gts - condition.lts), a, b)
        case sympy.Gt() | sympy.Lt():
            return choose(settled(condition.lts - condition.gts), b, a)
        case sympy.Not():
            return _where(condition.args[0], b, a)
        case sympy.And():
            first, *others = condition.args
            return _where(first, _where(sympy.And(*others), a, b) if others else a, b)
        case sympy.Or():
            first, *others = condition.args
            return _where(first, a, _where(sympy.Or(*others), a, b) if others else b)
    raise ModelError(f"the condition {condition} is not an inequality; write it with <, <=, >, >=, And, Or, Not")


def switches(expression: Expr) -> bool:
    """Whether it, or a definition that it needs, contains `choose`."""
    return any(each.has(choose) for each in _wholes(expression))


def _wholes(expression: Expr) -> list[Expr]:
    """The definitions of the auxiliary symbols in an expression, and itself."""
    stated = sympy.sympify(expression)
    return [*(each.definition for each in ordered([stated])), stated]


def refuse_jumps(what: str, expression: Expr, place: Place, remedy: str) -> list[Condition]:
    """The value of an expression must not jump where it switches, whatever its constants near their defaults.

    The signs of parameters which no bound states and without which it would jump, as requirements.

    Raises:
        ModelError: it does, with the place and the values on both sides.
    """
    if jump := _jump(expression):
        margin, lower, upper = jump
        text = f"{what} jumps where {_shown(margin)} = 0 (there from {lower:.4g} to {upper:.4g})"
        raise ModelError(f"{text}; {remedy}", place)
    constants = {p for each in _margins(expression) for p in each.free_symbols if isinstance(p, Parameter)}
    found: list[Condition] = []
    for p in sorted(constants, key=str):
        default = p.quantity.default or 0.0
        if not p.quantity.complaint(-(default or 1.0)) and _jump(expression, p):
            relation = p > 0 if default > 0 else p < 0 if default < 0 else p >= 0
            found.append(replace(condition(relation, f"else {what} jumps"), place=place))
    return found


def _jump(expression: Expr, *flipped: Parameter) -> tuple[Expr, float, float] | None:
    """The margin where an expression jumps in a run, from where to where; with parameters of the other sign."""
    for margin in _margins(expression):
        for symbol in sorted(margin.free_symbols, key=str):
            if not isinstance(symbol, Parameter):
                for lower, upper in _values_at_switch(expression, margin, symbol, flipped):
                    return margin, lower, upper
    return None


def _margins(expression: Expr) -> list[Expr]:
    """Where an expression may switch: the zeros of these."""
    found = [sorted(each.atoms(choose, sympy.sign), key=str) for each in _wholes(expression)]
    return list(dict.fromkeys(each.args[0] for part in found for each in part))


def _shown(margin: Expr) -> str:
    """A margin without auxiliary symbols."""
    written = written_out(margin, definitions_of([margin]), _LONGEST)
    return "a margin of many terms" if written is None else str(written)


def _values_at_switch(expression: Expr, margin: Expr, symbol: Expr, flipped: Any) -> Iterator[tuple[float, float]]:
    """The values on both sides of each zero of the margin along a symbol, as far as they differ."""
    ways = np.geomspace(1e-6, 1e6, 400)
    along = np.concatenate([-ways[::-1], ways])
    for seed in range(_TRIED):
        others = _somewhere(expression, seed)
        others |= {each: -others[each] for each in flipped}
        lower, upper = _crossings(margin, symbol, along, others)
        if not len(lower):
            continue
        apart = _APART * np.maximum(np.abs(upper), _APART)
        places = np.concatenate([lower, upper, lower - apart, upper + apart])
        values = _values(expression, symbol, places, others).reshape(4, -1)
        size = np.abs(values[2:]).max(axis=0)
        for a, b, scale in zip(values[0], values[1], size, strict=True):
            if abs(b - a) > _JUMP * scale:
                yield float(a), float(b)


def _crossings(margin: Expr, symbol: Expr, along: Array, others: dict[Expr, float]) -> tuple[Array, Array]:
    """Intervals of neighbouring numbers, in each of which the margin changes its sign."""
    sides = _values(margin, symbol, along, others) >= 0.0
    changes = np.flatnonzero(sides[1:] != sides[:-1])
    lower, upper, before = along[changes], along[changes + 1], sides[changes]
    for _ in range(_BISECTIONS if len(changes) else 0):
        middle = (lower + upper) / 2
        same = (_values(margin, symbol, middle, others) >= 0.0) == before
        lower, upper = np.where(same, middle, lower), np.where(same, upper, middle)
    return lower, upper


def _values(expression: Expr, symbol: Expr, places: Array, others: dict[Expr, float]) -> Array:
    states = {each: np.full(len(places), value) for each, value in others.items()} | {symbol: places}
    return at_states([expression], states)[:, 0]


def _somewhere(expression: Expr, seed: int) -> dict[Expr, float]:
    """Random values of all symbols; of parameters near their defaults, so that these keep their order."""
    rng = np.random.default_rng(seed)
    values = {}
    for symbol in sorted(expression.free_symbols, key=str):
        if isinstance(symbol, Parameter):
            values[symbol] = (symbol.quantity.default or 1.0) * rng.uniform(0.95, 1.05)
        else:
            values[symbol] = float(rng.normal())
    return values
