"""Calls of kernels from Python: what does not fit is refused before anything runs."""

import math
import pickle
import sys
from typing import Any

import msgspec
import numpy as np
import pytest

from servonode.errors import ServonodeError
from servonode.kernels import build
from servonode.kernels.build import built
from servonode.kernels.host import this_host
from servonode.kernels.native import Kernel

TEXT = """\
def f(a: f64, n: i64, on: bool, x: f64[3], at: i64[:], out: f64[:, 2]) -> f64:
    out[1, 1] = a + x[2] + at[0]
    return out[1, 1] if on else -1.0 * n

def none():
    pass

def whole(n: i64) -> i64:
    return n - 1

def truth(a: f64) -> bool:
    return a > 0.0

def waves(x: f64) -> f64:
    return sin(x)*cos(x) + x**0.3 + atan2(x, 2.0) + tanh(x)
"""


@pytest.fixture(scope="module")
def kernel() -> Any:
    return Kernel("test", TEXT, *built(TEXT, {}.__getitem__))


def good() -> list[Any]:
    return [0.5, 3, True, np.arange(3.0), np.array([4, 5]), np.zeros((2, 2))]


def test_results_have_their_types(kernel: Any) -> None:
    assert kernel.f(*good()) == 6.5
    assert kernel.f(1, 3, False, *good()[3:]) == -3.0
    assert kernel.f(np.float64(0.5), np.int64(3), np.True_, *good()[3:]) == 6.5
    assert kernel.none() is None
    assert kernel.whole(-(2**63) + 1) == -(2**63)
    assert kernel.truth(1.0) is True
    assert kernel.truth(-1.0) is False
    assert kernel.waves(0.7) == math.sin(0.7) * math.cos(0.7) + 0.7**0.3 + math.atan2(0.7, 2.0) + math.tanh(0.7)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_each_level_of_llvm_has_the_same_bits(kernel: Any, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "this_host", lambda: msgspec.structs.replace(this_host(), optimisation=level))
    build._machine.cache_clear()
    levelled = Kernel("test", TEXT, *built(TEXT, {}.__getitem__))
    build._machine.cache_clear()
    for x in np.random.default_rng(1).normal(0, 100, 200):
        assert levelled.waves(abs(x)) == kernel.waves(abs(x))
    assert levelled.f(*good()) == kernel.f(*good())


def test_a_level_that_llvm_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVONODE_OPTIMISATION", "fast")
    with pytest.raises(ServonodeError, match="SERVONODE_OPTIMISATION: 'fast' is no level of LLVM; choose 0, 1 or 2"):
        this_host.__wrapped__()


def test_a_call_keeps_no_reference(kernel: Any) -> None:
    given = good()
    before = [sys.getrefcount(each) for each in given[3:]]
    for _ in range(1000):
        kernel.f(*given)
        kernel.none()
    assert [sys.getrefcount(each) for each in given[3:]] == before


def read_only() -> Any:
    array = np.zeros((2, 2))
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (0, "a", "must be real number, not str"),
        (1, 1.5, "'float' object cannot be interpreted as an integer"),
        (1, 2**63, "int too big to convert"),
        (3, [0.0, 1.0, 2.0], "f wants x as a f64[3], not a list"),
        (3, np.arange(4.0), "f wants x as a f64[3], not an array of float64 with shape (4,)"),
        (3, np.arange(3), "f wants x as a f64[3], not an array of int64 with shape (3,)"),
        (3, np.arange(3.0, dtype=np.float32), "not an array of float32"),
        (3, np.arange(6.0)[::2], "f wants x as a f64[3], not an array whose entries do not lie one behind the other"),
        (3, np.zeros((3, 1)), "not an array of float64 with shape (3, 1)"),
        (4, np.arange(2.0), "f wants at as a i64[:], not an array of float64"),
        (5, np.zeros((2, 3)), "f wants out as a f64[:, 2], not an array of float64 with shape (2, 3)"),
        (5, np.zeros((2, 4))[:, :2], "do not lie one behind the other"),
        (5, read_only(), "f wants out as a f64[:, 2], not an array that may not be written"),
        (5, None, "not a NoneType"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_name(kernel: Any, place: int, value: Any, problem: str) -> None:
    given = good()
    given[place] = value
    with pytest.raises((TypeError, OverflowError)) as caught:
        kernel.f(*given)
    assert problem in str(caught.value)
    assert not np.any(given[5] if place != 5 else 0.0)  # nothing ran


@pytest.mark.parametrize("count", [0, 1, 5, 7])
def test_another_number_of_arguments_is_refused(kernel: Any, count: int) -> None:
    with pytest.raises(TypeError, match=rf"was given {count} arguments instead of 6"):
        kernel.f(*[*good(), 1.0][:count])


def test_a_function_has_as_many_arguments_as_a_machine_of_30_joints_needs() -> None:
    names = [f"a{i}" for i in range(200)]
    text = f"def last({', '.join(f'{name}: f64' for name in names)}) -> f64:\n    return a0 + a199\n"
    kernel: Any = Kernel("many", text, *built(text, {}.__getitem__))
    assert kernel.last(*range(200)) == 199.0


def test_an_array_that_is_only_read_may_be_read_only(kernel: Any) -> None:
    given = good()
    given[3].flags.writeable = False
    assert kernel.f(*given) == 6.5


def test_an_array_from_a_pickle_is_one_of_floats_too(kernel: Any) -> None:
    given = [pickle.loads(pickle.dumps(each)) for each in good()]
    assert given[5].dtype is not np.dtype(np.float64)  # or the test could not fail
    assert kernel.f(*given) == 6.5
    assert given[5][1, 1] == 6.5
