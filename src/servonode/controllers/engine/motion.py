"""The motion of a machine as a straight-line program: v' = a0 + R u, and derivatives along it (README eq. 3 and 10)."""

from collections.abc import Sequence
from typing import Any

import sympy

from servonode.controllers.engine.resolution import Resolution
from servonode.controllers.engine.straight_line import Seeds, StraightLine
from servonode.mechanics.equations import Equations

Expr = Any
ZERO, ONE = sympy.Integer(0), sympy.Integer(1)


class Motion:
    """a0 (n_v,) and R (n_tau, n_v), by inputs, of v' = a0 + R^T u, as atoms of a straight-line program."""

    def __init__(self, equations: Equations, resolved: Resolution, moving: dict[Expr, Expr]) -> None:
        """`moving`: all that moves but the velocities -> its rate, see `servo`."""
        self.line, self.velocities = StraightLine(), equations.model.velocities
        self.constants = equations.model.parameters
        n_v, define = len(self.velocities), self.line.define
        M = [[define(equations.M_r[i, j]) for j in range(n_v)] for i in range(n_v)]
        free = [define(-each) for each in equations.h_r]
        inputs = [[define(each) for each in equations.B_r[:, k]] for k in range(equations.B_r.shape[1])]
        self.a0, *self.R = self.line.solve_symmetric(M, [free, *inputs])
        rates = {each: define(resolved.put_in(rate)) for each, rate in moving.items()}
        self._drift = rates | dict(zip(self.velocities, self.a0, strict=True))

    def drift(self, atom: Expr) -> Expr:
        """Its rate under zero inputs, without the rates of the law's own integrators."""
        return self.line.derivative(atom, "drift", lambda each: self._drift.get(each, ZERO))

    def partial(self, atom: Expr, symbol: Expr) -> Expr:
        """Its partial derivative by a state."""
        return self.line.derivative(atom, symbol.name, _unit(symbol))

    def gradient(self, atom: Expr) -> list[Expr]:
        """Its derivatives by the velocities (n_v,)."""
        return [self.partial(atom, each) for each in self.velocities]

    def by_input(self, k: int, gradient: Sequence[Expr]) -> Expr:
        """What a unit of input k adds to the rate of an atom with this gradient."""
        return self.line.dot(gradient, self.R[k])


def _unit(symbol: Expr) -> Seeds:
    return lambda each: ONE if each == symbol else ZERO
