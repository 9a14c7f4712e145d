"""Bodies that are given in velocities: what they add to the minimal form (README eq. 3b)."""

from dataclasses import dataclass
from typing import Any

import sympy

from servonode.definitions.progress import counted
from servonode.errors import ModelError
from servonode.mechanics.differentiate import along, along_matrix, diff, diff_matrix, gradient
from servonode.mechanics.first_order_states import extended
from servonode.mechanics.generic_points import are_zero
from servonode.mechanics.model import Model
from servonode.mechanics.model_checks import reduced
from servonode.mechanics.straight_line import Auxiliary, named, symbols_of
from servonode.mechanics.symbols import Body, time

Matrix = Any  # sympy.Matrix
Expr = Any
Square = tuple[Expr, Expr]  # c and u of a term c u^2


@dataclass(frozen=True)
class Momenta:
    """Additions to the minimal form: M (n_v, n_v), h (n_v,), B (n_v, n_tau + n_N) of inputs and reactions; kinetic
    energy; power [W] of losses in velocities and of masses that change with time.
    """

    M: Matrix
    h: Matrix
    B: Matrix
    kinetic: Expr
    power: Expr


def momenta(model: Model, rates: dict[Expr, Expr], in_velocities: dict[Expr, Expr]) -> Momenta:
    """What the bodies of a model, and losses and inputs as far as they are given in velocities, add.

    `rates`: time and coordinates -> their rates along the motion; `in_velocities`: rate symbols -> G v + g0.

    Raises:
        ModelError: the velocity of a body is not linear in the velocities, or its inertia does not turn with it.
    """
    v = list(model.velocities)
    M, h = sympy.zeros(len(v)), sympy.zeros(len(v), 1)
    kinetic, power = sympy.Integer(0), sympy.Integer(0)
    for each in model.bodies:
        _check_inertia_turns(model, each, rates, in_velocities)
        for motion, N in each.momenta:
            u = motion.xreplace(in_velocities)
            if not len(u):
                continue
            U = sympy.Matrix([gradient(each, v) for each in u])
            if U.free_symbols & set(v):
                text = f"machine {model.name}: the motion of body {each.name} must be linear in the velocities"
                raise ModelError(text, each.place)
            M += U.T * N * U
            h += U.T * along_matrix(N * u, rates)
            kinetic += (u.T * N * u)[0] / 2
            power -= (u.T * diff_matrix(N, time) * u)[0] / 2
    moving = set(model.own_motions)
    losses = [diff(model.dissipation, each) if each in moving else sympy.Integer(0) for each in v]
    on = [[diff(rate, each) if each in moving else 0 for rate in model.acting.values()] for each in v]
    M, B = extended(model, M, sympy.Matrix(len(v), len(model.acting), [entry for row in on for entry in row]))
    return Momenta(
        M=M,
        h=h + sympy.Matrix(len(v), 1, losses).xreplace(in_velocities),
        B=B,
        kinetic=kinetic,
        power=power - sympy.Add(*(each * loss for each, loss in zip(v, losses, strict=True))),
    )


def motions(model: Model) -> list[Square] | None:
    """The kinetic energy as sum of c u^2 of motions u that are rates of something; None where it is not stated so.

    Such a motion, as the velocity of a point along an axis, has du/dq = (du/dq')': Lagrange's equations of c u^2 are
    2 c (du/dq') u' then, of which the terms that would cancel are not even made. What holds at random values with many
    digits holds (`generic_points.are_zero`).
    """
    rates = [q.rate for q in model.coordinates]
    moving = {time: sympy.Integer(1), **dict(zip(model.coordinates, rates, strict=True))}
    squares = _squares(sympy.sympify(model.kinetic), frozenset(model.parameters))
    if squares is None:
        return None
    differences = [
        along(by_rate, moving) - by_place
        for _, u in squares
        for by_rate, by_place in zip(gradient(u, rates), gradient(u, model.coordinates), strict=True)
    ]
    return squares if are_zero(differences) else None


def _squares(kinetic: Expr, constants: frozenset[Expr]) -> list[Square] | None:
    """The terms c u^2 of a sum of constants times squares or such sums; None where it is something else."""
    found: list[Square] = []
    waiting = [(sympy.Integer(1), kinetic)]
    while waiting:
        factor, node = waiting.pop()
        fixed = [each for each in sympy.Mul.make_args(node) if symbols_of(each) <= constants]
        if fixed and node != 0:
            node = sympy.Mul(*(each for each in sympy.Mul.make_args(node) if each not in fixed))
            factor *= sympy.Mul(*fixed)
        if node.is_Add:
            waiting += [(factor, each) for each in node.args]
        elif isinstance(node, Auxiliary):
            waiting.append((factor, node.definition))
        elif all(each.is_Pow and each.exp == 2 for each in sympy.Mul.make_args(node)):
            found.append((factor, sympy.Mul(*(each.base for each in sympy.Mul.make_args(node)))))
        elif node != 0:
            return None
    return found


def by_motions(
    squares: list[Square], v: list[Expr], motion: dict[Expr, Expr], in_velocities: dict[Expr, Expr]
) -> tuple[Matrix, Matrix]:
    """What terms c u^2 of the kinetic energy add to M_r (n_v, n_v) and h_r (n_v,), see `motions`.

    `motion`: time and coordinates -> their rates along the motion; `in_velocities`: rate symbols -> G v + g0.
    """
    M, h = sympy.zeros(len(v)), sympy.zeros(len(v), 1)
    for factor, stated in counted("deriving", "motion of a body", squares):
        u = stated.xreplace(in_velocities)
        U = sympy.Matrix(gradient(u, v))
        M += U * (2 * factor * U.T)
        h += U * named(2 * factor * along(u, motion))
    return M, h


def _check_inertia_turns(model: Model, body: Body, rates: dict[Expr, Expr], in_velocities: dict[Expr, Expr]) -> None:
    """The inertia in axes that do not turn must change as the body turns, N' = [w] N - N [w], or energy appears."""
    w = body.angular_velocity.xreplace(in_velocities)
    change = along_matrix(body.inertia, {symbol: rate for symbol, rate in rates.items() if symbol != time})
    if len(w) == 3:
        cross = sympy.Matrix([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
        change -= cross * body.inertia - body.inertia * cross
    if any(reduced(entry, model) != 0 for entry in change):
        text = f"machine {model.name}: the inertia of body {body.name} does not turn with it; write it in axes that do"
        raise ModelError(f"{text} not turn, as i*eye(3) + (c - i)*n*n.T for a body of revolution about n", body.place)
