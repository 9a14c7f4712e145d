"""The translator: the same values in C as in Python, the same bits as numba, refusals of what it does not know."""

import ctypes
import math
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from servonode.export.c_text import TranslationError, c_number, comment
from servonode.export.c_translate import translate
from servonode.mechanics.emit import HEADER
from servonode.mechanics.machine_source import SOLVE_SOURCE

WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wvla", "-Wshadow"]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Translates a function, compiles it without a warning, and gives the C function."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the command cc is not found")

    def build(source: str, entry: str, result: Any = None, **shapes: tuple[int, ...]) -> Any:
        folder = tmp_path_factory.mktemp("c")
        text = translate(source, entry, shapes).text
        head, _, tail = text.rpartition(f"static {'void' if result is None else _WORDS[result]} {entry}(")
        public = f"{head}{_WORDS[result]} {entry}({tail}"  # a library needs a function that is not static
        (folder / "f.c").write_text(f"#include <math.h>\n\n{public}")
        flags = [*WARNINGS, "-O2", "-ffp-contract=off", "-fPIC", "-shared"]
        done = subprocess.run(
            [compiler, *flags, "f.c", "-o", "f.so", "-lm"], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stderr}\n{text}"
        function = getattr(ctypes.CDLL(str(folder / "f.so")), entry)
        function.restype = result
        return lambda *arguments: function(*map(_as_c, arguments))

    return build


_WORDS = {None: "void", ctypes.c_double: "double", ctypes.c_int: "int"}


