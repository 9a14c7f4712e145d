"""Goals through points: values and derivatives against exact arithmetic and scipy's own evaluation."""

from collections.abc import Sequence
from fractions import Fraction
from math import comb, factorial, perm
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.controllers.engine.curves import Curve, rest_degree, smooth_degree, spline, stopping
from servonode.controllers.engine.signals import load_signals

TIMES, VALUES = [0.5, 1.25, 3.0, 3.5], [0.0, 2.0, -1.0, 0.25]  # binary fractions: exact as Fractions too


def solved(rows: list[list[Fraction]]) -> list[Fraction]:
    """The solution of the linear equations `rows`, right-hand sides last, by elimination."""
    n = len(rows)
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [each / rows[i][i] for each in rows[i]]
        for k in range(n):
            if k != i and rows[k][i]:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def exact(degree: int, t: Fraction, orders: int, times: Sequence[float], values: Sequence[float]) -> list[Fraction]:
    """Value and derivatives of the piecewise polynomial through the points, C^(degree - 1), at rest at both ends."""
    knots, n = [Fraction(each) for each in times], len(times) - 1
    width = degree + 1

    def row(piece: int, at: Fraction, order: int, right: Fraction, minus: int | None = None) -> list[Fraction]:
        entries = [Fraction(0)] * (n * width + 1)
        for each, sign in ((piece, 1), *([(minus, -1)] if minus is not None else [])):
            for j in range(order, width):
                entries[each * width + j] += sign * perm(j, order) * (at - knots[each]) ** (j - order)
        entries[-1] = right
        return entries

    rows = [row(i, knots[i + k], 0, Fraction(values[i + k])) for i in range(n) for k in (0, 1)]
    rows += [row(i, knots[i + 1], order, Fraction(0), i + 1) for i in range(n - 1) for order in range(1, degree)]
    for order in range(1, (degree + 1) // 2):
        rows += [row(0, knots[0], order, Fraction(0)), row(n - 1, knots[-1], order, Fraction(0))]
    found = solved(rows)
    piece = max(i for i in range(n) if knots[i] <= t)
    powers = found[piece * width : (piece + 1) * width]
    u = t - knots[piece]
    return [sum((perm(j, k) * powers[j] * u ** (j - k) for j in range(k, width)), Fraction(0)) for k in range(orders)]


def table(curve: Curve, order: int, times: Any) -> Any:
    return load_signals({"x": curve}, order).table(np.array(times, dtype=float))


@pytest.mark.parametrize("degree", [5, 7])
def test_spline_at_rest_is_the_exact_solution(degree: int) -> None:
    times = [0.625, 1.25, 2.0, 3.375]
    found = table(spline(TIMES, VALUES, degree, rest=True), 4, times)
    for row, t in zip(found, times, strict=True):
        wanted = [float(each) for each in exact(degree, Fraction(t), 5, TIMES, VALUES)]
        assert_allclose(row, wanted, rtol=1e-12, atol=1e-12 * max(map(abs, wanted)))


def test_a_spline_with_free_ends_is_that_of_scipy() -> None:
    from scipy.interpolate import make_interp_spline

    t = np.linspace(0.0, 4.0, 33)
    free = make_interp_spline(t, np.sin(t), 5)
    times = np.linspace(0.0, 4.0, 101)
    found = table(spline(t.tolist(), np.sin(t).tolist(), 5, rest=False), 4, times)
    for k in range(5):
        assert_allclose(found[:, k], free(times, k), rtol=0, atol=1e-9 if k == 4 else 1e-11)
    # interpolation of degree 5 leaves h^6, and each derivative costs one h
    assert np.abs(found[:, 4] - np.sin(times)).max() < 0.05


def test_stopping_curve_rests_at_each_point() -> None:
    m, times = 4, np.array([0.75, 1.0, 2.5])
    found = table(stopping(TIMES, VALUES, rest_degree(m)), m, times)
    for row, t in zip(found, times, strict=True):
        i = max(k for k in range(3) if TIMES[k] <= t)
        h, rise = Fraction(TIMES[i + 1]) - Fraction(TIMES[i]), Fraction(VALUES[i + 1]) - Fraction(VALUES[i])
        u, norm = (Fraction(t) - Fraction(TIMES[i])) / h, factorial(2 * m + 1) // factorial(m) ** 2
        powers = {m + 1 + j: rise * norm * Fraction((-1) ** j * comb(m, j), m + 1 + j) for j in range(m + 1)}
        wanted = [float(sum(c * perm(j, k) * u ** max(j - k, 0) for j, c in powers.items()) / h**k) for k in range(5)]
        wanted[0] += VALUES[i]
        assert_allclose(row, wanted, rtol=1e-12, atol=1e-12)
    at_points = table(stopping(TIMES, VALUES, rest_degree(m)), m, TIMES)
    assert_allclose(at_points[:, 0], VALUES, rtol=0, atol=1e-15)
    assert_allclose(at_points[:, 1:], 0.0, atol=1e-9)


def test_a_curve_of_two_points_and_one_beyond_its_points_rests() -> None:
    times = np.linspace(-1.0, 4.0, 23)
    passing, stop = spline([0.0, 3.0], [1.0, 2.0], 9, rest=True), stopping([0.0, 3.0], [1.0, 2.0], 9)
    np.testing.assert_array_equal(table(passing, 4, times), table(stop, 4, times))
    found = table(spline(TIMES, VALUES, 9, rest=True), 4, [-3.0, 0.49, 3.51, 1e6])
    assert_allclose(found[:, 0], [VALUES[0]] * 2 + [VALUES[-1]] * 2, rtol=0, atol=1e-14)
    assert not found[:, 1:].any()


@pytest.mark.parametrize("order", range(9))
def test_curve_degree_gives_the_continuous_derivatives_needed(order: int) -> None:
    passing = spline(TIMES, VALUES, smooth_degree(order), rest=True)
    assert passing.derivatives >= order
    assert passing.degree % 2 == 1
    resting = spline(TIMES, VALUES, rest_degree(order), rest=True)
    assert min(resting.derivatives, (resting.degree - 1) // 2) >= order  # so many are zero at both ends
    assert stopping(TIMES, VALUES, rest_degree(order)).derivatives >= order


def test_expressions_numbers_and_curves_stand_side_by_side() -> None:
    curve = stopping([0.0, 1.0], [0.0, 2.0], 9)
    signals = load_signals({"a": "sin(2*t)", "b": curve, "c": 3.0, "d": curve}, 4)
    out = np.zeros(20)
    signals.evaluate(0.5, out)
    assert signals.entries[5:10] == ("b", "b_dot", "b_ddot", "b_d3", "b_d4")
    assert_allclose(out[:5], [np.sin(1), 2 * np.cos(1), -4 * np.sin(1), -8 * np.cos(1), 16 * np.sin(1)], rtol=1e-15)
    assert_allclose(out[5:8], [1.0, 2 * 315 / 128, 0.0], atol=1e-14)
    np.testing.assert_array_equal(out[5:10], out[15:])
    assert out[10:15].tolist() == [3.0, 0.0, 0.0, 0.0, 0.0]
    np.testing.assert_array_equal(signals.table(np.array([0.5]))[0], out)
