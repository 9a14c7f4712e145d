"""The kernel language: what it computes is what Python computes, what is outside of it is refused by its line."""

import math
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from servonode.kernels.build import built
from servonode.kernels.language import KernelError, parse
from servonode.kernels.native import Kernel

MATH = ("acos", "asin", "atan", "cos", "cosh", "exp", "fabs", "floor", "log", "sin", "sinh", "sqrt", "tan", "tanh")


def compiled(text: str, others: dict[str, str] | None = None) -> Any:
    code, contents = built(text, (others or {}).__getitem__)
    return Kernel("test", text, code, contents)


@pytest.mark.parametrize("name", MATH)
def test_functions_have_the_bits_of_the_c_library(name: str, rng: np.random.Generator) -> None:
    ours = compiled(f"def f(x: f64) -> f64:\n    return {name}(x)\n")
    for value in rng.uniform(0.01, 0.99, 300):
        assert ours.f(value) == getattr(math, name)(value)


def test_rint_takes_the_even_one_of_two_whole_numbers_that_are_as_near_as_numpy_does(rng: np.random.Generator) -> None:
    ours = compiled("def f(x: f64) -> f64:\n    return rint(x)\n")
    halves = [sign * (n + 0.5) for n in (0, 1, 2, 3, 2**51) for sign in (1, -1)]
    for value in [*halves, 0.0, -0.0, -0.2, 2.0**53 + 2, math.inf, -math.inf, math.nan, *rng.normal(size=200) * 1e3]:
        assert np.float64(ours.f(value)).tobytes() == np.round(np.float64(value)).tobytes(), value
    assert [ours.f(value) for value in (0.5, 1.5, 2.5, -0.5, -1.5)] == [0.0, 2.0, 2.0, 0.0, -2.0]


@pytest.mark.parametrize("kind", ["min", "max"])
def test_extremes_take_the_first_of_equals_and_nan_as_python_does(kind: str) -> None:
    ours = compiled(f"def f(a: f64, b: f64) -> f64:\n    return {kind}(a, b)\n")
    values = [0.0, -0.0, 1.0, math.nan, math.inf, -math.inf]
    python = {"min": min, "max": max}[kind]
    for a in values:
        for b in values:
            assert np.float64(ours.f(a, b)).tobytes() == np.float64(python(a, b)).tobytes()


def test_what_is_not_chosen_is_not_evaluated() -> None:
    text = """\
def mark(x: f64[2], i: i64) -> i64:
    x[i] += 1.0
    return i

def f(x: f64[2], which: i64) -> i64:
    if which == 0 or mark(x, 0) == 0 and mark(x, 1) == 0:
        return 1
    return 0
"""
    ours = compiled(text)
    for which, marks, result in ((0, [0.0, 0.0], 1), (1, [1.0, 1.0], 0)):
        x = np.zeros(2)
        assert (ours.f(x, which), x.tolist()) == (result, marks)


def test_nothing_is_contracted_or_reordered() -> None:
    text = "def f(a: f64, b: f64, c: f64) -> f64:\n    return a*b + c\n\n"
    text += "def g(x: f64[:], n: i64) -> f64:\n    s = 0.0\n    for i in range(n):\n        s += x[i]\n    return s\n"
    ours = compiled(text)
    random.seed(1)
    for _ in range(500):
        a, b = random.random(), random.random()
        assert ours.f(a, b, -a * b) == 0.0  # a fused multiply-add gives the rounding error of a*b
    x = np.array([random.random() * 10.0 ** random.randint(-8, 8) for _ in range(1000)])
    total = 0.0
    for value in x.tolist():
        total += value
    assert ours.g(x, len(x)) == total


PART = """\
n = 3

def helper(x: f64) -> f64:
    return 2.0*x

def scale(x: f64[n]):
    for i in range(n):
        x[i] = helper(x[i])
"""


def test_what_is_taken_from_another_kernel_comes_with_what_it_calls() -> None:
    text = "from kernel_part import n, scale as other\n\ndef helper(x: f64) -> f64:\n    return x + 1.0\n\n"
    text += "def scale(x: f64[n]):\n    other(x)\n    for i in range(n):\n        x[i] = helper(x[i])\n"
    ours, x = compiled(text, {"kernel_part": PART}), np.array([1.0, 2.0, 3.0])
    ours.scale(x)
    assert x.tolist() == [3.0, 5.0, 7.0]
    assert ours.n == 3
    assert not hasattr(ours, "other")


def test_a_result_of_several_numbers_is_an_array() -> None:
    text = "def pair(a: f64) -> f64[2]:\n    return (a, 2.0*a)\n\n"
    text += "def f(a: f64) -> f64:\n    both = pair(a)\n    return both[1] - both[0]\n"
    ours, out = compiled(text), np.zeros(2)
    assert ours.f(1.5) == 1.5
    ours.pair(1.5, out)
    assert out.tolist() == [1.5, 3.0]


