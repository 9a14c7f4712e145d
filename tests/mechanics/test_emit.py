"""Emitted source: the value of the expression, powers as products, refusals, symmetric solves."""

import math
import re
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose
from sympy import (
    Abs,
    Max,
    Min,
    Rational,
    acos,
    asin,
    atan,
    atan2,
    cos,
    cosh,
    exp,
    log,
    sign,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)

from servonode.mechanics import ModelError, coordinate, hinge, link, tree, wrap
from servonode.mechanics.emit import LONGEST_SUM, Block, Constants, solve_spd
from servonode.mechanics.functions import root
from servonode.mechanics.straight_line import named

x, y = sympy.symbols("x y", real=True)
m, k = sympy.symbols("m k", positive=True)


def python_wrap(angle: float) -> float:
    return angle - 2 * math.pi * math.floor((angle + math.pi) / (2 * math.pi))


def run(text: str, names: dict[str, Any]) -> dict[str, Any]:
    """What emitted lines give when plain Python runs them."""
    own = {"wrap": python_wrap, "sign": lambda v: math.copysign(1.0, v) if v else 0.0}
    scope = {**vars(math), **own, **names}
    exec("from __future__ import annotations\n" + dedent(text), scope)  # noqa: S102
    return scope


def value(expression: Any, **names: float) -> float:
    block = Block(None)
    block.store("out", block.evaluate([expression]))
    out = [0.0]
    run(str(block), {"out": out, **{f"{name}_": number for name, number in names.items()}})
    return out[0]


def text_of(expression: Any) -> str:
    block = Block(None)
    block.evaluate([expression])
    return str(block)


@pytest.mark.parametrize(
    ("power", "text"),
    [
        (x**2, "x_*x_"),
        (x**3, "x_*x_*x_"),
        (x ** Rational(3, 2), "x_*sqrt(x_)"),
        (1 / x, "1.0/(x_)"),
        (x**-2, "1.0/(x_*x_)"),
        (x ** Rational(-1, 2), "1.0/(sqrt(x_))"),
        (sqrt(x), "sqrt(x_)"),
        ((x + y) ** 2, "(x_ + y_)*(x_ + y_)"),
    ],
)
def test_powers_are_printed_as_products(power: Any, text: str) -> None:
    printed = re.sub(r"(?<!sqrt)\((x_)\)", r"\1", text_of(power))  # the printer's spare parentheses
    assert text in printed
    assert "**" not in printed


