"""The innovation gate: outliers are rejected, good readings are not, and no sensor is shut out unseen."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.estimators.estimator import LEAST, Estimator
from servonode.estimators.kalman import ExtendedKalmanFilter
from servonode.estimators.settings import EstimatorSettings, Gate
from servonode.mechanics.observer import Observer
from servonode.views.summary import summary_rows
from tests.estimators import test_consistency as machine
from tests.estimators import test_kalman as linear
from tests.estimators.test_consistency import START, USED, WELL_KNOWN, band, followed, study

observer = machine.observer
cart_observer = linear.cart_observer
ENCODER_STD = 0.002
GATE = 3.29  # standard deviations, within which a share of 0.999 of good readings is
NIS = 0.9883  # of a normal variable squared, on average within the gate: 1 - 2 g phi(g) / (2 Phi(g) - 1)
LONGEST = 200  # steps


def gated(observer: Observer, limit: float = GATE, **values: Any) -> EstimatorSettings:
    gate = Gate((limit,) * observer.n_z, (LONGEST,) * observer.n_z)
    return machine.settings(observer, gate=gate, **values)


def outlier(instant: int, readings: dict[str, list[float]]) -> None:
    """One reading of the left encoder in a hundred is off by 20 standard deviations."""
    if instant % 100 == 30:
        readings["encoder_left"][1] += 20 * ENCODER_STD


def rms(observer: Observer, believed: Any, spoil: Any = None) -> tuple[Any, Any]:
    """The error of each state (n,), root mean square over 0.1 s from each outlier on, and what became of readings."""
    found, counts = [], {}
    for seed in range(6):
        for j, (ours, truth) in enumerate(followed(observer, machine.settings(observer), seed, 350, believed, spoil)):
            if j % 100 in range(30, 40):
                found.append(ours.x[: observer.n] - truth)
        counts[seed] = dict(ours.counts)
    return np.sqrt(np.mean(np.square(found), axis=0)), counts


@pytest.mark.slow
def test_outliers_of_20_sigma_once_in_100_readings_are_harmless_behind_the_gate(observer: Observer) -> None:
    clean, _ = rms(observer, machine.settings(observer))
    without, _ = rms(observer, machine.settings(observer), outlier)
    behind, counts = rms(observer, gated(observer), outlier)
    wheel = observer.machine.description.state_names.index("theta1")
    assert without[wheel] > 3 * clean[wheel]
    assert_allclose(behind, clean, rtol=0.1)
    for each in counts.values():
        assert 4 <= each["rejected_encoder_left"] <= 7  # four outliers, and one good reading in a thousand
        assert sum(each.values()) < 4 + 0.004 * 350 * len(USED)


@pytest.mark.slow
def test_nees_is_inside_its_band_behind_the_gate_too(observer: Observer) -> None:
    nees, nis, readings = study(observer, 200, 40, machine.settings(observer), gated(observer), outlier)
    low, high = band(observer.n, 200)
    assert low < nees[-1] < high
    assert np.mean((nees > low) & (nees < high)) > 0.9
    few, most = band(readings, 1)
    assert few / readings < nis / NIS < most / readings


def test_without_the_gate_the_same_outliers_leave_the_band(observer: Observer) -> None:
    nees, _, _ = study(observer, 50, 40, machine.settings(observer), None, outlier)
    assert nees[30] > 3 * band(observer.n, 50)[1]


def test_a_filter_converges_from_a_wrong_start_behind_the_gate(observer: Observer) -> None:
    """Half a radian and half a metre off, and told so: the covariance lets the readings in that tell it."""
    n = observer.n
    wrong = START.copy()
    wrong[:4] += [0.5, -0.5, 0.5, -0.5]
    deviation = np.where(np.arange(n) < 4, 0.5, WELL_KNOWN)
    stated = machine.settings(observer, deviation=np.zeros(n))
    for seed in range(5):
        nees = machine.errors(observer, stated, seed, 150, gated(observer, mean=wrong, deviation=deviation))[0][:, 0]
        assert np.mean(nees[100:]) < 3 * n
        *_, (ours, _) = followed(observer, stated, seed, 150, gated(observer, mean=wrong, deviation=deviation))
        assert sum(ours.counts.values()) < 0.01 * 150 * len(USED)
        assert not ours.persistent_rejection


def at_one_instant(observer: Observer, order: tuple[str, ...], limit: float) -> Estimator:
    """The cart's filter after readings of this order at step 10; the middle one is an outlier."""
    gate = Gate((limit,) * observer.n_z, (LONGEST,) * observer.n_z)
    stated = linear.settings(observer, gate=gate, state_noise=np.array([0.0, 0.4]))
    ours = Estimator(stated, ExtendedKalmanFilter(observer, stated))
    ours.advance(0, np.zeros(1), {})
    values = {"ruler": 0.35, "tachometer": 1.4, "accelerometer": 0.2}
    assert ours.advance(10, np.zeros(1), {name: [10.0, values[name]] for name in order})
    return ours


