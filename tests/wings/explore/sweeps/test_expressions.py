"""Stated measures against numbers that are known: polynomials and sines by hand, refusals with their place."""

from typing import Any

import numpy as np
import pytest

from servonode.errors import StatementError
from servonode.wings.explore.sweeps.measures import StatedMeasure

T = np.linspace(0.0, 2.0, 2001)
COLUMNS = {"t": T, "x": 3 * T - 1, "y": np.sin(np.pi * T), "c": np.full_like(T, -2.0)}
VALUES = {
    "max(x)": 5.0,
    "min(x)": -1.0,
    "final(x)": 5.0,
    "mean(x)": 2.0,
    "integral(x)": 4.0,
    "integral(y**2)": 1.0,
    "max(abs(c))": 2.0,
    "max(x - y*0) - min(c)": 7.0,
    "2*final(x)**2 + pi*0": 50.0,
    "max(final(x), min(x)) + min(max(x), 3)": 8.0,
    "max(max(x, 2*t))": 5.0,
    "sqrt(max(abs(min(x, c))))": 2**0.5,
    "mean(3)": 3.0,
    "integral(1)": 2.0,
    "atan2(final(x), -final(c))": np.arctan2(5.0, 2.0),
    "wrap(final(x))": 5.0 - 2 * np.pi,
    "max(wrap(x))": np.pi,
    "exp(min(c)) + cos(0) + tanh(0) + tan(0)": np.exp(-2.0) + 1,
    "final(-x)": -5.0,
    "4": 4.0,
}


@pytest.mark.parametrize("text", VALUES)
def test_a_measure_is_the_number_that_it_states(text: str) -> None:
    found = StatedMeasure("w", text, COLUMNS).of(T, COLUMNS.__getitem__)
    assert found == pytest.approx(VALUES[text], rel=2e-3 if "wrap(x)" in text else 1e-6)


def test_a_number_that_is_not_finite_is_no_error() -> None:
    assert np.isinf(StatedMeasure("w", "1/min(abs(t))", COLUMNS).of(T, COLUMNS.__getitem__))
    assert np.isnan(StatedMeasure("w", "sqrt(min(c))", COLUMNS).of(T, COLUMNS.__getitem__))


def test_the_mean_of_a_run_without_time_is_its_only_value() -> None:
    one: dict[str, Any] = {"t": np.zeros(1), "x": np.array([7.0])}
    assert StatedMeasure("w", "mean(x) + integral(x)", one).of(one["t"], one.__getitem__) == 7.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", r"measure w: x is a column with a value at each row; say which number of it: max\(x\), min\(x\)"),
        ("2*max(x) + y", "y is a column with a value at each row"),
        ("max(x, 1)", "x is a column with a value at each row"),
        ("max(x) + taken_0", "unknown name 'taken_0'"),
        ("max(z)", "unknown name 'z'.*an expression may use c, t, x, y"),
        ("max(x) + z", "unknown name 'z'.*an expression may use c, t, x, y"),
        ("final(max(x))", "max has 1 argument"),
        ("foo(max(x))", "unknown name 'foo'"),
        ("max(x", "bad syntax"),
        ("", "empty expression"),
        ("max(x)*", "bad syntax"),
        ("__import__('os').system('true')", "unknown name '__import__'"),
        ("max(x.__class__)", "is no frame|unexpected"),
        ("max(*x)", "not part of an expression|bad syntax"),
        ("max(x)+" * 300 + "1", "more than 2000 characters"),
        ("(" * 300 + "max(x)" + ")" * 300, "too many nested parentheses|too deeply nested"),
        ("max(x) if 1 else 2", "not part of an expression"),
    ],
)
def test_a_text_that_states_no_number_is_refused(text: str, said: str) -> None:
    with pytest.raises(StatementError, match=said):
        StatedMeasure("w", text, COLUMNS)
