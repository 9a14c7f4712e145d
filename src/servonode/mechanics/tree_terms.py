"""What the tree of a machine adds to its equations: to the full form, or to the minimal form where it has balls."""

from dataclasses import dataclass
from typing import Any

import sympy

from servonode.definitions.progress import doing
from servonode.mechanics.differentiate import along, diff, gradient
from servonode.mechanics.model import Model
from servonode.mechanics.straight_line import named, symbols_of
from servonode.mechanics.symbols import time

Matrix = Any  # sympy.Matrix
Expr = Any


@dataclass(frozen=True)
class TreeTerms:
    """M (n, n) and h (n, 1) in the tree's motions, the generalized kinetic energy, the power [W] of explicit time."""

    motions: list[Expr]
    M: Matrix
    h: Matrix
    kinetic: Expr
    power: Expr


def tree_terms(model: Model) -> TreeTerms:
    """The terms of the model's tree; none where it has no tree."""
    if model.tree is None:
        return TreeTerms([], sympy.zeros(0, 0), sympy.zeros(0, 1), sympy.Integer(0), sympy.Integer(0))
    doing("deriving", "links")
    program = model.tree.recursion
    motions = [each.symbol for each in program.motions]
    kinetic, power = program.kinetic, sympy.Integer(0)
    if time in symbols_of(program.kinetic) | symbols_of(program.potential):
        momenta = gradient(kinetic, motions)
        power = named(diff(program.potential, time) - diff(kinetic, time))
        kinetic = named(sympy.Add(*(p * u for p, u in zip(momenta, motions, strict=True)), -kinetic))
    return TreeTerms(motions, program.mass_matrix, sympy.Matrix(len(motions), 1, program.bias), kinetic, power)


def in_rates(terms: TreeTerms, rates: list[Expr]) -> tuple[Matrix, Matrix]:
    """M (n_q, n_q) and h (n_q, 1) of a tree whose motions are rates."""
    M, h = sympy.zeros(len(rates), len(rates)), sympy.zeros(len(rates), 1)
    places = [rates.index(each) for each in terms.motions]
    for i, k in enumerate(places):
        h[k] = terms.h[i]
        for j, other in enumerate(places):
            M[k, other] = terms.M[i, j]
    return M, h


def projected(
    terms: TreeTerms, v: list[Expr], in_velocities: dict[Expr, Expr], moving: dict[Expr, Expr]
) -> tuple[Matrix, Matrix]:
    """M_r (n_v, n_v) and h_r (n_v, 1): U^T M U and U^T (h + M U' v) of motions u = U v.

    in_velocities: rates -> G v + g0; moving: time and coordinates -> their rates along the motion.
    """
    u = [each.xreplace(in_velocities) for each in terms.motions]
    U = sympy.Matrix(len(u), len(v), [entry for each in u for entry in gradient(each, v)])
    drift = sympy.Matrix(len(u), 1, [along(each, moving) for each in u])
    return U.T * terms.M * U, U.T * (terms.h.xreplace(in_velocities) + terms.M * drift)
