"""Expressions of a program in the machine's velocities, with the expressions of its setpoints and scales put in."""

from typing import Any

import sympy

from servonode.controllers.engine.program import Program
from servonode.mechanics.functions import Max
from servonode.mechanics.model import Model

Expr = Any
NEARLY_ZERO = sympy.Float("1e-300")


class Resolution:
    """What the symbols of a program on a machine stand for.

    Setpoints and scales may contain each other and may be long: what they stand for is found once, and put into each
    expression once.
    """

    def __init__(self, model: Model, program: Program) -> None:
        self.model, self.program = model, program
        self._meant = self._setpoints_and_scales()
        self._known: dict[Expr, Expr] = {}  # the expressions that `put_in` was asked for

    def __call__(self, expression: Expr) -> Expr:
        """An expression in velocities, with setpoints and scales put in."""
        return self.put_in(self.in_velocities(expression))

    def in_velocities(self, expression: Expr) -> Expr:
        """An expression with coordinates' rates and varying parameters put in."""
        return sympy.sympify(expression).xreplace(self.model.rates).xreplace(self.model.varying)

    def put_in(self, expression: Expr) -> Expr:
        """An expression with setpoints and scales put in."""
        if not self._meant:
            return expression
        if expression not in self._known:
            self._known[expression] = expression.xreplace(self._meant)
        return self._known[expression]

    def _setpoints_and_scales(self) -> dict[Expr, Expr]:
        """Setpoints and scales -> their expressions in velocities, in which none of them is left."""
        meant = {each: self.in_velocities(each.expression) for each in self.program.setpoints}
        for each in self.program.limits:
            if each.kind == "expressions":
                norm = sympy.sqrt(sympy.Add(*(e**2 for e in each.of)))
                most = Max(each.at_most, NEARLY_ZERO)  # a zero vector with a zero bound must not give 0/0
                meant[each.scale] = self.in_velocities(most / Max(most, norm))
        closed = meant
        for _ in range(len(meant) - 1):
            closed = {symbol: expression.xreplace(meant) for symbol, expression in closed.items()}
        return closed
