"""Polynomials of expressions: expanded, with exact coefficients, or refused."""

import pytest
import sympy
from sympy import Rational, cos, exp, sin, sqrt

from servonode.mechanics.polynomials import NotPolynomial, Polynomials, rational

a, b, x, y = sympy.symbols("a b x y", real=True)


def expanded(polynomials: Polynomials, expression: sympy.Expr) -> sympy.Expr:
    polynomial = polynomials.of(expression)
    terms = zip(polynomials.exponents(polynomial), polynomial.values(), strict=True)
    factors = [[s**n for s, n in zip(polynomials.generators, powers, strict=True)] for powers, _ in terms]
    numbers = map(rational, polynomial.values())
    return sympy.Add(*(sympy.Mul(number, *each) for number, each in zip(numbers, factors, strict=True)))


@pytest.mark.parametrize(
    "expression",
    [
        sympy.Integer(0),
        Rational(2, 3),
        (x + y) ** 5 * (x - y) ** 3,
        (x / a + Rational(1, 2) * a**-3) ** 4 * a,
        sin(x) * (cos(x) + x * sin(y)) ** 2 / (2 * a * b**2),
        sympy.pi * (x + sympy.pi) ** 2,
        (x + y) * (x - y) - x**2 + y**2,
        x**64 * (x**64 + 1) ** 2,
    ],
)
def test_a_polynomial_is_the_expanded_expression(expression: sympy.Expr) -> None:
    assert expanded(Polynomials({}), expression) == sympy.expand(expression)


@pytest.mark.parametrize(
    "expression", [sqrt(x), 1 / (x + y), 1 / sin(x), exp(x), 0.5 * x, x**y, sympy.I * x, (x + y) ** 65]
)
def test_what_is_no_polynomial_is_refused(expression: sympy.Expr) -> None:
    with pytest.raises(NotPolynomial):
        Polynomials({}).of(1 + x * expression)
