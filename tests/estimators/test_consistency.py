"""Whether the filter is as good as it says, over many seeded runs of a machine with process noise and late readings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy.stats import chi2

import servonode
from servonode.estimators.estimator import Estimator
from servonode.estimators.kalman import ExtendedKalmanFilter, consistency
from servonode.estimators.settings import EstimatorSettings
from servonode.mechanics.observer import Observer, load_observer
from servonode.plants import MachineSource, find_machine
from servonode.plants.sensors import SensorEffects, SensorSuite

Array = Any
STEP_NS, PERIOD = 1_000_000, 10
START = np.array([0.3, -0.2, 0.4, 0.2, 0.4, 0.1, 0.0, 0.0, 0.0])
WELL_KNOWN = np.array([0.05, 0.05, 0.05, 0.1, 0.05, 0.05, 0.05, 0.05])
NOISE = {"V": 0.05, "Omega": 0.05, "phi": 0.02}
USED = ("encoder_left", "encoder_right", "gyroscope", "accelerometer_left", "camera_x", "camera_y")


@pytest.fixture(scope="module")
def observer() -> Observer:
    source = MachineSource(find_machine("diff_drive_trailer", Path()))
    return load_observer(source.load({}), source.key, source.build, "rk4")


def settings(observer: Observer, **values: Any) -> EstimatorSettings:
    """Encoders with Gaussian noise in place of a quantum, for which the bands are exact."""
    names = observer.machine.description.state_names
    sensors = tuple(
        replace(each, noise=0.002, quantum=0.0) if each.name.startswith("encoder") else each
        for each in observer.sensors
    )
    stated = {
        "mean": START, "deviation": WELL_KNOWN, "input_noise": np.zeros(2),
        "state_noise": np.array([NOISE.get(name, 0.0) for name in names]), "sensors": sensors,
        "used": tuple(i for i, each in enumerate(sensors) if each.name in USED), "step_ns": STEP_NS, "horizon": 100,
    }  # fmt: skip
    return EstimatorSettings(**(stated | values))


def suite(observer: Observer, stated: EstimatorSettings, seed: int) -> SensorSuite:
    step = STEP_NS / 1e9
    effects = [
        SensorEffects(each, 1 / (each.rate * step) if each.rate else PERIOD, round(each.delay / step))
        for each in stated.sensors
    ]
    return SensorSuite(observer, tuple(effects), seed)


def drawn(P: Array, rng: np.random.Generator) -> Array:
    """A sample of a covariance, which may be singular."""
    values, directions = np.linalg.eigh(P)
    return directions @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=len(values)))


def followed(
    observer: Observer, stated: EstimatorSettings, seed: int, instants: int, believed: Any = None, spoil: Any = None
) -> Any:
    """The estimator and the true state (n,) at each instant, `believed`: its settings, where they are others.

    spoil(instant, readings) changes the readings.
    """
    rng = np.random.default_rng(seed)
    ours = Estimator(believed or stated, ExtendedKalmanFilter(observer, believed or stated))
    sensors, n = suite(observer, stated, seed), observer.n
    x = START.copy()
    x[:n] += stated.deviation * rng.normal(size=n)
    u = np.zeros(2)
    S, V = stated.state_noise**2, stated.input_noise**2
    for j in range(instants):
        k = j * PERIOD
        sensors.take(k, k * 1e-3, x, u)
        readings = sensors.give(k)
        if spoil is not None:
            spoil(j, readings)
        assert ours.advance(k, u, readings)
        yield ours, x[:n]
        u = np.array([0.15 * np.sin(j / 12), 0.15 * np.cos(j / 17)])
        spread = np.zeros((n, n))
        observer.predict(k, PERIOD, STEP_NS, x, u, S, V, spread)
        x[:n] += drawn(spread, rng)


def errors(observer: Observer, *words: Any) -> Any:
    """NEES with its dimensions at each instant, and the sums of NIS and of readings; arguments as of `followed`."""
    found, sums = [], np.zeros(2)
    for ours, truth in followed(observer, *words):
        found.append(consistency(ours.x[: observer.n], ours.P, truth))
        stats = ours.take_stats()
        sums += stats.nis, stats.taken
    return np.array(found), sums


def band(dimensions: int, runs: int, chance: float = 0.95) -> Any:
    """The band in which the mean of this many independent chi-square values lies with this chance."""
    tail = (1 - chance) / 2
    return chi2.ppf([tail, 1 - tail], dimensions * runs) / runs


def study(
    observer: Observer, runs: int, instants: int, stated: EstimatorSettings, believed: Any = None, spoil: Any = None
) -> Any:
    """Mean NEES over the runs at each instant (instants,), and NIS for each reading."""
    done = [errors(observer, stated, seed, instants, believed, spoil) for seed in range(runs)]
    assert {int(each) for found, _ in done for each in found[:, 1]} == {observer.n}
    nis, readings = np.sum([sums for _, sums in done], axis=0)
    return np.mean([found[:, 0] for found, _ in done], axis=0), nis / readings, int(readings)


@pytest.mark.parametrize("instants", [40, pytest.param(150, marks=pytest.mark.soak)])
def test_nees_and_nis_are_inside_their_bands_over_200_runs(observer: Observer, instants: int) -> None:
    nees, nis, readings = study(observer, 200, instants, settings(observer))
    low, high = band(observer.n, 200)
    assert low < nees[-1] < high
    assert np.mean((nees > low) & (nees < high)) > 0.9
    few, most = band(readings, 1)
    assert few / readings < nis < most / readings


def test_a_filter_that_believes_too_much_of_its_machine_leaves_the_band(observer: Observer) -> None:
    stated = settings(observer)
    nees, _, _ = study(observer, 20, 100, stated, settings(observer, state_noise=stated.state_noise / 20))
    assert nees[-1] > 3 * band(observer.n, 20)[1]


def test_sensors_are_lost_for_a_second_and_come_back() -> None:
    """The launch file's `lost_from` and `lost_for`: meanwhile less is known, as much as is said, and then all again."""
    lost = {
        f"plant__sensors__{name}__{key}": at for name in USED for key, at in (("lost_from", 3.0), ("lost_for", 1.0))
    }
    used = {"estimator__sensors": list(USED), "run__duration": 6.0, "every": 10}
    whole, run = (servonode.simulate("trailer_estimated", **used, **more) for more in ({}, lost))
    assert run.fault is None
    away = (run.t > 3.2) & (run.t < 4.0)
    assert run.estimate.readings[away].sum() < whole.estimate.readings[away].sum()
    for name, values in run.estimate.state.items():
        std, usual = run.estimate.std[name], whole.estimate.std[name]
        assert np.all(np.abs(values - run.state[name]) < 5 * std + 1e-9), name
        assert std[-1] < 1.1 * usual[-1], name
    assert run.estimate.std["X"][399] > 1.2 * whole.estimate.std["X"][399]
    assert np.max(np.abs(run.estimate.residual["heading"][-50:])) < 0.03
