"""Which parameters a record tells, and which only in combination: base parameters by rank.

Of the regressor's columns at the states of the record a QR decomposition with pivoting chooses independent ones; the
others are sums of them, and what can be told of their functions is what these sums add to the chosen ones (M. Gautier,
Numerical calculation of the base inertial parameters of robots, J. Robotic Systems 8, 1991).

The equations of motion as a regression on parameters: what they are affine in, and their slopes.

The minimal form, free of contact forces, and the kinematics give a residual that is zero along a motion,

    e(x, x', u; theta) = (q' - G v - g0,  M v' + h - B tau) = Y(x, x', u) phi(theta) + e_0(x, x', u, theta)

with the base functions phi, products and quotients of parameters, and a remainder e_0 of what cannot be separated, such
as an angle of a slope that stands in a sine with a coordinate (W. Khalil and E. Dombre, Modeling, Identification and
Control of Robots, 2002, ch. 9 and 12). A parameter that changes no e changes no motion.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import sympy
from scipy.linalg import qr

from servonode.arrays import Array
from servonode.mechanics.dimensions import NONE, UnitError, parse_unit, times, unit_text
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
    columns, rest = _separated(residual, frozenset(symbols))
    table = sympy.Matrix(list(columns.values())).T
    residual, table, other = (each.xreplace(numbers) for each in (residual, table, sympy.Matrix(rest)))
    return Regressor(arguments, symbols, residual, tuple(columns), table, other)


def _parts(expressions: list[Expr]) -> tuple[list[tuple[Expr, Expr]], list[Expr]]:
    """What is computed once, by name: the definitions of auxiliary symbols, then what sympy finds."""
    definitions = definitions_of(expressions)
    plain = {symbol: sympy.Dummy() for symbol, _ in definitions}
    named = [(plain[symbol], definition.xreplace(plain)) for symbol, definition in definitions]
    more, reduced = sympy.cse([each.xreplace(plain) for each in expressions], list=False)
    return [*named, *more], reduced


def _separated(residual: Matrix, chosen: frozenset[Expr]) -> tuple[dict[Expr, list[Expr]], list[Expr]]:
    """By base function of the chosen parameters the entry of each row, and what cannot be separated."""
    entries: dict[Expr, list[Expr]] = {sympy.Integer(1): [sympy.Integer(0)] * len(residual)}
    rest = [sympy.Integer(0)] * len(residual)
    for i, row in enumerate(residual):
        for term in sympy.Add.make_args(sympy.expand(row)):
            without, having = term.as_independent(*chosen, as_Add=False)
            if having.free_symbols <= chosen:
                entries.setdefault(having, [sympy.Integer(0)] * len(residual))[i] += without
            else:
                rest[i] += term
    return entries, rest


ROWS = 400  # at which the regressor is evaluated
RANK = 1e-8  # of the largest pivot: below it a column is a sum of others
ZERO, SMALL = 1e-6, 0.01  # below it a function has no part in a combination, of all or of fewer base parameters
FEW, DIGITS = 3, 10  # of a factor of a combination, which has no more than make its interval narrow
WIDER = 1.05  # than with all digits: what an interval may be for the sake of a shorter factor
RATIO = 1e-6  # of its parts: a combination that is this small says a ratio


@dataclass(frozen=True)
class Motion:
    """States, rates and inputs along the fitted motions, one row an instant."""

    t: Array
    x: Array
    rates: Array
    u: Array


@dataclass(frozen=True)
class Combination:
    """A function of the parameters that the record tells: unit, value, and slopes by the parameters (p,)."""

    expression: Expr
    unit: str
    names: tuple[str, ...]
    value: float
    gradient: Array

    @property
    def text(self) -> str:
        return str(self.expression)


def enters(regressor: Regressor) -> list[bool]:
    """Of each parameter, whether it stands in the equations of motion at all."""
    return [any(each in entry.free_symbols for entry in regressor.residual) for each in regressor.parameters]


def combinations(
    regressor: Regressor,
    motion: Motion,
    values: Array,
    known: Callable[[Combination], bool],
    deviation: Callable[[Combination], float],
) -> list[Combination]:
    """The base parameters at the states of a record, as many as are `known` in spite of the noise.

    deviation: the standard deviation of one, by which the digits of its factors are chosen.
    """
    table, functions, sizes = _functions(regressor, motion, values)
    full = base(table * sizes)
    for rank in range(len(full), 0, -1):
        factors = full if rank == len(full) else base(table * sizes, rank)
        found = [_short(each / sizes, functions, regressor, values, deviation) for each in factors]
        if all(map(known, found)):
            return found
    return []


def _functions(regressor: Regressor, motion: Motion, values: Array) -> tuple[Array, Sequence[Expr], Array]:
    """The regressor's columns at these states, the functions that they belong to, and the sizes of these."""
    at = dict(zip(regressor.parameters, values.tolist(), strict=True))
    if any(regressor.rest):  # nothing but slopes is known
        table = regressor.slopes(motion.t, motion.x, motion.rates, motion.u, values.tolist())
        functions: Sequence[Expr] = regressor.parameters
    else:
        table = regressor.regressor(motion.t, motion.x, motion.rates, motion.u)
        kept = [i for i, each in enumerate(regressor.functions) if each.free_symbols]
        table, functions = table[:, kept], [regressor.functions[i] for i in kept]
    sizes = np.array([abs(float(each.xreplace(at))) or 1.0 for each in functions])
    return table, functions, sizes


