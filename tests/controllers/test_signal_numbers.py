"""A text with other numbers is the same code; its values are those of code that was compiled for it alone."""

from typing import Any

import numpy as np
import pytest

import servonode
from servonode.controllers.engine.signals import Signals, load_signals
from servonode.definitions import cache
from servonode.kernels import build, llvm
from servonode.kernels.ir import F64, Number
from servonode.kernels.language import parse

TEXT = "{a}*sin({b}*t) - sin(0.3*t)/{c} + exp(-t**2/{a})*(1 + t**2)**0.3 - tanh({c}*t - 1)**3 + wrap({b}*t) + 2"


def with_numbers(a: float, b: float, c: float) -> Signals:
    return load_signals({"x": TEXT.format(a=a, b=b, c=c), "y": f"{b} + {c}*t"}, 4)


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> Any:
    """From here on LLVM must not be asked for code."""

    def forbid() -> None:
        def refuse(*_: object) -> bytes:
            raise AssertionError("something is compiled")

        monkeypatch.setattr(build, "_object_code", refuse)

    return forbid


def test_other_numbers_in_a_function_of_time_compile_nothing(uncompiled: Any) -> None:
    first = with_numbers(6.0, 0.05, 3.0)
    uncompiled()
    second, t = with_numbers(6.5, 0.07, 3.25), np.array([0.7])
    assert second.table(t)[0, 0] != first.table(t)[0, 0]
    assert second.table(t)[0, 5:7] == pytest.approx([0.07 + 3.25 * 0.7, 3.25], rel=1e-15)


def test_code_for_all_numbers_has_the_bits_of_code_for_these() -> None:
    signals = with_numbers(6.1, 0.05, 3.0)
    assert signals.kernel is not None
    text = cache.text_of(signals.kernel.__name__)
    fixed, _ = cache.load(cache.key_of("with its numbers", text), lambda: (text, b"{}"))
    times = np.linspace(-3.0, 30.0, 2001)
    wanted = np.zeros((len(times), 10))
    fixed.table(len(times), times, wanted)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(signals.table(times).view(np.int64), wanted.view(np.int64))


def test_an_exponent_is_part_of_the_code() -> None:
    numbers: list[float] = []
    ir = llvm.llvm_text(parse("def f(x: f64) -> f64:\n    return 2.5*x**0.25 + 1.5\n"), numbers)
    assert numbers == [2.5, 1.5]
    assert f"double {llvm._number(Number(0.25, F64))})" in ir
    root, third, t = load_signals({"x": "(1 + t**2)**0.5"}, 1), load_signals({"x": "(1 + t**2)**0.25"}, 1), np.ones(1)
    assert root.table(t)[0, 0] == pytest.approx(2**0.5)
    assert third.table(t)[0, 0] == pytest.approx(2**0.25)


DISTURBED = {"plant__disturbance": {"psi": "{}*sin(2.1*t) - 0.003*Omega", "U1": "{}"}}
VARYING = {"plant__parameters": {"m1": "1.2 + {}*sin(2*t)"}}


@pytest.mark.slow  # kernels are compiled for single numbers
@pytest.mark.parametrize("changes", [DISTURBED, VARYING])
def test_other_numbers_in_a_changed_machine_compile_nothing(
    changes: dict[str, dict[str, str]], uncompiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(number: float) -> Any:
        stated: dict[str, Any] = {
            key: {name: text.format(number) for name, text in texts.items()} for key, texts in changes.items()
        }
        return servonode.simulate("trailer_pursuit", run__duration=1.0, **stated).columns

    versions = cache.versions_digest()
    run(0.0213)
    with monkeypatch.context() as patched:  # each with code of its own, as if no number were a launch file's
        made = build.built
        patched.setattr(build, "built", lambda text, text_of, kept, *_: made(text, text_of, kept))
        patched.setattr(cache, "versions_digest", lambda: f"{versions} with code of its own")
        patched.setattr(cache, "_loaded", {})
        wanted = run(0.0341)
    uncompiled()
    found = run(0.0341)
    for name, values in found.items():
        np.testing.assert_array_equal(values.view(np.int64), wanted[name].view(np.int64), name)
