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


def test_stand_ins_are_put_in_and_not_taken_for_stand_ins_again() -> None:
    polynomials = Polynomials({x: x - y, sin(a + b): sin(a) * cos(b) + cos(a) * sin(b), sin(a): 2 * sin(a)})
    assert expanded(polynomials, x * y) == x * y - y**2
    assert expanded(polynomials, sin(a + b)) == sin(a) * cos(b) + cos(a) * sin(b)
    assert expanded(polynomials, sin(a) * x) == sympy.expand(2 * sin(a) * (x - y))


def test_squares_of_one_are_replaced_by_those_of_the_other() -> None:
    polynomials = Polynomials({})
    polynomial = polynomials.of(x * sin(a) ** 5 - a * cos(a) ** 2 + b / x)
    rest = polynomials.without_squares(polynomial, {sin(a): cos(a)})
    value = sum(
        rational(number) * sympy.Mul(*(s**n for s, n in zip(polynomials.generators, powers, strict=True)))
        for powers, number in zip(polynomials.exponents(rest), rest.values(), strict=True)
    )
    assert value == sympy.expand(x * sin(a) * (1 - cos(a) ** 2) ** 2 - a * cos(a) ** 2 + b / x)
