"""Bodies that are stated in velocities: what they add to the minimal form (README eq. 3b)."""

from dataclasses import dataclass
from typing import Any

import sympy

from servonode.mechanics.description import ModelError
from servonode.mechanics.differentiate import diff, diff_matrix, gradient
from servonode.mechanics.model import Model
from servonode.mechanics.symbols import Body, time
from servonode.mechanics.trig_reduce import trig_reduce_matrix

Matrix = Any  # sympy.Matrix
Expr = Any


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
    """What the bodies of a model, and losses and inputs as far as they are stated in velocities, add.

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
            h += U.T * _along(N * u, rates)
            kinetic += (u.T * N * u)[0] / 2
            power -= (u.T * diff_matrix(N, time) * u)[0] / 2
    losses = gradient(model.dissipation, v)
    on = [[diff(rate, each) for rate in model.forces.values()] for each in v]
    return Momenta(
        M=M,
        h=h + sympy.Matrix(len(v), 1, losses).xreplace(in_velocities),
        B=sympy.Matrix(len(v), len(model.forces), [entry for row in on for entry in row]),
        kinetic=kinetic,
        power=power - sympy.Add(*(each * loss for each, loss in zip(v, losses, strict=True))),
    )


def _along(expression: Matrix, rates: dict[Expr, Expr]) -> Matrix:
    """Time derivative along the motion at constant velocities."""
    change = sympy.zeros(*expression.shape)
    for symbol, rate in rates.items():
        change += diff_matrix(expression, symbol) * rate
    return change


def _check_inertia_turns(model: Model, body: Body, rates: dict[Expr, Expr], in_velocities: dict[Expr, Expr]) -> None:
    """The inertia in axes that do not turn must change as the body turns, N' = [w] N - N [w], or energy appears."""
    w = body.angular_velocity.xreplace(in_velocities)
    change = _along(body.inertia, {symbol: rate for symbol, rate in rates.items() if symbol != time})
    if len(w) == 3:
        cross = sympy.Matrix([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
        change -= cross * body.inertia - body.inertia * cross
    leftover = trig_reduce_matrix(change, set(model.parameters))
    if any(entry != 0 and sympy.simplify(entry) != 0 for entry in leftover):
        text = f"machine {model.name}: the inertia of body {body.name} does not turn with it; state it in axes that do"
        raise ModelError(f"{text} not turn, as i*eye(3) + (c - i)*n*n.T for a body of revolution about n", body.place)