def _short(
    factors: Array,
    functions: Sequence[Expr],
    regressor: Regressor,
    values: Array,
    deviation: Callable[[Combination], float],
) -> Combination:
    """The combination with the fewest digits that make it no less known: it is told as it is printed."""
    by_digits = [_combined(factors, functions, regressor, values, each) for each in range(FEW, DIGITS + 1)]
    most = WIDER * deviation(by_digits[-1])
    return next((each for each in by_digits if deviation(each) <= most), by_digits[-1])


def _combined(
    factors: Array, functions: Sequence[Expr], regressor: Regressor, values: Array, digits: int
) -> Combination:
    import sympy

    # the simplest function: by it the others are divided
    leading = min(np.flatnonzero(factors).tolist(), key=lambda i: (len(str(functions[i])), i))
    parts = zip(factors / factors[leading], functions, strict=True)
    expression = sympy.Add(*(_rounded(factor, digits) * each for factor, each in parts if factor))
    at = dict(zip(regressor.parameters, values.tolist(), strict=True))
    return _combination(expression, functions[leading], regressor, at)


def base(table: Array, rank: int | None = None) -> Array:
    """The factors (rank, n) with which the n columns of a regressor (rows, n) add up to base parameters.

    rank: of columns that are taken for independent; None: of all that rounding permits.
    """
    full = rank is None
    scale = float(np.abs(table).max(initial=0.0))
    if scale == 0.0:
        return np.zeros((0, table.shape[1]))
    R, pivots = qr(table / scale, mode="r", pivoting=True)
    pivot = np.abs(np.diag(R))
    rank = int(np.sum(pivot > RANK * pivot[0])) if rank is None else rank
    factors = np.zeros((rank, table.shape[1]))
    factors[:, pivots[:rank]] = np.eye(rank)
    factors[:, pivots[rank:]] = np.linalg.solve(R[:rank, :rank], R[:rank, rank:])
    factors[np.abs(factors) < (ZERO if full else SMALL)] = 0.0
    return factors


def _combination(expression: Expr, leading: Expr, regressor: Regressor, at: dict[Expr, float]) -> Combination:
    terms = expression.as_ordered_terms()
    largest = max(abs(float(each.xreplace(at))) for each in terms)
    if len(terms) == 2 and abs(float(expression.xreplace(at))) < RATIO * largest:
        one, other = (each.as_coeff_Mul()[1] for each in terms)
        expression = leading = one / other
    slopes = np.array([float(expression.diff(each).xreplace(at)) for each in regressor.parameters])
    names = tuple(each.name for each in regressor.parameters if each in expression.free_symbols)
    return Combination(expression, _unit(leading), names, float(expression.xreplace(at)), slopes)


def _unit(function: Expr) -> str:
    """The unit of a product of powers of parameters; SI where it is more than that."""
    found = NONE
    for symbol, power in function.as_powers_dict().items():
        unit = getattr(symbol, "quantity", None)
        if unit is None or not power.is_Rational:
            return "SI"
        try:
            found = times(found, parse_unit(unit.unit), Fraction(power.p, power.q))
        except UnitError:
            return "SI"
    return unit_text(found)


def _rounded(factor: float, digits: int) -> Expr:
    """A factor with so many digits, a whole number where it is one."""
    import sympy

    short = float(f"{factor:.{digits}g}")
    return sympy.Integer(int(short)) if short == int(short) else sympy.Float(short, digits)