EXPRESSIONS = [
    sin(x) + cos(y) - tan(x),
    asin(x / 3) + acos(y / 3) + atan(x),
    atan2(x, y) + atan2(-y, x),
    exp(-x) * log(y) + sinh(x) + cosh(y) - tanh(x),
    Abs(x - y) + sign(x - y) + Abs(y),
    Max(x, y, 1) - Min(x, y),
    -(x**3) / 3 + Rational(-2, 7) * y / x**2,
    (x - y) / (x + y) ** 2 - x ** Rational(5, 2) / y ** Rational(1, 2),
    x**y + y**-1.5 + x**0.25,
    sympy.pi * x - sympy.E * y,
    x - (y - (x - 1)) - -x,
    -((x + y) ** 2) / -(x - 3),
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_emitted_text_has_the_value_of_the_expression(expression: Any) -> None:
    for first, second in ((0.7, 1.3), (1.9, 0.4)):
        expected = float(expression.subs({x: first, y: second}))
        assert value(expression, x=first, y=second) == pytest.approx(expected, rel=1e-14)  # a few roundings


@pytest.mark.parametrize("angle", [-10.0, -math.pi, -3.0, 0.0, 3.0, math.pi, 7.0])
def test_wrap_brings_an_angle_to_the_half_open_turn(angle: float) -> None:
    wrapped = value(wrap(x), x=angle)
    assert -math.pi <= wrapped < math.pi
    assert math.cos(wrapped) == pytest.approx(math.cos(angle), abs=1e-15)
    assert math.sin(wrapped) == pytest.approx(math.sin(angle), abs=1e-15)


def test_a_root_that_is_left_as_it_stands_is_a_square_root() -> None:
    assert text_of(root(x)) == text_of(sympy.sqrt(x))
    assert value(root(1 / x), x=0.7) == value(sympy.sqrt(1 / x), x=0.7)
    assert value(sympy.diff(root(3 * x), x), x=0.7) == pytest.approx(3 / (2 * math.sqrt(2.1)), rel=1e-15)


REFUSED = [sympy.diff(sign(x), x), sympy.diff(Max(x, y), x), sympy.Function("f")(x), sympy.cot(x), sympy.sinc(x)]
PRINTED_BY_SYMPY = [sympy.gamma(x), sympy.erf(x), sympy.asinh(x), sympy.acosh(x), sympy.atanh(x), sympy.ceiling(x)]


@pytest.mark.parametrize("expression", [*REFUSED, *PRINTED_BY_SYMPY], ids=str)
def test_a_function_without_text_is_refused_with_the_choices(expression: Any) -> None:
    with pytest.raises(ModelError, match="cannot be compiled") as caught:
        text_of(expression)
    assert "use Abs, Max, Min, acos, asin, atan, atan2, cos" in str(caught.value)


def test_a_subexpression_is_computed_once() -> None:
    block = Block(None)
    block.evaluate([sin(x) + y, sin(x) * y, sin(x) ** 2])
    assert str(block).count("sin(") == 1


def test_long_sums_are_broken_into_lines_in_their_order() -> None:
    many = sympy.symbols("z0:450", real=True)
    numbers = {f"z{i}": math.sin(i) / 3 for i in range(450)}
    total = sympy.Add(*((-1) ** i * (i + 1) * each for i, each in enumerate(many)))
    text = text_of(y * total + sin(total))
    assert max(line.count("z") for line in text.splitlines()) <= LONGEST_SUM
    expected = sum((-1) ** i * (i + 1) * number for i, number in enumerate(numbers.values()))
    assert value(y * total, y=0.5, **numbers) == pytest.approx(0.5 * expected, rel=1e-13)


def test_constants_are_hoisted_with_their_value() -> None:
    expressions = [m * k * sin(x) + sqrt(m + k), (m - k) * x**2 - m * k, -m * k * y, x + y, 3 * m]
    constants = Constants([m, k])
    block = Block(constants)
    block.store("out", block.evaluate(expressions))
    numbers = {x: 0.7, y: -1.3, m: 2.0, k: 0.3}
    scope = run(constants.source(), {})
    c, out = np.zeros(scope["n_constants"]), np.zeros(5)
    scope["constants"]([2.0, 0.3], c)
    run(str(block), {"c": c, "out": out, "x_": 0.7, "y_": -1.3})
    assert_allclose(out, [float(each.subs(numbers)) for each in expressions], rtol=1e-14)


def symmetric_with_zeros(n: int, rng: np.random.Generator) -> Any:
    """A symmetric positive definite matrix; about half of what is off its diagonal is exactly zero."""
    A = np.tril(rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.5), -1)
    A += A.T
    return A + np.diag(np.abs(A).sum(axis=1) + rng.uniform(0.1, 1.0, size=n))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_the_emitted_solve_is_that_of_numpy(n: int, rng: np.random.Generator) -> None:
    for _ in range(20):
        M, right = symmetric_with_zeros(n, rng), rng.normal(size=(2, n)) * (rng.random((2, n)) < 0.7)
        block = Block(None)
        texts = [[f"M[{i}, {j}]" if M[i, j] else "0.0" for j in range(n)] for i in range(n)]
        columns = [[f"b[{c}, {i}]" if b else "0.0" for i, b in enumerate(column)] for c, column in enumerate(right)]
        solution = solve_spd(block, texts, columns)
        for c, column in enumerate(solution):
            block.store(f"out[{c}]", column)
        out = np.zeros((2, n))
        run(str(block), {"M": M, "b": right, "out": out})
        assert_allclose(out.T, np.linalg.solve(M, right.T), rtol=0, atol=1e-12)  # condition up to 100


@pytest.mark.soak
def test_operations_of_a_chain_grow_as_its_joints_and_those_of_its_mass_matrix_as_their_square() -> None:
    inertial = {"mass": 2, "centre": (0.1, 0.2, 0.1), "inertia": np.diag([0.3, 0.3, 0.4])}
    counts = {}
    for n in (6, 9, 12, 18):
        angles = [coordinate(f"q{i}", "angle", "rad") for i in range(n)]
        links = [
            link(
                f"{i}", f"{i - 1}" if i else "", position=(0.1, 0, 0.3), joints=[hinge(q, np.eye(3)[i % 3])], **inertial
            )
            for i, q in enumerate(angles)
        ]
        program = tree(links).recursion
        counts[n] = [_operations(each) for each in (program.bias, [program.kinetic], [*program.mass_matrix])]
    (h, T, _), (h_more, T_more, _) = np.subtract(counts[12], counts[6]), np.subtract(counts[18], counts[12])
    assert h_more == pytest.approx(h, rel=0.03)
    assert T_more == pytest.approx(T, rel=0.03)
    assert counts[18][2] < 4.2 * counts[9][2]


def _operations(expressions: list[Any]) -> int:
    block = Block(None)
    block.evaluate(expressions)
    return sum(map(str(block).count, "+-*/"))


def test_a_function_in_definitions_is_computed_once_and_long_sums_in_them_are_broken() -> None:
    many = sympy.symbols("z0:250", real=True)
    whole = named(sympy.Add(*(sin(x) * each for each in many)))
    block = Block(None)
    block.evaluate([named(sin(x) + y), named(whole * cos(x)) + sin(x)])
    assert str(block).count("sin(") == 1
    assert max(line.count("z") for line in block.lines) <= LONGEST_SUM
