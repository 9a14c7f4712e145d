"""Expressions: the grammar, its values, its refusals, and that no text can run code."""

import math
import pickle
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import example, given
from hypothesis import strategies as st

from servonode.mechanics.expression import FUNCTIONS, Expression, ExpressionError, parse
from servonode.mechanics.expression_text import text_of


def refusal(text: object, *names: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse(text, names or ("t",))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return caught.value


TEXTS = (
    "6*sin(0.05*t) - sin(0.3*t) + 2", "-t**2", "2*-t", "t**-2", "t**(1/3)", "+t - -t", "2 - 3 - t", "12/t/2",
    "2**3**2*t", "atan2(t, -1)", "min(t, 2, 3) + max(t, 2)", "abs(-t)*tanh(t)*exp(-t)*tan(t)*sqrt(t)",
    "  cos(pi)*t\n + 1 ", "1e-3*t + .5 + 2.",
)  # fmt: skip


def random_text(rng: random.Random, depth: int) -> str:
    """An expression of t and x that is defined everywhere and stays moderate."""
    if depth == 0:
        return rng.choice(["t", "x", "pi", "2", "0.3", "1.25e-1", "7"])
    a, b = random_text(rng, depth - 1), random_text(rng, depth - 1)
    forms = ["{a} + {b}", "({a}) - ({b})", "({a})*({b})", "({a})/(1 + ({b})**2)", "-({a})", "sin({a})"]
    forms += ["cos({a})", "tanh({a})", "sqrt(1 + ({a})**2)", "(2 + sin({a}))**1.5", "exp(-({a})**2)", "abs({a})"]
    forms += ["min({a}, {b})", "max({a}, {b}, 1)", "atan2({a}, 2 + cos({b}))", "tan(sin({a})/2)"]
    return rng.choice(forms).format(a=a, b=b)


@pytest.mark.parametrize("text", [*TEXTS, *(random_text(random.Random(seed), 4) for seed in range(60))])
def test_an_expression_has_the_value_of_plain_python_math(text: str) -> None:
    rng, environment = random.Random(len(text)), {"__builtins__": {}, "pi": math.pi, **FUNCTIONS}
    t, x = sympy.symbols("t x", real=True)
    compiled = sympy.lambdify((t, x), parse(text, ("t", "x")).sympy({"t": t, "x": x}), "math")
    for _ in range(5):
        values = {"t": rng.uniform(0.1 if text in TEXTS else -2, 2), "x": rng.uniform(-2, 2)}
        expected = eval(f"({text})", environment, values)  # noqa: S307 -- the test's own text
        assert compiled(**values) == pytest.approx(expected, rel=1e-9, abs=1e-9)  # cancellation


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_survives_the_way_through_sympy_and_its_code_printer(value: float) -> None:
    tree = parse(value).sympy({})
    assert float(tree) == value
    assert float(eval(sympy.pycode(tree), {"__builtins__": {}})) == value  # noqa: S307 -- a printed number


def test_integers_and_fractions_of_them_stay_exact() -> None:
    t = sympy.Symbol("t", real=True)
    assert parse("t**2.0/3").sympy({"t": t}) == t**2 / 3
    assert parse("t**0.5").sympy({"t": t}) == sympy.sqrt(t)


def test_constant_functions_enter_as_the_doubles_of_plain_python() -> None:
    assert float(parse("sin(pi)").sympy({})) == math.sin(math.pi)
    assert parse("cos(pi) + sqrt(9)").sympy({}) == sympy.Integer(2)
    t = sympy.Symbol("t", real=True)
    assert parse("min(atan2(tan(tan(7)), -exp(7)), t)").sympy({"t": t}).has(t)  # sympy cannot order it exactly


def test_a_constant_expression_has_a_value_and_others_have_none() -> None:
    assert parse("2*pi/3 + abs(-1)").constant() == 2 * math.pi / 3 + 1
    assert parse(-2).constant() == -2.0
    assert parse(1e-5).constant() == 1e-5
    assert parse("t - t").constant() is None


def test_only_kinks_that_move_limit_the_derivatives() -> None:
    parse("1 + abs(t)").require_derivatives(0, "target x")
    for text in ("sin(t)", "sin(t)**3 + exp(t)/(1 + t**2)", "abs(-2)*t + max(1, 2)", "sqrt(1 + t**2)", "sqrt(4)*t"):
        parse(text).require_derivatives(4, "target x")
    for text in ("abs(t)", "abs(t)**2", "1 + min(t, 0)", "sqrt(t**2)", "sqrt(4*t*t)", "(t**2)**0.5"):
        with pytest.raises(ExpressionError, match="has no derivative"):
            parse(text).require_derivatives(1, "target x")


def test_words_of_python_are_names_where_they_are_stated() -> None:
    words = ("lambda", "from", "in", "if", "None", "True")
    found = parse("2*lambda - from + t*in/None**2 + sin(if)*True", (*words, "t"))
    values = dict(zip((*words, "t"), (2.0, 3.0, 5.0, 0.7, 4.0, 1.5, 6.0), strict=True))
    assert found.names == values.keys()
    symbols = {name: sympy.Symbol(name, real=True) for name in values}
    value = found.sympy(symbols).xreplace({symbols[name]: sympy.Float(number) for name, number in values.items()})
    assert float(value) == pytest.approx(4.0 - 3.0 + 6.0 * 5.0 / 16.0 + math.sin(0.7) * 1.5, rel=1e-15)
    assert refusal("  lambda*from + speed", *words).position == 16


def test_an_expression_of_sympy_keeps_every_digit_as_a_text() -> None:
    q, rate = sympy.symbols("q q_dot", real=True)
    stated = rate - q / 3.0 + sympy.sin(q) ** -0.1 + sympy.sqrt(q) * sympy.Max(q, -1e-30) - abs(q)
    found = parse(text_of(stated), ("q", "q_dot")).sympy({"q": q, "q_dot": rate})
    assert {float(each) for each in found.atoms(sympy.Float)} == {float(each) for each in stated.atoms(sympy.Float)}
    assert float((found - stated).evalf(subs={q: 0.3, rate: 2.0})) == pytest.approx(0.0, abs=1e-15)
    assert parse(text_of(q * sympy.E), ("q", "E")).names == {"q"}


def test_an_error_carries_its_text_and_position_and_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(refusal("  1 + foo*t")))
    assert (error.text, error.position) == ("  1 + foo*t", 6)
    assert "foo" in str(error)


