"""The filter that gives a sampled goal its derivatives: exact between samples, late by what it says."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.controllers.engine.follow_filter import FilterDesign, FollowFilter


@pytest.mark.parametrize("order", [0, 1, 4, 8])
def test_it_is_the_exponential_of_its_state_equations(order: int) -> None:
    from scipy.linalg import expm

    w, n, rng = 3.0, order + 1, np.random.default_rng(order)
    # y, y', ..., y^(order) of (s + w)^n y = w^n u, and u itself
    A = np.zeros((n + 1, n + 1))
    A[: n - 1, 1:n] = np.eye(n - 1)
    binomial = np.poly(np.full(n, -w))[:0:-1]
    A[n - 1, :n], A[n - 1, n] = -binomial, w**n
    chain, state = FollowFilter(FilterDesign(order, w), 0.7), np.zeros(n + 1)
    state[0] = 0.7
    for u, passed in zip(rng.uniform(-1, 1, 12), rng.uniform(0.01, 0.5, 12), strict=True):
        state[n] = u
        state = expm(A * passed) @ state
        chain.advance(float(u), float(passed))
        size = w ** np.arange(n)
        assert_allclose(chain.output() / size, state[:n] / size, rtol=0, atol=1e-12)


def test_no_time_changes_nothing() -> None:
    chain = FollowFilter(FilterDesign(4, 5.0), 1.0)
    chain.advance(3.0, 0.2)
    before = chain.output()
    chain.advance(-8.0, 0.0)
    np.testing.assert_array_equal(chain.output(), before)


def test_follow_filter_delay_and_error_over_bandwidth() -> None:
    late = []
    for w in (40.0, 80.0, 160.0):
        design, step = FilterDesign(4, w), 1e-4
        chain = FollowFilter(design, 0.0)
        for k in range(12_000):  # beyond it the beginning has decayed
            chain.advance(float(np.sin((k + 0.5) * step)), step)
        y = chain.output()
        gain = (y[1] + 1j * y[0]) * np.exp(-1.2j)  # y = Im(G e^(it)), y' = Re(G e^(it))
        assert abs(gain - (1 / (1 + 1j / w)) ** 5) < 1e-8
        assert_allclose(y[2:4], -y[:2], rtol=0, atol=1e-5)
        late.append(abs(gain - np.exp(-1j * design.delay)))
    assert design.delay == 5 / 160.0
    assert_allclose(np.log2(np.array(late[:-1]) / np.array(late[1:])), 2.0, atol=0.02)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_jump_is_travelled_at_the_rate_and_no_faster_and_within_the_range_of_the_inputs(order: int) -> None:
    design, step, rng = FilterDesign(order, 20.0, rate=0.5), 0.01, np.random.default_rng(order)
    chain, fine = FollowFilter(design, 0.0), FollowFilter(design, 0.0)
    for u in (*rng.uniform(-1, 1, 20), 3.0):
        for _ in range(30 if u < 3.0 else 1000):
            chain.advance(float(u), step)
            for _ in range(4):
                fine.advance(float(u), step / 4)
            y = chain.output()
            assert abs(y[1]) <= 0.5 * (1 + 1e-9)
            assert -1 - 1e-9 <= y[0] <= 3.0 + 1e-9
            assert_allclose(fine.output(), y, rtol=0, atol=1e-9 * 20.0**order)
    assert_allclose(chain.output()[:2], [3.0, 0.0], rtol=0, atol=1e-9)
    assert_allclose(chain.copy().output(), chain.output(), rtol=0)
