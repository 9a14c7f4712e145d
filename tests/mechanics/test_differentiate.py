"""Partial derivatives are sympy's own expressions."""

import pytest
import sympy
from sympy import Abs, Max, Rational, atan2, cos, exp, log, sin, sqrt, tan, tanh

from servonode.mechanics import wrap
from servonode.mechanics.straight_line import diff

x, y, z = sympy.symbols("x y z", real=True)
m, k = sympy.symbols("m k", positive=True)


@pytest.mark.parametrize(
    "expression",
    [
        x,
        m * x**2 * sin(x + y) ** 3 / 2,
        (x - y) * (x + 2 * y) * (k * x + 1),
        2 * (x + m) * cos(x) * (y - x) ** 2,
        sqrt(x**2 + y**2) / (m + k * x),
        x**y,
        atan2(y, x) + tan(x * y) - exp(-k * x) * log(1 + x**2),
        Abs(x - y) * tanh(x),
        Max(x, y) + wrap(x - y) * sin(wrap(y)),
        Rational(2, 3) * (x + y) + sympy.pi,
        sympy.Integer(3),
    ],
)
def test_the_derivative_is_the_expression_that_sympy_gives(expression: sympy.Expr) -> None:
    for symbol in (x, y, z, m):
        assert diff(expression, symbol) == sympy.diff(expression, symbol)