def test_towers_of_powers_cost_no_memory() -> None:
    exact = parse("((((1000001/1000000)**64)**64)**64)").sympy({})
    assert float(exact) == pytest.approx((1000001 / 1000000) ** 262144)


_ATTACKS = r"""
__import__('os').system('echo hacked')   __import__   __builtins__   __class__   __debug__   t.__class__
t.real   1 .real   1..real   ().__class__   sin.__self__   sin(t).__class__   eval(t)   exec(t)   open(t)
print(t)   getattr(t, t)   breakpoint()   globals()   math.sin(t)   sys.exit()   sin.t(t)   os   nan   inf   I
lambda: 1   lambda   (lambda t)   [t for t in t]   (t for t in t)   {t}   {t: t}   [t]   t[0]   t[0:1]   ()
f'{t}'   'a'   "a"   b'a'   r'a'   'a' 'b'   (t := 1)   t = 1   t == 1   t < 1   t != 1   t if t else t
t and t   t or t   not t   ~t   t in t   t is t   t % 2   t // 2   t << 1   t & 1   t | t   t @ t   t, t
sin(*t)   sin(**t)   max(*t, t)   sin(x=t)   max(t, t, key=t)   sin(t)(t)   sin(sin)   (sin)(sin(t))(t)   2(t)
(t)(t)   sin()   await t   yield t   (yield)   import os   t; t   t # c   t\   t!   t?   $t   `t`   True
None
Ellipsis   ...   1j   1J   _   __   e   E   oo   zoo   del t   pass   return t   assert t   t t   async t
"""
ATTACKS = _ATTACKS.strip().replace("\n", "   ").split("   ")


@pytest.mark.parametrize("text", ATTACKS)
def test_nothing_outside_the_grammar_is_accepted(text: str) -> None:
    refusal(text)


@pytest.mark.parametrize(
    "text", ["ｓｉｎ(t)", "𝐬𝐢𝐧(t)", "ｔ", "２*t", "＿＿import＿＿(t)", "π*t", "t²", "t−1", "a\u0301", "t\u00a0\u200b"]
)
def test_look_alikes_outside_ascii_are_refused(text: str) -> None:
    assert "unexpected character" in str(refusal(text))


