"""Runs of a sweep with imperfect drives and sensors: each as `simulate` computes it, and nothing compiled for them."""

from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.variation import Variation
from servonode.definitions import cache
from servonode.wings.explore.sweeps.chunk import run_chunk
from servonode.wings.explore.sweeps.measures import Measures

KEYS = ("run.seed", "plant.sensor.noise.psi", "plant.sensor.drop", "plant.actuator.lag", "plant.safety.power_limit",
        "controller.delay", "plant.sensor.delay")  # fmt: skip
VALUES = [
    (1, 0.0, 0.0, 0.0, 1e9, 0, 0.0),
    (1, 0.01, 0.0, 0.0, 1e9, 0, 0.0),
    (2, 0.01, 0.0, 0.0, 1e9, 1, 0.004),
    (2, 0.01, 0.3, 0.05, 1e9, 2, 0.0),
    (3, 0.0, 0.5, 0.0, 0.01, 0, 0.02),
    (1, 0.0, 0.0, 0.0, 1e9, 0, 0.0),
]


def test_a_chunk_has_the_columns_of_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = servonode.load("trailer_pursuit", run__duration=1.0, run__mode="lockstep")
    wanted = [loop.simulate(values=dict(zip(KEYS, row, strict=True)), loop="nodes") for row in VALUES]
    loop.simulate(values={"plant.actuator.lag": 0.01})  # the loop with effects

    def refuse(*_: Any) -> None:
        raise AssertionError("compiled anew")

    monkeypatch.setattr(cache, "_compiled", refuse)
    variation = Variation(loop.closed_loop, KEYS)
    measures = Measures(variation, {}, histories=True)
    chunks = [run_chunk(variation, np.array(VALUES), measures, threads) for threads in (1, 2)]
    for found in chunks:
        assert found.reasons == [""] * len(VALUES)
        for i, run in enumerate(wanted):
            for name in ("X", "psi", "U1"):
                np.testing.assert_array_equal(found.histories[name][i], run.columns[name], name)
            assert found.measures["residual_heading_largest"][i] == np.nanmax(np.abs(run.residual["heading"]))
    assert len({run.final()["state"]["psi"] for run in wanted}) == len(VALUES) - 1


def test_answers_that_are_as_many_as_rows_by_chance_stand_at_their_instants() -> None:
    loop = servonode.load("trailer_pursuit", run__duration=0.1, run__mode="lockstep", plant__sensor__drop=0.5)
    measures = Measures(Variation(loop.closed_loop, ["run.seed"]), {}, histories=True)
    chunk = run_chunk(Variation(loop.closed_loop, ["run.seed"]), np.arange(40.0)[:, None], measures)
    for seed in range(40):
        run = loop.simulate(values={"run.seed": seed}, loop="nodes")
        np.testing.assert_array_equal(chunk.histories["residual_heading"][seed], run.residual["heading"])
