"""Expressions of a program along the machine's motion: their derivatives, and whether the inputs reach these."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from servonode.arrays import Array
from servonode.controllers.engine.program import Residual
from servonode.controllers.engine.resolution import Resolution
from servonode.definitions.source_location import Place
from servonode.errors import ModelError
from servonode.mechanics.description import MOST_DERIVATIVES
from servonode.mechanics.equations import Equations
from servonode.mechanics.evaluate import at_states
from servonode.mechanics.functions import choose
from servonode.mechanics.straight_line import gradient, named, ordered, symbols_of
from servonode.mechanics.switches import SMOOTH, refuse_jumps, settled, switches
from servonode.mechanics.symbols import Parameter

POINTS, CLEAR = 6, 1e-6  # a share of the largest singular value that no rounding makes
Expr = Any
Row = tuple[Expr, Expr, list[Expr], Expr, int]  # f, f', J row, delta and relative degree of one residual
_ORDERS = 2 * MOST_DERIVATIVES  # derivatives that are looked for, so that none beyond what there are stays unseen


class Rates(dict[Expr, Expr]):
    """Of all that moves its rate along the motion. known: the derivatives that were found by them."""

    def __init__(self, rates: Mapping[Expr, Expr]) -> None:
        super().__init__(rates)
        self.known: dict[Expr, Expr] = {}


def row_of(resolved: Resolution, moving: Rates, residual: Residual, kind: str = "residual") -> Row:
    """f, f', J row, delta and relative degree of one residual, or of a face of a `kind` that is differentiated so."""
    model, program, name = resolved.model, resolved.program, residual.quantity.name
    if reason := model.not_served(residual.expression):
        raise ModelError(f"program {program.name}, {kind} {name}: {reason}", residual.place)
    stated = residual.expression if program.inputs else settled(residual.expression)
    f, f_dot, degree = resolved.in_velocities(stated), sympy.Integer(0), 1
    check_symbols(resolved, f, f"{kind} {name}", residual.place)
    J = gradient(f, model.velocities)
    drift = _along(f, moving)
    if all(entry == 0 for entry in J):
        f_dot, degree = drift, 2
        J = gradient(f_dot, model.velocities)
        drift = _along(f_dot, moving)
    for entry, which in ((f, "it"), (f_dot, "its derivative, which the law needs,")):
        if switches(entry):
            refuse_jumps(f"program {program.name}, {kind} {name}: {which}", entry, residual.place, SMOOTH)
    put_in = resolved.put_in
    return put_in(f), put_in(f_dot), [put_in(entry) for entry in J], put_in(drift), degree


def moving_of(equations: Equations, resolved: Resolution, orders: int = _ORDERS) -> Rates:
    """All that moves -> its rate along the motion: time, coordinates, the program's states, targets and signals."""
    rates = Rates(equations.rates)
    rates |= {each: resolved.in_velocities(rate) for each, rate in resolved.program.states.items()}
    for each in (*resolved.program.targets, *resolved.program.signals):
        rates |= {each.derivative(order): each.derivative(order + 1) for order in range(orders)}
    return rates


def _along(expression: Expr, moving: Rates) -> Expr:
    """Time derivative of an expression along the motion, without its J v' part.

    The rule is applied node by node and the results are not expanded, so that x - X moves with x' - X' as one
    factor and the compiled law stays as short as a hand-written one.
    """
    expression, known = sympy.sympify(expression), moving.known
    for each in ordered([expression]):  # a definition moves as what it stands for
        if each not in known:
            known[each] = named(_derivative(each.definition, moving))
    return _derivative(expression, moving)


def _derivative(node: Expr, rates: Rates) -> Expr:
    known = rates.known
    if node in rates:
        return rates[node]
    if not node.free_symbols & rates.keys():
        return sympy.Integer(0)
    if isinstance(node, choose):
        margin, a, b = node.args
        return choose(margin, _derivative(a, rates), _derivative(b, rates))
    if node not in known:
        inner = [_derivative(argument, rates) for argument in node.args]
        known[node] = sympy.Add(*(_through(node, i, rate) for i, rate in enumerate(inner) if rate != 0))
    return known[node]


def _through(node: Expr, i: int, rate: Expr) -> Expr:
    """The derivative of a node by its i-th argument, times that argument's rate, as one product."""
    if node.is_Add:
        return rate
    if node.is_Mul:
        return node.func(*node.args[:i], *node.args[i + 1 :], rate)
    argument = sympy.Dummy(real=True)
    partial = node.func(*node.args[:i], argument, *node.args[i + 1 :]).diff(argument)
    # multiplied before the argument returns: sympy would spread a number over a sum, and 2 (x - X) be lost
    return sympy.Mul(*sympy.Mul.make_args(partial), rate).xreplace({argument: node.args[i]})


def check_symbols(resolved: Resolution, expression: Expr, what: str, place: Place, more: tuple[Expr, ...] = ()) -> None:
    model, program = resolved.model, resolved.program
    own = (*program.parameters, *program.states, *program.setpoints)
    known = {symbol.name for symbol in (*model.state, *model.parameters, *own, *more)} | {"t"}
    known |= {each.scale.name for each in program.limits if each.kind == "expressions" and expression not in each.of}
    for each in (*program.targets, *program.signals):
        known |= {each.derivative(order).name for order in range(MOST_DERIVATIVES + 1)}
    unknown = sorted(symbol.name for symbol in expression.free_symbols if symbol.name not in known)
    if unknown:
        raise ModelError(
            f"program {program.name}, {what}: {unknown[0]!r} is neither a state or parameter of machine "
            f"{model.name} nor of the program; known are {', '.join(sorted(known))}",
            place,
        )


def reached_at_once(equations: Equations, J: Sequence[Sequence[Expr]]) -> bool:
    """Whether W is clearly regular at one of the random states, or cannot be evaluated at any of them."""
    M, B = equations.M_r, equations.B_r
    shapes = [M.shape, B.shape, (len(J), M.shape[0])]
    entries = [*M, *B, *(each for row in J for each in row)]
    values = at_states(entries, _random([*map(sympy.sympify, entries)]))
    values = values[np.isfinite(values).all(axis=1)]
    parts = np.split(values, np.cumsum([rows * columns for rows, columns in shapes])[:-1], axis=1)
    M_, B_, J_ = (part.reshape(-1, *shape) for part, shape in zip(parts, shapes, strict=True))
    return not len(values) or any(_regular(*each) for each in zip(M_, B_, J_, strict=True))


def _regular(M: Array, B: Array, J: Array) -> bool:
    try:
        R = np.linalg.solve(M, B)
    except np.linalg.LinAlgError:
        return False
    lengths = np.linalg.norm(J, axis=1)
    if not lengths.all():
        return False
    sigma = np.linalg.svd(J / lengths[:, None] @ R, compute_uv=False)
    return bool(sigma[-1] > CLEAR * np.linalg.norm(R))


def _random(entries: Sequence[Expr]) -> dict[Expr, Array]:
    """Values of the symbols: parameters near their defaults, all others between 0.2 and 0.8."""
    rng = np.random.default_rng(0)
    symbols = sorted(frozenset[Expr]().union(*map(symbols_of, entries)), key=lambda each: each.name)
    values = {}
    for each in symbols:
        default = each.quantity.default if isinstance(each, Parameter) else None
        values[each] = rng.uniform(0.7, 1.3, POINTS) * default if default else rng.uniform(0.2, 0.8, POINTS)
    return values or {sympy.Dummy(): np.zeros(1)}