def test_a_reading_is_judged_by_the_variance_of_its_own_innovation(cart_observer: Observer) -> None:
    """Of the position 0.3 and 0.02, of the speed 0.3 and 0.1, of the acceleration 0.3 m/s^2 are expected."""
    speed = 1.4 / np.sqrt(0.3**2 + 0.4**2 * 0.01 + 0.1**2)
    order = ("ruler", "tachometer", "accelerometer")
    beyond, within = (at_one_instant(cart_observer, order, speed * share) for share in (0.999, 1.001))
    assert beyond.counts == {"rejected_tachometer": 1}
    assert beyond.rejections.on_end["tachometer"].distance == pytest.approx(speed, abs=1e-6)
    assert list(beyond.surprises) == ["ruler", "accelerometer"]
    assert beyond.take_stats().taken == 2
    assert not within.counts
    alone = at_one_instant(cart_observer, ("ruler", "accelerometer"), 100.0)
    assert_allclose(beyond.x, alone.x, rtol=0, atol=1e-15)
    assert_allclose(beyond.P, alone.P, rtol=0, atol=1e-15)
    assert abs(within.x[1] - alone.x[1]) > 1.0


def test_the_order_of_readings_is_of_no_effect(cart_observer: Observer) -> None:
    order = ("tachometer", "accelerometer", "ruler")
    one, other = (at_one_instant(cart_observer, each, 4.0) for each in (order, order[::-1]))
    assert one.counts == other.counts == {"rejected_tachometer": 1}
    assert one.x.tobytes() == other.x.tobytes()


def shifted(observer: Observer) -> Iterator[tuple[int, Estimator, Any]]:
    """A run in which the left encoder reads 0.2 rad too much from 0.3 s to 0.8 s."""

    def spoil(instant: int, readings: dict[str, list[float]]) -> None:
        if 30 <= instant < 80:
            readings["encoder_left"][1] += 0.2

    for j, (ours, truth) in enumerate(followed(observer, gated(observer), 3, 120, None, spoil)):
        yield j, ours, truth


def test_a_sensor_that_is_rejected_for_too_long_is_named_until_it_fits_again(observer: Observer) -> None:
    said = {}
    for j, ours, truth in shifted(observer):
        said[j] = ours.persistent_rejection
        assert np.all(np.abs(ours.x[: observer.n] - truth) < 5 * ours.deviations + 1e-9)
    assert [j for j, text in said.items() if text] == list(range(30 + LONGEST // 10, 80))
    assert said[50].startswith("the gate has rejected the last 21 readings of encoder_left, for 0.21 s, the newest ")
    assert said[50].endswith("process_noise, gate or sensor_timeout")


def test_few_rejections_of_a_slow_sensor_are_no_reason_however_long_they_take(cart_observer: Observer) -> None:
    gate = Gate((4.0,) * 3, (LONGEST,) * 3)
    stated = linear.settings(cart_observer, gate=gate, deviation=np.full(2, 0.01))
    ours = Estimator(stated, ExtendedKalmanFilter(cart_observer, stated))
    for number in range(1, LEAST + 2):
        ours.advance(500 * number, np.zeros(1), {"ruler": [500.0 * number, 50.0]})
        assert bool(ours.persistent_rejection) == (number >= LEAST)
    ours.begin(0)
    assert not ours.persistent_rejection


# a run


def test_a_run_says_how_many_readings_of_which_sensor_were_rejected() -> None:
    run = servonode.simulate("trailer_estimated", every=50, run__duration=6.0, estimator__gate=2.5)
    total = run.estimate.rejected_total
    assert set(total) == {"encoder_left", "encoder_right", "gyroscope", "camera_x", "camera_y"}
    share = total["gyroscope"] / 601
    assert 0.3 < share / 0.0124 < 3  # beyond 2.5 standard deviations
    assert run.columns["rejected_gyroscope"][-1] == total["gyroscope"]
    assert run.units["rejected_gyroscope"] == "1"
    assert run.final()["estimate"]["rejected"] == total
    rows = dict(summary_rows(run, "trailer_estimated"))
    assert f"gyroscope {total['gyroscope']}" in rows["rejected"]


def test_a_gate_for_one_sensor_leaves_the_others_alone() -> None:
    loop = resolve(read_launch("trailer_estimated", ["estimator.gate={ gyroscope = 4 }"]))
    assert loop.estimation is not None
    assert loop.estimation.settings.gated == ("gyroscope",)
    assert [name for name in loop.answer_columns if name.startswith("rejected")] == ["rejected_gyroscope"]


def test_a_wide_gate_changes_no_bit() -> None:
    plain, wide = (
        servonode.simulate("trailer_estimated", every=10, run__duration=0.5, **gate)
        for gate in ({}, {"estimator__gate": 100.0})
    )
    assert {name: x.tobytes() for name, x in plain.columns.items()} == {
        name: x.tobytes() for name, x in wide.columns.items() if not name.startswith("rejected")
    }


def test_a_controller_whose_sensor_is_shut_out_is_in_fault_estimate() -> None:
    """The filter is told of a start that it takes for certain, and that is wrong by 1 rad of the wheels."""
    run = servonode.simulate(
        "trailer_estimated", every=10, run__duration=4.0, estimator__gate=5.0, estimator__process_noise=0.001,
        estimator__initial={"theta1": 1.0}, estimator__initial_std=0.001,
    )  # fmt: skip
    assert run.fault["name"] == "law"
    assert "readings of encoder_left, for " in run.fault["text"]
    assert run.fault["t"] < 1.0
