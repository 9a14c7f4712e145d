"""The equations of motion as a regression on parameters: what they are affine in, and their slopes.

The minimal form, free of contact forces, and the kinematics give a residual that is zero along a motion,

    e(x, x', u; theta) = (q' - G v - g0,  M v' + h - B tau) = Y(x, x', u) phi(theta) + e_0(x, x', u, theta)

with the base functions phi, products and quotients of parameters, and a remainder e_0 of what cannot be separated, such
as an angle of a slope that stands in a sine with a coordinate (W. Khalil and E. Dombre, Modeling, Identification and
Control of Robots, 2002, ch. 9 and 12). A parameter that changes no e changes no motion.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from servonode.arrays import Array
from servonode.mechanics.equations import Equations, column
from servonode.mechanics.straight_line import definitions_of, written_out
from servonode.mechanics.symbols import time

Expr = Any
Matrix = Any  # sympy.Matrix
LONGEST = 1000  # operations of a row with its definitions put in, beyond which it is only differentiated


@dataclass(frozen=True)
class Regressor:
    """The residual of the equations and its parts; arguments are t, states, their rates, inputs, in this order.

    residual (n_e,); functions: phi; columns: Y (n_e, len(phi)); rest: e_0 (n_e,). The numbers of parameters that are
    not identified are in it.
    """

    arguments: tuple[Expr, ...]
    parameters: tuple[Expr, ...]
    residual: Matrix
    functions: tuple[Expr, ...]
    columns: Matrix
    rest: Matrix

    def slopes(self, t: Array, x: Array, rates: Array, u: Array, values: Sequence[float]) -> Array:
        """de/dtheta at rows of states, rates (rows, n_state) and inputs (rows, n_tau): (rows * n_e, p)."""
        table = self.residual.jacobian(list(self.parameters))
        return self._evaluated(table, t, x, rates, u, values)

    def regressor(self, t: Array, x: Array, rates: Array, u: Array) -> Array:
        """Y at these rows: (rows * n_e, len(phi))."""
        return self._evaluated(self.columns, t, x, rates, u, [0.0] * len(self.parameters))

    def _evaluated(self, table: Matrix, t: Array, x: Array, rates: Array, u: Array, values: Sequence[float]) -> Array:
        symbols = [*self.arguments, *self.parameters]
        inputs = [t, *x.T, *rates.T, *u.T, *values]
        entries = sympy.lambdify(symbols, list(table), "numpy", cse=_parts, dummify=True)(*inputs)
        found = np.array([np.broadcast_to(np.asarray(each, dtype=float), t.shape) for each in entries])
        stacked: Array = found.reshape(table.rows, table.cols, len(t)).transpose(2, 0, 1).reshape(-1, table.cols)
        return stacked


def regressor_of(equations: Equations, names: Sequence[str], values: dict[str, float]) -> Regressor | None:
    """The regressor of these parameters; all others have these values. None where reactions stand in the equations."""
    model = equations.model
    if model.reactions or len(model.state) != len(model.kinematics) + len(model.velocities):
        return None
    chosen = {each.name: each for each in model.parameters if each.name in names}
    numbers = {each: sympy.Float(values[each.name]) for each in model.parameters if each.name not in names}
    v_rate = {v: v.rate for v in model.velocities}
    dynamic = equations.M_r * column(v_rate.values()) + equations.h_r - equations.B_r * equations.tau
    kinematic = [q.rate - rate for q, rate in model.kinematics.items()]
    rows = [*kinematic, *dynamic]
    written = [written_out(each, definitions_of([each]), LONGEST) for each in rows]
    residual = sympy.Matrix([row if each is None else each for row, each in zip(rows, written, strict=True)])
    symbols = tuple(chosen[name] for name in names)
    rates = tuple(v_rate.get(each, getattr(each, "rate", None)) for each in model.state)
    arguments = (time, *model.state, *rates, *model.inputs)
    functions, columns, rest = _separated(residual, frozenset(symbols))
    return Regressor(arguments, symbols, residual.xreplace(numbers), *_numbered(functions, columns, rest, numbers))


def _parts(expressions: list[Expr]) -> tuple[list[tuple[Expr, Expr]], list[Expr]]:
    """What is computed once, by name: the definitions of auxiliary symbols, then what sympy finds."""
    definitions = definitions_of(expressions)
    plain = {symbol: sympy.Dummy() for symbol, _ in definitions}
    named = [(plain[symbol], definition.xreplace(plain)) for symbol, definition in definitions]
    more, reduced = sympy.cse([each.xreplace(plain) for each in expressions], list=False)
    return [*named, *more], reduced


def _separated(residual: Matrix, chosen: frozenset[Expr]) -> tuple[list[Expr], dict[Expr, list[Expr]], list[Expr]]:
    """The base functions of the chosen parameters, the entry of each row by function, and what cannot be separated."""
    entries: dict[Expr, list[Expr]] = {sympy.Integer(1): [sympy.Integer(0)] * len(residual)}
    rest = [sympy.Integer(0)] * len(residual)
    for i, row in enumerate(residual):
        for term in sympy.Add.make_args(sympy.expand(row)):
            without, having = term.as_independent(*chosen, as_Add=False)
            if having.free_symbols <= chosen:
                entries.setdefault(having, [sympy.Integer(0)] * len(residual))[i] += without
            else:
                rest[i] += term
    return list(entries), entries, rest


def _numbered(
    functions: list[Expr], columns: dict[Expr, list[Expr]], rest: list[Expr], numbers: dict[Expr, Expr]
) -> tuple[tuple[Expr, ...], Matrix, Matrix]:
    table = sympy.Matrix([columns[each] for each in functions]).T.xreplace(numbers)
    return tuple(functions), table, sympy.Matrix(rest).xreplace(numbers)
