"""Intervals of a success rate against scipy's, and their ends."""

import pytest
from scipy.stats import binomtest

from servonode.wings.explore.sweeps.intervals import clopper_pearson, wilson


@pytest.mark.parametrize(("successes", "runs"), [(0, 10), (1, 10), (8, 10), (10, 10), (37, 40), (500, 1000)])
def test_intervals_are_those_of_scipy(successes: int, runs: int) -> None:
    known = binomtest(successes, runs)
    for found, method in ((wilson(successes, runs), "wilson"), (clopper_pearson(successes, runs), "exact")):
        expected = known.proportion_ci(0.95, method)
        assert found == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_without_runs_nothing_is_known() -> None:
    assert wilson(0, 0) == clopper_pearson(0, 0) == (0.0, 1.0)


def test_36_successes_are_the_fewest_whose_exact_interval_lies_above_90_percent() -> None:
    assert clopper_pearson(36, 36)[0] > 0.9 > clopper_pearson(35, 35)[0]