def test_reading_hostile_texts_executes_imports_and_opens_nothing() -> None:
    code = """
import sys
from servonode.mechanics.expression import ExpressionError, parse
seen = set()
def read(text):
    try:
        parse(text)
    except ExpressionError:
        pass
texts = sys.argv[1:]
read("foo")  # loads what the standard library loads late
sys.addaudithook(lambda event, args: seen.add(event))
for text in texts:
    read(text)
sys.exit(str(seen) if seen - {"compile"} else 0)
"""
    done = subprocess.run([sys.executable, "-c", code, *ATTACKS], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_even_a_permitted_name_cannot_reach_an_attribute_or_a_call() -> None:
    for text in ("os.system(t)", "os(t)", "os[0]", "os.path"):
        refusal(text, "os", "t")


def test_parsing_and_values_import_no_sympy() -> None:
    code = (
        "import sys; from servonode.mechanics.expression import parse; e = parse('6*sin(t) + 1/3');"
        "e.constant(); e.require_derivatives(2, 'x'); sys.exit('sympy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


WORDS = ["t", "pi", "sin", "max", "atan2", "abs", "sqrt", "exp", "(", ")", ",", "+", "-", "*", "/", "**", " ", "2"]
WORDS += ["0", "0.5", "1e3", "64", ".", "lambda", "if", "else", "for", "in", "not", "_", "e", "j", "\n", "^", "[", ":"]


@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS), max_size=30).map("".join), st.floats(), st.integers()))
@example("1if t else 2")
@example("0or t")
@example("\x00")
@example("\ud800")
@example("t\\\n+1")
def test_random_text_gives_an_expression_or_an_expression_error(text: str | float) -> None:
    try:
        expression = parse(text)
    except ExpressionError as error:
        assert str(error).isprintable()  # noqa: PT017 -- either outcome is right
        return
    assert isinstance(expression, Expression)
    assert expression.names <= {"t"}
    assert (expression.constant() is None) == ("t" in expression.names)


a, b, clock = sympy.symbols("a b t", real=True)
STATED = (
    a - 0.8 * sympy.sin(2 * clock), sympy.Rational(1, 3) * a**2 - b / 7, sympy.Rational(0.1) * a, -0.5 * a + 1e-5 * b,
    a ** sympy.Rational(-2, 3), 1 / (a * b) ** 2, sympy.Abs(b - a) + sympy.Max(a, b, 0), sympy.atan(a) + sympy.cot(b),
    sympy.asin(a / 9) - sympy.acos(b / 9), sympy.sinh(a) * sympy.cosh(b), sympy.sec(a) / sympy.csc(b), sympy.E**a,
    sympy.pi * a - sympy.sqrt(2), (a - b) * -1.5, -(a**2) / -3.0, a ** (-0.5), sympy.Eq(a, b),
    sympy.Float("0.1", 40) * a,
)  # fmt: skip


@pytest.mark.parametrize("stated", STATED, ids=str)
def test_a_text_of_sympy_has_the_value_of_the_expression(stated: Any) -> None:
    text = text_of(stated)
    assert isinstance(text, str)
    found = parse(text, ("a", "b", "t")).sympy({"a": a, "b": b, "t": clock})
    point = {a: 0.7, b: 1.3, clock: 0.4}
    wanted = stated.lhs - stated.rhs if isinstance(stated, sympy.Eq) else stated
    assert float(found.evalf(30, subs=point)) == pytest.approx(float(wanted.evalf(30, subs=point)), rel=1e-15)


def test_functions_of_t_and_their_derivatives_are_names_and_numbers_stay_numbers() -> None:
    q, w = sympy.Symbol("q"), sympy.Function("w")
    assert text_of(sympy.Derivative(q, clock) + w(clock).diff(clock) - w(clock)) == "-w + q_dot + w_dot"
    assert [text_of(each) for each in (sympy.pi / 2, sympy.Integer(3), sympy.Rational(1, 4))] == [np.pi / 2, 3, 0.25]


@pytest.mark.parametrize("stated", [
    sympy.Piecewise((a, a > 0), (0, True)), sympy.log(a), sympy.floor(a), sympy.Function("f")(a), sympy.Matrix([a]),
    sympy.Derivative(sympy.sin(a), clock), sympy.Derivative(a, b), sympy.oo * a, sympy.nan, sympy.Float("1e500") * a,
    sympy.GoldenRatio * a, sympy.Symbol("a; b"), sympy.Symbol("") + 1, sympy.I,
], ids=str)  # fmt: skip
def test_what_the_grammar_cannot_say_is_refused_in_one_line(stated: Any) -> None:
    with pytest.raises(ExpressionError, match="; ") as caught:
        text_of(stated)
    assert "\n" not in str(caught.value)
