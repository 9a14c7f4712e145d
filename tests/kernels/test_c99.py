"""Kernels as C: the bits of the compiled kernel, the values of Python, no warning, names that C allows."""

import ctypes
import math
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from servonode.kernels.build import built
from servonode.kernels.c99 import TranslationError, c_number, comment, function_names, translate
from servonode.kernels.language import parse
from servonode.kernels.library import library_text
from servonode.kernels.native import Kernel
from servonode.mechanics.computed import TREE_SIZES
from servonode.mechanics.emit import HEADER
from servonode.mechanics.linear_solve import solves

WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wvla", "-Wshadow"]
C_TYPES = {"double": ctypes.c_double, "int": ctypes.c_int, "long long": ctypes.c_longlong, "void": None}
SCOPE = {"empty": np.empty, **{name: getattr(math, name) for name in dir(math)}}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Prints a function of a kernel, compiles it without a warning, and gives the C function."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the command cc is not found")

    def build(text: str, entry: str, text_of: Any = None) -> Any:
        folder = tmp_path_factory.mktemp("c")
        printed = translate(parse(text, text_of), entry)
        head, _, tail = f"\n{printed.text}".rpartition("\nstatic ")  # a library needs a function that is not static
        (folder / "f.c").write_text(f"#include <math.h>\n{head}\n{tail}")
        flags = [*WARNINGS, "-O2", "-ffp-contract=off", "-fPIC", "-shared"]
        done = subprocess.run(
            [compiler, *flags, "f.c", "-o", "f.so", "-lm"], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stderr}\n{printed.text}"
        function = getattr(ctypes.CDLL(str(folder / "f.so")), printed.name)
        function.restype = next(kind for word, kind in C_TYPES.items() if tail.startswith(f"{word} {printed.name}("))
        return lambda *arguments: function(*map(_as_c, arguments))

    return build


