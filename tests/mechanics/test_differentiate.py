"""Partial derivatives are sympy's own expressions."""

import numpy as np
import pytest
import sympy
from sympy import Abs, Max, Rational, atan2, cos, exp, log, sin, sqrt, tan, tanh

from servonode.mechanics import wrap
from servonode.mechanics.differentiate import diff, gradient

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


def test_derivatives_of_products_of_random_factors_are_those_of_sympy(rng: np.random.Generator) -> None:
    factors = [sin(x + y), cos(x - 2 * y), x, x - y, m, 1 / k, sqrt(m + x**2), (x + y) ** 2, y, Rational(-1, 2)]
    for _ in range(60):
        terms = [sympy.Mul(*(factors[i] for i in rng.integers(len(factors), size=4))) for _ in range(4)]
        expression = sympy.Add(*terms)
        assert gradient(expression, (x, y)) == [sympy.diff(expression, x), sympy.diff(expression, y)]
