"""trig_reduce: the value stays, what cancels on paper cancels."""

import numpy as np
import pytest
import sympy
from sympy import cos, sin, sqrt

from servonode.mechanics.trig_reduce import trig_reduce

a, b, c = sympy.symbols("a b c", real=True)
m, k = sympy.symbols("m k", positive=True)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (sin(a) ** 2 + cos(a) ** 2, 1),
        (m * sin(a) ** 2 + m * cos(a) ** 2 - m, 0),
        (cos(a) * cos(a + b) + sin(a) * sin(a + b), cos(b)),
        (sin(a + b) ** 2 + cos(a + b) ** 2, 1),
        (sin(a) ** 4 - cos(a) ** 4 - sin(a) ** 2 + cos(a) ** 2, 0),
        ((sin(a) + cos(a)) ** 2 - 2 * sin(a) * cos(a), 1),
        (k * (a / k) - a, 0),
        (sin(a) ** 2 * b / m + cos(a) ** 2 * b / m, b / m),
        (sympy.Integer(3), 3),
        (a, a),
    ],
)
def test_what_cancels_on_paper_cancels(expression: sympy.Expr, expected: sympy.Expr) -> None:
    assert sympy.expand(trig_reduce(expression, {m, k}) - expected) == 0


def random_expression(rng: np.random.Generator) -> sympy.Expr:
    """A sum of products as they come out of Euler and Lagrange."""
    factors = [sin(a), cos(a), sin(b), cos(b), sin(a + b), cos(a - c), a, c, m, k, 1 / k, 1 / m, sqrt(m + k)]
    factors += [1 / (m + k), sympy.Rational(2, 3)]
    terms = []
    for _ in range(6):
        picked = [factors[i] for i in rng.integers(len(factors), size=5)]
        terms.append(int(rng.integers(-3, 4)) * sympy.Mul(*picked))
    return sympy.Add(*terms)


def test_the_value_stays(rng: np.random.Generator) -> None:
    for _ in range(15):
        expression = random_expression(rng)
        values = dict(zip((a, b, c, m, k), map(float, rng.uniform(0.3, 2.0, size=5)), strict=True))
        before = float(sympy.sympify(expression).subs(values))
        # rounding of terms of size 100
        assert float(trig_reduce(expression, {m, k}).subs(values)) == pytest.approx(before, abs=1e-12)


def test_what_is_no_polynomial_keeps_its_value() -> None:
    expression = sqrt(1 + sin(a) ** 2) / (2 + cos(b)) + sin(a) ** 2 + cos(a) ** 2
    values = {a: 0.7, b: 1.9}
    assert float(trig_reduce(expression, set()).subs(values)) == pytest.approx(
        float(expression.subs(values)), rel=1e-14
    )


def test_functions_beside_sines_are_not_taken_apart() -> None:
    expression = sympy.tanh(a - 10) * sympy.sin(a + b) + sympy.tan(a + b)
    assert trig_reduce(expression, {m}).has(sympy.tanh(a - 10))
    assert trig_reduce(expression, {m}).has(sympy.tan(a + b))


def test_long_sums_of_angles_are_taken_apart_only_where_they_combine() -> None:
    links = [sympy.Add(*sympy.symbols(f"q1:{n + 1}", real=True)) for n in range(1, 7)]
    products = [sympy.cos(p) * sympy.cos(q) * m for p in links for q in links]
    tidied = trig_reduce(sympy.Add(*products), {m})
    assert len(sympy.Add.make_args(tidied)) <= 21  # 6 squares and 15 mixed products, not 2^12
    values = dict(zip(sorted(tidied.free_symbols - {m}, key=str), (0.3, -1.1, 0.7, 2.2, -0.4, 0.9), strict=True))
    assert tidied.subs(values).subs(m, 1) == pytest.approx(sympy.Add(*products).subs(values).subs(m, 1), abs=1e-12)


def test_a_long_sum_beside_its_parts_is_taken_apart() -> None:
    d = sympy.Symbol("d", real=True)
    total = a + b + c + d
    expression = sympy.sin(total) ** 2 + sympy.cos(a + b) ** 2 + sympy.sin(a + b) ** 2 + sympy.cos(total) ** 2
    assert trig_reduce(expression, set()) == 2
    mixed = sympy.sin(total) * sympy.cos(c + d) - sympy.cos(total) * sympy.sin(c + d) - sympy.sin(a + b)
    assert trig_reduce(mixed, set()) == 0


def test_long_sums_of_rates_are_kept() -> None:
    rates = sympy.symbols("u:6", real=True)
    sums = [sympy.Add(*rates[: i + 1]) for i in range(6)]
    assert trig_reduce(m * sums[5] ** 2 * sums[3] * sin(a), {m}) == m * sums[5] ** 2 * sums[3] * sin(a)
    apart = sympy.Add(*(k * rate * sums[4] * cos(a) for rate in rates[:5]))
    assert trig_reduce(apart, {k}) == k * sums[4] ** 2 * cos(a)
    assert trig_reduce(sympy.expand(sums[5] ** 2) - sums[5] ** 2, set()) == 0
