"""The unscented filter: on the same readings the extended one where all is linear, and near it where it is not."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch

Array = Any


def on_the_same_readings(torque: Any, instants: int, name: str = "trailer_estimated", **estimator: Any) -> Any:
    """Means, deviations and truth (instants, n) of both filters along one motion under torques of the instant."""
    found: dict[str, Any] = {}
    for kind in ("ekf", "ukf"):
        stated = [f"estimator.{key}={value}" for key, value in {"kind": f'"{kind}"', **estimator}.items()]
        loop = resolve(read_launch(name, stated))
        assert loop.estimation is not None
        plant, ours = loop.plant(), loop.estimation.estimator()
        u, rows = np.zeros(loop.machine.n_inputs), []
        for j in range(instants):
            assert ours.advance(plant.k, u, plant.read().readings or {})
            rows.append([ours.x[:-1].copy(), ours.deviations, plant.x[:-1].copy()])
            u = np.array(torque(j))
            plant.write(u)
            plant.advance(10)
        found[kind] = np.array(rows)
    return found["ekf"], found["ukf"]


def test_where_all_is_linear_both_filters_are_one() -> None:
    """Heading and hitch are known exactly and nothing turns: position, speed and wheels are linear."""
    noise, known = "{ V = 0.02 }", "{ X = 0.1, V = 0.1, theta1 = 0.1 }"
    used = '["encoder_left", "encoder_right", "camera_x"]'
    extended, unscented = on_the_same_readings(
        lambda j: [0.02 * np.sin(j / 9)] * 2, 200, process_noise=noise, initial_std=known, sensors=used
    )
    assert_allclose(unscented[:, 0], extended[:, 0], rtol=0, atol=1e-8)
    assert_allclose(unscented[:, 1], extended[:, 1], rtol=0, atol=1e-6)  # roots of variances near zero


def test_where_it_is_not_they_are_nearer_to_each_other_than_to_the_truth() -> None:
    extended, unscented = on_the_same_readings(lambda j: [0.1 * np.sin(j / 12), 0.1 * np.cos(j / 17)], 300)
    apart = np.abs(extended[:, 0] - unscented[:, 0])[100:]
    assert np.max(apart / extended[100:, 1]) < 0.5
    for mean, deviation, truth in (each[100:].transpose(1, 0, 2) for each in (extended, unscented)):
        assert np.mean(np.abs(mean - truth) < 3 * deviation) > 0.97


def test_the_sphero_keeps_its_norms_on_either() -> None:
    extended, unscented = on_the_same_readings(lambda j: [0.01, 0.02 * np.sin(j / 20), 0.0], 60, "sphero_pursuit")
    for rows in (extended, unscented):
        mean, deviation, truth = rows.transpose(1, 0, 2)
        n, q = slice(2, 5), slice(11, 15)
        assert_allclose(np.linalg.norm(mean[:, n], axis=1), 1.0, rtol=0, atol=1e-6)
        assert_allclose(np.linalg.norm(mean[:, q], axis=1), 1.0, rtol=0, atol=1e-6)
        assert np.mean(np.abs(mean - truth) < 3 * deviation + 1e-6) > 0.95


def test_the_law_is_stable_on_it() -> None:
    run = servonode.simulate("trailer_estimated", every=10, estimator__kind="ukf", run__duration=6.0)
    assert run.fault is None
    assert np.max(np.abs(run.estimate.residual["heading"][-100:])) < 0.05
    assert np.sum(run.estimate.nis) / np.sum(run.estimate.readings) == pytest.approx(1.0, abs=0.15)