def test_a_kernel_leaves_the_interpreter_to_other_threads() -> None:
    text = "def f(x: f64[2], k: i64, n: i64) -> i64:\n    for i in range(n):\n        x[k] = 1.0*i\n"
    text += "        if x[1] < 0.0:\n            return i\n    return n\n"  # each time anew: k might be 1
    ours, x, most = compiled(text), np.zeros(2), 10**11
    with ThreadPoolExecutor(1) as other:
        answer = other.submit(ours.f, x, 0, most)
        while not x[0]:
            pass
        x[1] = -1.0  # while it computes, or after its end if it keeps the interpreter
        assert answer.result() < most


RECORD = """\
class Pair:
    n: i64
    x: f64[:, 2]

def first(pair: Pair) -> f64:
    return pair.x[pair.n, 0]

def f(pair: Pair, k: f64) -> f64:
    pair.x[0, 0] = k
    return first(pair)
"""


def test_a_record_stands_for_its_fields_which_are_given_by_name_or_begin_at_zero() -> None:
    ours = compiled(RECORD)
    given = ours.arguments("f", 3, k=2.5)
    assert list(given) == ["n", "x", "k"]
    assert given["x"].shape == (3, 2)
    assert ours.f(*given.values()) == given["x"][0, 0] == 2.5
    assert ours.f(*ours.arguments("f", 3, k=2.5, n=1).values()) == 0.0
    with pytest.raises(TypeError, match="kernel function f has no argument m"):
        ours.arguments("f", m=1)


@pytest.mark.parametrize(("watched", "result"), [(0, 1.0), (1, 3.0)])
def test_what_a_constant_excludes_may_call_what_is_not_there(watched: int, result: float) -> None:
    there = "def found() -> f64:\n    return 2.0\n\n" if watched else ""
    text = f"""watched = {watched}

{there}def f() -> f64:
    y = found() if watched else 0.0
    if watched and found() > 0.0:
        return y + 1.0
    elif not watched:
        return 1.0
    return y
"""
    assert compiled(text).f() == result


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("class A:\n    x: f64\n    y = 1\n", "line 3: this in a record"),
        ("class A:\n    x: f64\n\ndef f(a: A):\n    a.x = 1.0\n", "line 5: the assignment to"),
        ("class A:\n    x: f64\n\ndef g(x: f64):\n    pass\n\ndef f(a: A):\n    g(a)\n", "line 8: an argument where x"),
        ("def f(x: f64):\n    y = x +\n", "line 2: invalid syntax"),
        ("def f(x):\n    pass\n", "the argument x without a type"),
        ("def f(x: f32):\n    pass\n", "the type is outside"),
        ("def f(x: f64[m]):\n    pass\n", "the length is outside"),
        ("def f(x: f64[2]) -> f64:\n    return x[2]\n", "line 2: an index outside of 0 to 2"),
        ("def f(x: f64[2]) -> f64:\n    return x[-1]\n", "line 2: an index outside of 0 to 2"),
        ("def f(x: f64) -> i64:\n    return x\n", "line 2: a Scalar.F64 where a Scalar.I64 is wanted"),
        ("def f(x: f64):\n    y = 1\n    y = x\n", "line 3: "),
        ("def f(x: f64):\n    y = g(x)\n", "line 2: the call is outside"),
        ("def f(x: f64) -> f64:\n    return x if x else 1.0\n", "line 2: a condition that is not a comparison"),
        ("def f(x: f64) -> f64:\n    return x // 2.0\n", "line 2: // of floats"),
        ("def f(n: i64):\n    for i in range(n):\n        i = 2\n", "line 3: the assignment to"),
        ("def f(x: f64):\n    print(x)\n", "line 2: the call is outside"),
        ("def f(x: f64):\n    import os\n", "line 2: the statement is outside"),
        ("import os\n", "line 1: this is outside"),
        ("from kernel_part import nothing\n", "line 1: the import of nothing"),
        ("x = 1.5\n", "line 1: this is outside"),
        ("def f(x: f64 = 1.0):\n    pass\n", "defaults"),
        ("def f(x: f64) -> f64:\n    if x > 0.0:\n        return x\n", "f, which may end without a result,"),
        ("def f(x: f64) -> f64:\n    if x > 0.0:\n        y = x\n    return y\n", "line 4: y, which may have no value"),
        ("def f(n: i64) -> i64:\n    for i in range(n):\n        pass\n    return i\n", "line 4: i, which may have no"),
        ("def f(x: f64) -> f64:\n    y = y + x\n    return y\n", "line 2: the expression is outside"),
    ],
)
def test_what_is_outside_of_the_language_is_refused_by_its_line(text: str, problem: str) -> None:
    with pytest.raises(KernelError) as caught:
        parse(text, {"kernel_part": PART}.__getitem__)
    assert problem in str(caught.value)
