"""Intervals hold what they promise: seeded records of plants with other parameters, encoder quantisation and noise."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.signal import lfilter

from servonode.wings.explore.identification.fit import Part, _step_within
from servonode.wings.explore.identification.trajectories import Segments, Trajectories
from servonode.wings.explore.identification.uncertainty import (
    Covariance,
    autocorrelation,
    ljung_box,
    scores_density,
)
from tests.helpers.seeded_records import CASES, COARSE, WITHIN, case, coarse_shares, estimated


@pytest.mark.slow
@pytest.mark.parametrize("machine", CASES)
def test_a_few_seeded_records_give_the_parameters(machine: str) -> None:
    for seed in range(3):
        loop, experiment, true, names = case(machine, 1000 + seed)
        values, errors = estimated(loop, experiment, names)
        assert np.all(np.abs(values / true - 1) < WITHIN)
        assert np.all(np.abs(values - true) < 2 * errors)  # 3.9 standard deviations


@pytest.mark.parametrize(("force", "differenced"), COARSE)
@pytest.mark.slow
def test_noisy_speeds_cut_no_record_through_coarse_encoders(force: float, differenced: bool) -> None:
    held, missed = coarse_shares(force, differenced, range(1000, 1002))
    assert np.mean(held) >= 0.5
    assert np.max(missed) < 0.05


def test_the_covariance_of_an_oscillator_is_that_of_its_analytic_slopes() -> None:
    """m q'' + d q' + k q = F: the slopes z of q by a parameter obey m z'' + d z' + k z = -(q'', q', q)."""
    loop, experiment, true, names = case("oscillator", 1)
    segments, start = Segments((0, len(experiment.k) - 1)), np.array([[0.1, 0.0]])
    trajectories = Trajectories(experiment, names)
    found = trajectories.slopes(true, segments, start, true, np.ones(2))
    assert found is not None
    m, d, k = true
    A, h = np.array([[0.0, 1.0], [-k / m, -d / m]]), loop.launch.step_ns / 1e9
    steps = np.diff(experiment.k)
    x, z = start[0].copy(), np.zeros((2, 3))
    expected = [z[0].copy()]
    augmented = np.zeros((8, 8))  # x, then the three slopes
    augmented[:2, :2] = A
    for i, direction in enumerate(((-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, -1.0))):
        own = slice(2 + 2 * i, 4 + 2 * i)
        augmented[own, own] = A
        by_rate = np.array([direction[2], direction[1]]) + direction[0] * A[1]
        augmented[3 + 2 * i, :2] = by_rate / m
    for n, u in zip(steps, experiment.u[:, 0], strict=True):
        drive = np.zeros(8)
        drive[1] = u / m
        drive[3] = -u / m / m
        state = np.concatenate([x, z.T.ravel()])
        for _ in range(n):  # Runge-Kutta, as the plant's
            k1 = augmented @ state + drive
            k2 = augmented @ (state + h / 2 * k1) + drive
            k3 = augmented @ (state + h / 2 * k2) + drive
            k4 = augmented @ (state + h * k3) + drive
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        x, z = state[:2], state[2:].reshape(3, 2).T
        expected.append(z[0].copy())
    by_value = found[0][: len(expected)]  # of the channel q
    assert by_value == pytest.approx(np.array(expected), rel=1e-6, abs=1e-8)


def test_the_segments_join_the_rows_of_an_experiment_without_a_gap() -> None:
    loop, experiment, true, names = case("oscillator", 2)
    trajectories = Trajectories(experiment, names)
    rows = (0, 100, len(experiment.k) - 1)
    starts = trajectories.states(true, Segments((0, rows[-1])), np.array([[0.1, 0.0]]))
    assert starts is not None
    part = Part(trajectories, Segments(rows), starts[list(rows[:-1]), :-1].copy())
    again = trajectories.states(true, part.segments, part.starts)
    assert again is not None
    assert again[:, :-1] == pytest.approx(starts[:, :-1], abs=1e-12)
    assert np.bincount(part.segment_of).tolist() == [2 * 101, 2 * (rows[-1] - 100)]
    assert loop.machine.description.name == "oscillator"


def test_beside_a_bound_the_steps_lead_to_the_least_squares_there() -> None:
    rng = np.random.default_rng(4)
    pair = np.array([[1.0, 0.9], [0.0, 0.5]])  # p2 is pulled to -1, and p1 with it to 1.9: 1.0 is best beside p2 = 0
    problems = [(pair, pair @ [1.9, -1.0])]
    problems += [(rng.standard_normal((30, 5)) + 1, rng.standard_normal(30)) for _ in range(20)]
    for table, wanted in problems:
        J, values = 1e3 * table, nnls(table, wanted)[0]
        on_bound = values == 0.0
        step = _step_within(J, 1e3 * (wanted - table @ values), 0.0, on_bound)
        assert step == pytest.approx(0.0, abs=1e-10)
        beside = values + rng.uniform(0.1, 1.0, len(values)) * ~on_bound
        step = _step_within(J, 1e3 * (wanted - table @ beside), 0.0, on_bound)
        assert beside + step == pytest.approx(values, abs=1e-10)


def test_what_is_not_told_counts_as_known_to_100_percent() -> None:
    direction = np.array([[0.6], [0.8]])
    found = Covariance(np.diag([0.01, 0.04]), np.diag([0.01, 0.04]), direction, 100, False)
    gradient = np.array([0.8, -0.59])  # of parameters of the sizes 1: 0.008 of it is along the direction
    assert found.deviation(gradient, np.ones(2), 0.05) == pytest.approx(
        math.sqrt(0.64 * 0.01 + 0.59**2 * 0.04 + 0.008**2)
    )
    assert found.deviation(gradient, np.ones(2)) == math.inf


def test_scores_of_channels_that_are_read_in_turn_are_correlated_in_their_own_samples() -> None:
    """Of a sum of n values of an AR(1) process with unit innovations the variance is n / (1 - a)^2."""
    rng, a, n, channels = np.random.default_rng(6), 0.7, 3000, 20
    series = lfilter([1.0], [1.0, -a], rng.standard_normal((channels, n)))
    channel = np.repeat(np.arange(channels), n)
    row = (np.arange(n) * channels + np.arange(channels)[:, None]).ravel()
    experiment = SimpleNamespace(channels=range(channels), channel=channel, row=row, k=np.arange(n * channels))
    slopes = SimpleNamespace(J=np.ones((n * channels, 1)), residuals=series.ravel())
    found = SimpleNamespace(
        values=np.ones(1), sizes=np.ones(1), parts=(SimpleNamespace(experiment=experiment),), slopes=(slopes,)
    )
    density = float(scores_density(found)[0, 0])  # type: ignore[arg-type]
    assert density == pytest.approx(channels * n / (1 - a) ** 2, rel=0.15)  # Bartlett's weights take 8 %


def test_ljung_and_box_refuse_correlated_residuals_and_pass_white_ones() -> None:
    rng = np.random.default_rng(1)
    refused = [ljung_box(autocorrelation(rng.standard_normal(400)), 400) < 0.05 for _ in range(400)]
    assert 0.03 < np.mean(refused) < 0.08
    noise = rng.standard_normal(401)
    assert ljung_box(autocorrelation(noise[1:] + 0.5 * noise[:-1]), 400) < 1e-6
    assert autocorrelation(np.zeros(100)).tolist() == [0.0] * 20