def _as_c(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return argument.ctypes.data_as(ctypes.c_void_p)
    return ctypes.c_double(argument) if isinstance(argument, float) else ctypes.c_longlong(argument)


def by_llvm(text: str) -> Any:
    """The compiled kernel of a text."""
    return Kernel("test", text, *built(text, {}.__getitem__))


def in_python(text: str, entry: str) -> Any:
    """The same function, run by plain Python."""
    scope: dict[str, Any] = dict(SCOPE)
    exec(f"from __future__ import annotations\n{text}", scope)  # noqa: S102
    return scope[entry]


def assert_same_bits(ours: Any, wanted: Any, said: Any = "") -> None:
    same = (ours.view(np.int64) == wanted.view(np.int64)) | (np.isnan(ours) & np.isnan(wanted))
    assert same.all(), (said, ours, wanted)


EVERY_FUNCTION = f"""{HEADER}
def f(x: f64[2], out: f64[10]):
    a = x[0]
    b = x[1]
    out[0] = acos(a) + asin(b) - atan(a)*atan2(b, a)
    out[1] = cos(a)/cosh(b) - exp(-a)
    out[2] = fabs(a - b) - floor(3.0*a) + rint(4.0*b)
    out[3] = log(fabs(a) + 0.1) + sin(b)*sinh(a)
    out[4] = sqrt(fabs(b)) - tan(a) - tanh(b)
    out[5] = min(a, b, 0.25) - max(a, b, -0.25)
    out[6] = wrap(9.0*a) + sign(b)
    out[7] = (fabs(a))**(b) - -a*b
    out[8] = a if a > b and not (b > 0.5) or isfinite(a) and a < -0.5 else a - (b - (a - 1.0)) - 2.0*(a*b)/(a/b)
    out[9] = max(b, a) if not (a >= b or a != a) and (a <= 0.5 or b == 0.25) else min(b, a)
"""


def test_every_function_and_operator_has_the_bits_of_the_kernel(compiled: Any, rng: np.random.Generator) -> None:
    ours, theirs = compiled(EVERY_FUNCTION, "f"), by_llvm(EVERY_FUNCTION).f
    points = [*rng.uniform(-0.999, 0.999, size=(500, 2)), np.zeros(2), np.array([-0.0, 0.0]), np.array([0.3, np.nan])]
    for point in points:
        wanted, out = np.zeros(10), np.zeros(10)
        theirs(point, wanted)
        ours(point, out)
        assert_same_bits(out, wanted, point)


def _expression(rng: np.random.Generator, depth: int) -> str:
    """A random expression of x[0] to x[3]."""
    if not depth:
        return str(rng.choice(["x[0]", "x[1]", "x[2]", "x[3]", "0.3", "-0.7", "i", "2"]))
    a, b = _expression(rng, depth - 1), _expression(rng, int(rng.integers(depth)))
    c, d = _expression(rng, int(rng.integers(depth))), _expression(rng, int(rng.integers(depth)))
    return str(rng.choice([
        f"({a} + {b})", f"({b} - {a})", f"{a} - {b}", f"{b}*({a})", f"({a})/({b})", f"-({a})", f"(-({a}))*({b})",
        f"({a} if {b} < 0.5*({c}) and not {c} >= 0.1 + {d} else {d})",
        f"(({a}) if ({b} > 0.5*({c}) or {d} < 0.1 - {c}) and {a} != 2.0*({b}) else {d})",
        f"min({a}, {b})", f"(max({a}, {b}) - {c})", f"fabs({a})**({b} + x[0])",
    ]))  # fmt: skip


def test_random_expressions_have_the_bits_of_the_kernel(compiled: Any, rng: np.random.Generator) -> None:
    lines = [f"    out[{k}] = 0.5 + {_expression(rng, 4)}" for k in range(60)]
    text = "\n".join(["def f(i: i64, x: f64[4], out: f64[60]):", *lines]) + "\n"
    ours, theirs = compiled(text, "f"), by_llvm(text).f
    for x in rng.normal(size=(50, 4)):
        wanted, out = np.zeros(60), np.zeros(60)
        theirs(3, x, wanted)
        ours(3, x, out)
        assert_same_bits(out, wanted, x)


LOCALS = """def f(x: f64[6], double: f64, gamma: f64, y1: f64, größe: f64, never: f64) -> f64:
    _hidden = double + gamma
    φ = größe
    f_ = φ
    total = 0.0
    unused = x[1]*total
    best = total
    for i in range(1, 6, 2):
        if x[i] > 0.0:
            best = x[i]
        elif x[i] < -1.0:
            best = -1.0
        else:
            best = _hidden
        for j in range(i, -1, -1):
            part = best*x[j]
            total += part
            total -= y1 + f_
    x[0], x[1] = x[1], x[0]
    total += best
    return total
"""


LOOPS = """def f(n: i64, x: f64[8]) -> f64:
    total = 0.0
    m = n
    i = 7
    for i in range(m):
        m = 2
        total += x[i]
    total += i
    for i in range(2):
        for i in range(i, 5):
            total = total*0.5 + i
        total -= i
    while m < 6 and total > -1e3:
        k = m
        if k > 3:
            total += x[k]
            m += 2
        else:
            m += 1
    kept = 0.5
    for j in range(7, n, -2):
        last = x[j]
        if last > 0.0:
            kept = last
        elif j == 7:
            kept = 0.25
        total += kept
    return total
"""


WHOLE = """def f(a: i64, b: i64, large: i64) -> i64:
    count = 0
    for i in range(a, a + 3):
        count += i // b - i % b + min(a, b, 7) - max(a, -b)
    return count + large * 3000000000 - (7 - 10) // 2 if a != 0 else -count
"""


CALLS = """def pair(a: f64, x: f64[2]) -> f64[2]:
    return (a*x[0], a - x[1])


def second(x: f64[2]) -> f64:
    return x[1]


def turned(x: f64[2]) -> f64[2]:
    return (second(x), -x[0])


def fill(M: f64[2, 2], a: f64):
    for i in range(2):
        for j in range(2):
            M[i, j] = M[i, j] + a


def sums(rows: f64[:, 2], row: f64[2]) -> f64:
    return rows[0, 0] + rows[1, 1] - row[0] + len(row)


def f(a: f64, x: f64[2], K: f64[3, 2, 2]) -> f64:
    k0 = pair(a, x)
    k1 = pair(k0[1], x)
    k1 = turned(k1)
    M = empty((2, 2))
    for i in range(2):
        for j in range(2):
            M[i, j] = K[2, i, j]
    fill(M, k1[0])
    return M[1, 0]*k0[0] + K[0, 1, 1] - sums(M, M[1]) + k1[1]
"""


EXPRESSIONS = """def f(a: f64, b: f64, k: i64, x: f64[3], out: f64[12]):
    out[0] = a + b*k - -a/b
    out[1] = (a - b)*(a + b)
    out[2] = min(a, b, x[0])
    out[3] = max(a, b, x[0])
    out[4] = a if a > b and not k == 2 or b < 0.0 else b
    out[5] = k*k / 7
    out[6] = x[k] if 0 <= k and k < 3 else -1.0
    out[7] = k // 3 + k % 3 + (0 - k) // 3 + (0 - k) % 3
    out[8] = fabs(a)**b
    out[9] = atan2(a, b)
    out[10] = 1.0 if isfinite(a/b) else 0.0
    n = 0
    total = 0.0
    while n < k:
        n += 1
        total += a*n
    out[11] = total
"""


PROGRAMS: dict[str, tuple[str, str, Callable[[np.random.Generator], list[Any]]]] = {  # text, function, arguments
    "pivots": (solves("solve_4(")[0], "solve_4", lambda rng: [rng.normal(size=(4, 4)), rng.normal(size=4)]),
    "blocks": (LOCALS, "f", lambda rng: [rng.normal(size=6), *map(float, rng.normal(size=5))]),
    "loops": (LOOPS, "f", lambda rng: [int(rng.integers(0, 7)), rng.normal(size=8)]),
    "whole numbers": (
        WHOLE,
        "f",
        lambda rng: [int(rng.integers(-9, 9)), int(rng.choice([-4, -3, -1, 1, 2, 5])), 10**9],
    ),
    "expressions": (
        EXPRESSIONS,
        "f",
        lambda rng: [*map(float, rng.normal(size=2)), int(rng.integers(0, 7)), rng.normal(size=3), np.zeros(12)],
    ),
    "calls": (CALLS, "f", lambda rng: [0.7, rng.normal(size=2), rng.normal(size=(3, 2, 2))]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_bits_of_python_by_llvm_and_in_c(compiled: Any, name: str, rng: np.random.Generator) -> None:
    text, entry, draw = PROGRAMS[name]
    theirs = in_python(text, entry)
    for ours in (compiled(text, entry), getattr(by_llvm(text.replace("größe", "size")), entry)):  # names are ASCII
        for _ in range(100):
            given = draw(rng)
            same = [each.copy() if isinstance(each, np.ndarray) else each for each in given]
            assert ours(*given) == theirs(*same)
            for found, expected in zip(given, same, strict=True):
                if isinstance(found, np.ndarray):
                    assert_same_bits(found, expected, name)


def test_the_pivoted_solve_swaps_rows_and_tells_of_a_singular_matrix(compiled: Any) -> None:
    text, entry, _ = PROGRAMS["pivots"]
    for ours in (compiled(text, entry), getattr(by_llvm(text), entry), in_python(text, entry)):
        y = np.array([1.0, 2.0, 3.0, 4.0])
        assert ours(np.zeros((4, 4)), y.copy()) == 0
        assert ours(np.eye(4)[::-1].copy(), y) == 1
        assert y.tolist() == [4.0, 3.0, 2.0, 1.0]


def test_names_and_declarations_are_those_of_c() -> None:
    text = translate(parse(LOCALS), "f").text
    assert "unused" not in text
    assert "double double_" in text
    assert "(void)never;" in text
    assert text.isascii()
    pivots = translate(parse(PROGRAMS["pivots"][0]), "solve_4").text
    assert "for (int k = j + 1; k < 4; k++) {" in pivots
    assert "const double factor = " in pivots
    printed = translate(parse(CALLS), "f", {"fill": "plant_fill"})
    text = printed.text
    assert "static void plant_fill(double M[4], double a)" in text
    assert "const double K[12]" in text
    assert text.index("pair(double") < text.index("plant_fill(double") < text.index(" f(double")
    assert (printed.name, printed.writes) == ("f", frozenset())
    assert translate(parse(CALLS), "fill").writes == {"M"}


def test_functions_of_one_name_from_two_modules_are_two(compiled: Any) -> None:
    texts = {
        "first": "def rhs(a: f64) -> f64:\n    return a + 1.0\n",
        "second": "from first import rhs\n\n\ndef step(a: f64) -> f64:\n    return 2.0*rhs(a)\n",
    }
    text = (
        "from second import step as other\nfrom first import rhs as own\n\n\n"
        "def rhs(a: f64) -> f64:\n    return own(a) - 3.0\n\n\n"
        "def unused(a: f64) -> f64:\n    return a\n\n\n"
        "def register(rhs: f64) -> f64:\n    return other(rhs) + own(rhs)\n\n\n"
        "def f(a: f64) -> f64:\n    return register(a)*rhs(a)\n"
    )
    assert compiled(text, "f", texts.__getitem__)(0.5) == ((2 * 1.5) + 1.5) * (1.5 - 3)
    module = parse(text, texts.__getitem__)
    assert "unused" not in translate(module, "f").text
    assert {"rhs", "step", "register", "f", "min", "max"} <= function_names(module)


WRITES = """def put(x: f64[2]) -> f64:
    x[0] += 1.0
    return x[0]


def f(x: f64[2], a: f64) -> f64:
    {}
    return a
"""


@pytest.mark.parametrize(
    "line",
    [
        "a = put(x)",
        "x[1] = put(x)",
        "put(x)",
        "b = 1.0 + put(x)",
        "a = 2.0*(a - put(x))",
        "b = put(x) if a > 0.0 else 0.0; b = put(x)",
    ],
)
def test_a_call_that_writes_comes_where_it_stands(compiled: Any, line: str) -> None:
    text = WRITES.format(line)
    x, same = np.array([0.25, 3.0]), np.array([0.25, 3.0])
    assert compiled(text, "f")(x, 0.5) == in_python(text, "f")(same, 0.5)
    np.testing.assert_array_equal(x, same)


@pytest.mark.parametrize(
    "line", ["a = x[0] - put(x)", "a = put(x) - put(x)", "x[1] = x[0] + put(x)", "a = max(x[0], put(x))"]
)
def test_a_call_that_writes_beside_what_may_read_is_refused(line: str) -> None:
    with pytest.raises(TranslationError, match=r"f calls put, which writes to an array.*local variable first"):
        translate(parse(WRITES.format(line)), "f")


def test_a_missing_function_is_named() -> None:
    with pytest.raises(TranslationError, match="no function step_rk9; choose wrap, sign"):
        translate(parse(HEADER), "step_rk9")


def test_what_threads_share_is_refused() -> None:
    text = "def f(counts: i64[2]) -> i64:\n    return add_shared(counts[0], 1)\n"
    with pytest.raises(TranslationError, match="threads share entries of counts, which C99 cannot"):
        translate(parse(text), "f")


def test_a_docstring_and_the_shapes_of_arrays_are_a_comment() -> None:
    text = 'def f(M: f64[2, 3]) -> f64:\n    """The first */\n\n    entry."""\n    return M[0, 0]\n'
    assert translate(parse(text), "f").text.startswith("/* The first * / entry; M is 2 x 3, row by row. */\n")
    assert comment("a */ b /* c ??/ d") == "a * / b / * c ? ?/ d"


def test_no_line_is_too_long() -> None:
    text = f"def f(x: f64[9]) -> f64:\n    return {' + '.join(f'x[{i % 9}]*x[{i % 7}]' for i in range(60))}\n"
    assert max(map(len, translate(parse(text), "f").text.splitlines())) <= 120


@pytest.mark.parametrize("value", [0.1, 1e16, 5e-324, -0.0, 1.7976931348623157e308, 3.0, 2 / 3])
def test_a_number_in_c_is_a_double_with_all_its_digits(value: float) -> None:
    text = c_number(value)
    assert "." in text or "e" in text
    assert math.copysign(1.0, float(text)) == math.copysign(1.0, value)
    assert float(text) == value


def test_a_tree_of_bodies_has_the_bits_of_the_compiled_one(
    compiled: Callable[..., Any], rng: np.random.Generator
) -> None:
    given = "def parent(k: i64) -> i64:\n    return k - 1\n\n\ndef first(k: i64) -> i64:\n    return k - 1\n\n\n"
    text = given + library_text("tree", {}, TREE_SIZES | {"n_nodes": 4, "n_two": 8, "n_nine": 36, "n_motions": 3})
    places, constants = rng.normal(size=(4, 12)), rng.uniform(0.1, 1, 3 + 40 + 21)
    found = np.zeros((2, 3))
    for run, out in zip((compiled(text, "tree_accelerations"), by_llvm(text).tree_accelerations), found, strict=True):
        run(places, np.ones(3), np.ones(3), constants, 0, out)
    assert found[0].tobytes() == found[1].tobytes()
    assert np.isfinite(found).all()
