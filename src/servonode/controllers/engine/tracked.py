"""What the residuals follow: those that are a difference of an output of the machine and its goal, split in two."""

from dataclasses import dataclass
from typing import Any

import sympy

from servonode.controllers.engine.program import Program, Residual
from servonode.mechanics.description import Tracked
from servonode.mechanics.model import Model
from servonode.mechanics.straight_line import symbols_of

Expr = Any
ZERO = sympy.Integer(0)


@dataclass(frozen=True)
class Split:
    """A residual as output less goal; `column`: the state or output of the machine that the output is, or ""."""

    residual: Residual
    column: str
    output: Expr
    goal: Expr

    @property
    def described(self) -> Tracked:
        """It without its expressions."""
        return Tracked(self.residual.quantity.name, self.column)


def splits(model: Model, program: Program) -> list[Split]:
    """The residuals that are such a difference, in their order."""
    found = (_split(model, program, each) for each in program.residuals)
    return [each for each in found if each is not None]


def _split(model: Model, program: Program, residual: Residual) -> Split | None:
    """A residual's stated output, or its terms with states alone, less all others.

    A term with both, such as a reference that depends on the state, belongs to the goal if the output has a column.
    """
    if residual.output is not None:
        return Split(residual, _column(model, residual.output), residual.output, residual.output - residual.expression)
    states = {*model.state, *(each.rate for each in model.coordinates)}
    still = {*model.parameters, *program.parameters}
    output, goal, mixed = ZERO, ZERO, False
    for term in sympy.Add.make_args(sympy.sympify(residual.expression)):
        symbols = symbols_of(term)
        if symbols & states and symbols <= states | still:
            output += term
        else:
            goal, mixed = goal - term, mixed or bool(symbols & states)
    factor = output.as_coeff_Mul()[0]
    output, goal = output / factor if factor else output, goal / factor if factor else goal
    column = _column(model, output)
    if not column and _column(model, -output):
        output, goal, column = -output, -goal, _column(model, -output)
    if not output or (not column and (mixed or not goal)):
        return None
    return Split(residual, column, output, goal)


def _column(model: Model, output: Expr) -> str:
    """The name of the state or output of the machine that an expression is."""
    known = {sympy.sympify(each.expression).xreplace(model.rates): each.quantity.name for each in model.outputs}
    known |= {each: each.name for each in model.state}
    return known.get(output.xreplace(model.rates), "")