def _as_c(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return argument.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    return ctypes.c_double(argument) if isinstance(argument, float) else argument


def in_python(source: str, entry: str) -> Any:
    """The same function, run by plain Python."""
    scope: dict[str, Any] = {**vars(math), "njit": lambda *_, **__: lambda function: function, "empty": np.empty}
    exec(source[source.index("@njit") :], scope)  # noqa: S102
    return scope[entry]


def kernel(signature: str, text: str) -> str:
    return f'{HEADER}@njit("{signature}", cache=True, error_model="numpy")\n{text}'


EVERY_FUNCTION = """def f(x, out):
    a = x[0]
    b = x[1]
    out[0] = acos(a) + asin(b) - atan(a)*atan2(b, a)
    out[1] = cos(a)/cosh(b) - exp(-a)
    out[2] = fabs(a - b) - floor(3.0*a)
    out[3] = log(fabs(a) + 0.1) + sin(b)*sinh(a)
    out[4] = sqrt(fabs(b)) - tan(a) - tanh(b)
    out[5] = min(a, b, 0.25) - max(a, b, -0.25)
    out[6] = wrap(9.0*a) + sign(b)
    out[7] = (fabs(a))**(b) - -a*b
    out[8] = a if a > b and not (b > 0.5) or isfinite(a) and a < -0.5 else a - (b - (a - 1.0)) - 2.0*(a*b)/(a/b)
"""


def test_every_function_and_operator_has_the_bits_of_numba(compiled: Any, rng: np.random.Generator) -> None:
    source = kernel("void(f8[::1], f8[::1])", EVERY_FUNCTION)
    scope: dict[str, Any] = {}
    exec(source.replace("cache=True, ", ""), scope)  # noqa: S102
    ours = compiled(source, "f", x=(2,), out=(9,))
    points = [*rng.uniform(-0.999, 0.999, size=(500, 2)), np.zeros(2), np.array([-0.0, 0.0]), np.array([0.3, np.nan])]
    for point in points:
        wanted, out = np.zeros(9), np.zeros(9)
        scope["f"](point, wanted)
        ours(point, out)
        same = (out.view(np.int64) == wanted.view(np.int64)) | (np.isnan(out) & np.isnan(wanted))
        assert same.all(), (point, out, wanted)


def test_the_pivoted_solve_has_the_values_of_python(compiled: Any, rng: np.random.Generator) -> None:
    source = HEADER + SOLVE_SOURCE
    ours, python = (
        compiled(source, "solve_in_place", ctypes.c_int, S=(4, 4), y=(4,)),
        in_python(source, "solve_in_place"),
    )
    for S in (*rng.normal(size=(50, 4, 4)), np.zeros((4, 4)), np.eye(4)[::-1].copy()):
        y = rng.normal(size=4)
        first, second = (S.copy(), y.copy()), (S.copy(), y.copy())
        assert ours(4, *first) == python(4, *second)
        np.testing.assert_array_equal(first[1], second[1])
        np.testing.assert_array_equal(first[0], second[0])


LOCALS = """def f(x, double, gamma, y1):
    _hidden = double + gamma
    total = 0.0
    unused = x[1]*total
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
            total -= y1
    x[0], x[1] = x[1], x[0]
    total += best
    return total
"""


def test_names_blocks_and_loops_keep_their_meaning(compiled: Any, rng: np.random.Generator) -> None:
    source = kernel("f8(f8[::1], f8, f8, f8)", LOCALS)
    ours, python = compiled(source, "f", ctypes.c_double, x=(6,)), in_python(source, "f")
    for x in rng.normal(size=(50, 6)):
        same = x.copy()
        assert ours(x, 0.5, -0.25, 0.1) == python(same, 0.5, -0.25, 0.1)
        np.testing.assert_array_equal(x, same)
    text = translate(source, "f", {"x": (6,)}).text
    assert "unused" not in text
    assert "double double_" in text


CALLS = """def pair(a, x):
    return (a*x[0], a - x[1])


@njit("void(f8[:, ::1], f8)", cache=True)
def fill(M, a):
    for i in range(2):
        for j in range(2):
            M[i, j] = M[i, j] + a


@njit("f8(f8, f8[::1], f8[:, :, ::1])", cache=True)
def f(a, x, K):
    k0 = pair(a, x)
    k1 = pair(k0[1], x)
    M = empty((2, 2))
    for i in range(2):
        for j in range(2):
            M[i, j] = K[2, i, j]
    fill(M, k1[0])
    return M[1, 0]*k0[0] + K[0, 1, 1]
"""


def test_functions_with_tuples_and_arrays_of_more_indices(compiled: Any, rng: np.random.Generator) -> None:
    source = kernel("UniTuple(f8, 2)(f8, f8[::1])", CALLS)
    ours = compiled(source, "f", ctypes.c_double, x=(2,), K=(3, 2, 2))
    x, K = rng.normal(size=2), rng.normal(size=(3, 2, 2))
    assert ours(0.7, x, K) == in_python(source, "f")(0.7, x, K)
    text = translate(source, "f", {"x": (2,), "K": (3, 2, 2)}, {"fill": "plant_fill"}).text
    assert "static void plant_fill(double M[4], double a)" in text
    assert "const double K[12]" in text
    assert "K[3]" in text
    assert text.index("pair(double") < text.index("plant_fill(double") < text.index(" f(double")


def test_a_function_that_is_called_with_two_shapes_becomes_two(compiled: Any) -> None:
    source = kernel(
        "void(f8[:, ::1])",
        "def one(M):\n    M[1, 0] = 1.0\n\n\n"
        '@njit("f8()", cache=True)\ndef f():\n    A = empty((2, 2))\n    B = empty((2, 3))\n    one(A)\n    one(B)\n'
        "    return A[1, 0] + B[1, 0]\n",
    )
    text = translate(source, "f", {}).text
    assert "M[2] = 1.0" in text
    assert "M[3] = 1.0" in text
    assert compiled(source, "f", ctypes.c_double)() == 2.0


REFUSED = {
    "while a > 0.0:\n        a -= 1.0": "the statement while a > 0.0",
    "a = (lambda b: b)(a)": "the call (lambda b: b)(a)",
    "g = lambda b: b\n    a = g(a)": "lambda",
    "a = [a, a][0]": "no element of an array",
    "a = x[3]": "x[3] outside of the shape (3,)",
    "a = x[-1]": "x[-1] outside of the shape (3,)",
    "a = x[0, 1]": "of an array of the shape (3,)",
    "b = x\n    a = b[0]": "the array x, which is not copied,",
    "a, b = x, a\n    a = b": "the array x, which is not copied,",
    "a = hypot(a, a)": "the call hypot(a, a)",
    "a = sin(a, a)": "the call sin(a, a)",
    "a = round(a)": "the call round(a)",
    "a = a % 2.0": "the expression a % 2.0",
    "a = a // 2.0": "the expression a // 2.0",
    "a = a**2": "a ** 2",
    "a = 1/2": "the arithmetic of whole numbers 1 / 2",
    "a = 1": "the name a with two types",
    "a = True": "the expression True",
    "a = b": "the name b, which has no value here",
    "a = 0.0 < a < 1.0": "0.0 < a < 1.0",
    "a = a if a else 1.0": "the condition a, which is no comparison",
    "for i in x:\n        a += 1.0": "the loop",
    "for i in range(3):\n        a += x[i]\n    a = x[i]": "the name i, which has no value here",
    "for i in range(3):\n        a += x[i - 1]": "the index i - 1 with a minus",
    "n = 3\n    for i in range(n):\n        n -= 1\n        a += x[i]": "changes inside",
    "for i in range(3):\n        i = 2\n        a += x[i]": "the loop variable i",
    "for i in range(3):\n        a += 1.0\n        break": "the statement break",
    "for i in range(3):\n        continue": "the statement continue",
    "try:\n        a = 1.0\n    except ValueError:\n        pass": "the statement try",
    "a = x.sum()": "the call x.sum()",
    "a = f(x, a)": "the recursion of f",
    "a = 1.0 + put(x)": "writes to an array, inside of an expression",
    "del a": "the statement del a",
    "assert a > 0.0": "the statement assert",
    "a = 1e999": "the expression",
    "a = 'text'": "the expression 'text'",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_what_has_no_c_text_is_refused_by_name(statement: str) -> None:
    body = f"def f(x, a):\n    {statement}\n    return a\n"
    put = '\n\n@njit("f8(f8[::1])", cache=True)\ndef put(x):\n    x[0] = 1.0\n    return 1.0\n'
    with pytest.raises(TranslationError) as refused:
        translate(kernel("f8(f8[::1], f8)", body) + put, "f", {"x": (3,)})
    assert REFUSED[statement] in str(refused.value)
    assert "extend export/c_translate.py" in str(refused.value)


def test_a_function_that_may_end_without_a_result_is_refused() -> None:
    with pytest.raises(TranslationError, match="may end without a result"):
        translate(kernel("f8(f8)", "def f(a):\n    if a > 0.0:\n        return 1.0\n"), "f", {})


def test_a_missing_function_or_shape_is_named() -> None:
    with pytest.raises(TranslationError, match="no function step_rk9; choose wrap, sign"):
        translate(HEADER, "step_rk9", {})
    with pytest.raises(TranslationError, match="the array x of f has no shape"):
        translate(kernel("f8(f8[::1])", "def f(x):\n    return x[0]\n"), "f", {})


@pytest.mark.parametrize("value", [0.1, 1e16, 5e-324, -0.0, 1.7976931348623157e308, 3.0, 2 / 3])
def test_a_number_in_c_is_a_double_with_all_its_digits(value: float) -> None:
    text = c_number(value)
    assert "." in text or "e" in text
    assert math.copysign(1.0, float(text)) == math.copysign(1.0, value)
    assert float(text) == value


def test_a_text_inside_a_comment_does_not_end_it() -> None:
    assert comment("a */ b /* c ??/ d") == "a * / b / * c ? ?/ d"
