"""Intervals hold the true values as often as they say: hundreds of seeded records, minutes of computation."""

import math

import numpy as np
import pytest

from tests.helpers.seeded_records import CASES, COARSE, WITHIN, case, coarse_shares, estimated

SEEDS = 200
LEAST, MOST = 0.93, 0.97  # of the intervals that hold the true value


@pytest.mark.parametrize("machine", CASES)
def test_the_true_values_are_within_95_percent_intervals_as_often_as_these_say(machine: str) -> None:
    held, missed = [], []
    for seed in range(SEEDS):
        loop, experiment, true, names = case(machine, seed)
        values, errors = estimated(loop, experiment, names)
        held.append(np.abs(values - true) <= errors)
        missed.append(np.abs(values / true - 1))
    assert np.max(missed) < WITHIN
    assert LEAST <= np.mean(held) <= MOST
    chance = 3 * math.sqrt(0.95 * 0.05 / SEEDS)  # of one parameter alone
    assert np.all(np.abs(np.mean(held, axis=0) - 0.95) < chance)


@pytest.mark.parametrize(("force", "differenced"), COARSE)
def test_intervals_hold_the_truth_through_coarse_encoders_as_often_as_they_say(force: float, differenced: bool) -> None:
    held = coarse_shares(force, differenced, range(SEEDS))[0]
    print(f"force {force} N, differenced {differenced}: {np.mean(held):.3f} of {held.size} held, {held.mean(0)} each")
    assert LEAST <= np.mean(held) <= MOST
