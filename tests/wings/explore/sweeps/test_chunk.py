"""Chunks of runs: the bits of `loop.simulate` for each, faults as the nodes name them, any number of threads."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.variation import Variation
from servonode.simulation.simulate import simulate_nodes
from servonode.wings.explore.sweeps.chunk import Chunk, run_chunk
from servonode.wings.explore.sweeps.measures import Measures, columns_of_run

CASES: dict[str, tuple[dict[str, Any], dict[str, tuple[float, float]]]] = {  # launch file: settings, ranges by key
    "trailer_pursuit": (
        {"run__duration": 0.4},
        {"plant.initial.phi": (-0.5, 0.5), "plant.parameters.m1": (3, 5), "controller.gains.lambda": (1, 4)}
        | {"goal.speed": (0.5, 2)},
    ),
    "trailer_reverse": (
        {"run__duration": 0.3},
        {"plant.parameters.m2": (1.5, 3), "controller.parameters.l": (0.1, 0.3)},
    ),
    "sphero_circle": (
        {"run__duration": 0.3},
        {"controller.settings.point.1": (1.2, 1.8), "plant.sensor.noise": (1e-4, 1e-3)},
    ),
    "snowboarder_slalom": ({"run__duration": 0.25}, {"plant.initial.y0": (-0.2, 0.2)}),
    "hoop_rolls": ({"run__duration": 0.2}, {"plant.initial.s": (0.1, 0.4)}),
}
FAULTS: dict[
    str, tuple[float, dict[str, tuple[float, float]]]
] = {  # launch file: its duration, and ranges in which it meets a fault
    "sphero_runs_over": (1.0, {"target.x": (3, 4)}),
    "snowboarder_turns_back": (2.0, {"plant.initial.y0": (24, 26)}),
    "hoop_flies": (2.0, {"plant.initial.s": (3.6, 3.8)}),
    "snowboarder_falls": (1.6, {"plant.initial.sigma": (0.02, 0.3)}),
}

# of machines with inputs
EFFECTS: dict[str, Any] = {"plant__sensor": {"noise": 1e-6, "drop": 0.2}, "plant__actuator__lag": 0.001}


def drawn(ranges: Mapping[str, tuple[float, float]], n: int) -> Any:
    low, high = np.array(list(ranges.values()), dtype=float).T
    return np.random.default_rng(3).uniform(low, high, (n, len(ranges)))


def chunk_of(name: str, settings: dict[str, Any], keys: list[str], values: Any, **more: Any) -> Chunk:
    variation = Variation(servonode.load(name, **settings).closed_loop, keys)
    return run_chunk(variation, values, Measures(variation, {}, histories=True), **more)


@pytest.mark.parametrize("name", CASES)
def test_each_run_has_the_bits_of_simulate(name: str) -> None:
    settings, ranges = CASES[name]
    values = drawn(ranges, 4)
    chunk, loop = chunk_of(name, settings, list(ranges), values), servonode.load(name, **settings)
    for i, row in enumerate(values.tolist()):
        run = loop.simulate(values=dict(zip(ranges, row, strict=True)))
        assert run.fault is None
        assert chunk.reasons[i] == ""
        for column, expected in columns_of_run(run).items():
            assert np.array_equal(chunk.histories[column][i], expected, equal_nan=True), column
        for residual, largest in run.residual_max.items():
            assert chunk.measures[f"residual_{residual}_largest"][i] == largest


@pytest.mark.parametrize(
    ("name", "effects"),
    [*((name, {}) for name in FAULTS), *((name, EFFECTS) for name in FAULTS if name != "hoop_flies")],
)
def test_a_fault_is_that_of_the_nodes(name: str, effects: dict[str, Any]) -> None:
    duration, ranges = FAULTS[name]
    values, settings = drawn(ranges, 3), {"run__duration": duration, **effects}
    chunk = chunk_of(name, settings, list(ranges), values)
    variation = Variation(servonode.load(name, **settings).closed_loop, list(ranges))
    for i, row in enumerate(values.tolist()):
        run = simulate_nodes(variation.at(row), 10)
        assert run.fault is not None
        found = {each: chunk.measures[each][i] for each in ("fault", "fault_time")}
        assert found == {"fault": run.fault["name"], "fault_time": run.fault["t"]}
        assert chunk.reasons[i] == f"{run.fault['name']}: {run.fault['text']}"
        assert np.isnan(chunk.measures["settle_time"][i])
        assert chunk.measures["duration"][i] == run.fault["t"]
        t = chunk.histories["t"][i]
        assert np.nanmax(t) < run.fault["t"]
        n = int(np.isfinite(t).sum())
        for state, expected in run.state.items():
            kept = chunk.histories[state][i][:n][np.isin(t[:n], run.t)]
            assert len(kept) > 3
            assert np.array_equal(kept, expected[np.isin(run.t, t[:n])]), state


def test_a_run_that_cannot_begin_is_a_row_with_its_reason() -> None:
    values = np.array([[0.1, 4.0], [0.1, -4.0], [np.nan, 4.0], [0.2, 4.0]])
    keys = ["plant.initial.phi", "plant.parameters.m1"]
    chunk = chunk_of("trailer_pursuit", {"run__duration": 0.2}, keys, values)
    assert chunk.measures["fault"].tolist() == ["", "refused", "refused", ""]
    assert [reason.partition(":")[0] for reason in chunk.reasons] == [
        "", "trailer_pursuit [plant.parameters] m1", "trailer_pursuit [plant.initial] phi", "",
    ]  # fmt: skip
    assert np.isnan(chunk.measures["fault_time"]).all()
    assert np.isnan(chunk.histories["phi"][1]).all()
    assert chunk.histories["phi"][3, 0] == 0.2


def test_any_number_of_threads_gives_the_same_chunk() -> None:
    ranges = {"plant.initial.phi": (-0.5, 0.5), "plant.parameters.m1": (-0.5, 4), "controller.delay": (0, 0)}
    values = drawn(ranges, 24)
    values[:, 2] = np.arange(24) % 3
    one, *others = (
        chunk_of("trailer_pursuit", {"run__duration": 0.3}, list(ranges), values, threads=threads)
        for threads in (1, 2, 5)
    )
    assert "" in one.reasons
    assert any(one.reasons)
    for other in others:
        assert other.reasons == one.reasons
        for kept in ("measures", "histories"):
            for name, expected in getattr(one, kept).items():
                found = getattr(other, kept)[name]
                assert found.tolist() == expected.tolist() or np.array_equal(found, expected, equal_nan=True), name


def test_runs_of_different_lengths_are_kept_beside_each_other() -> None:
    values = np.array([[0.1], [0.3], [0.2]])
    chunk = chunk_of("trailer_pursuit", {}, ["run.duration"], values)
    assert chunk.measures["duration"].tolist() == [0.1, 0.3, 0.2]
    assert chunk.histories["t"].shape == (3, 31)
    assert np.isfinite(chunk.histories["t"]).sum(axis=1).tolist() == [11, 31, 21]


def test_an_error_of_a_thread_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    variation = Variation(servonode.load("trailer_pursuit", run__duration=0.1).closed_loop, ["plant.initial.phi"])
    calls = []

    def failing(_: object, values: list[float]) -> None:
        calls.append(values)
        raise KeyboardInterrupt

    monkeypatch.setattr("servonode.wings.explore.sweeps.chunk.Runner.run", failing)
    with pytest.raises(KeyboardInterrupt):
        run_chunk(variation, np.zeros((1000, 1)), Measures(variation, {}), threads=2)
    assert len(calls) <= 4
