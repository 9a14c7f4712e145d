"""Durations in a histogram of fixed size: percentiles beside numpy's, exact count and maximum, the newest median."""

import math

import numpy as np
import numpy.typing as npt
import pytest

from servonode.bus.durations import KEPT, LEAST, MOST, Durations, gathered, in_rows

WITHIN = 0.02  # relative
RANDOM = np.random.default_rng(7)
DISTRIBUTIONS = {
    "lognormal": RANDOM.lognormal(-9.0, 1.0, 20_000),
    "uniform": RANDOM.uniform(1e-4, 2e-4, 5_000),
    "exponential": RANDOM.exponential(1e-3, 317),
    "period_with_jitter": np.abs(RANDOM.normal(0.01, 1e-5, 10_000)),
    "all_the_same": np.full(1_000, 0.01),
    "two_heaps": np.where(RANDOM.random(20_000) < 0.99, 1e-4, 5e-2),
    "heavy_tail": 1e-6 + 1e-5 * RANDOM.pareto(1.5, 20_000),
    "ends_of_a_bucket": np.repeat([1.0001e-3, 1.0139e-3], 50),
    "three": np.array([1e-4, 3e-3, 0.2]),
    "two": np.array([1e-6, 1.0]),
    "one": np.array([0.5]),
    "whole_range": np.geomspace(1.01 * LEAST, 0.99 * MOST, 999),
}


def filled(values: npt.NDArray[np.float64]) -> Durations:
    durations = Durations()
    for value in values.tolist():
        durations.add(value)
    return durations


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_percentiles_are_numpys_within_two_per_cent_and_the_rest_is_exact(name: str) -> None:
    values = DISTRIBUTIONS[name]
    durations = filled(values)
    found = durations.percentiles()
    assert list(found) == ["p50", "p99", "p999", "max"]
    expected = np.percentile(values, [50.0, 99.0, 99.9])
    assert [found["p50"], found["p99"], found["p999"]] == pytest.approx(expected, rel=WITHIN)
    assert list(found.values()) == sorted(found.values())
    assert durations.count == len(values)
    assert durations.maximum == found["max"] == values.max()
    assert durations.recent() == np.median(values[-KEPT:])
    assert durations.recent(1) == values[-1]
    assert durations.recent(10 * KEPT) == durations.recent()


def test_nothing_added_has_no_percentiles() -> None:
    durations = Durations()
    assert durations.percentiles() == {}
    assert durations.flat("lateness") == {}
    assert (durations.count, durations.maximum, durations.recent()) == (0, 0.0, 0.0)


@pytest.mark.parametrize("value", [-1.0, -0.0, 0.0, -math.inf, math.nan])
def test_what_is_not_positive_counts_as_nothing(value: float) -> None:
    durations = Durations()
    durations.add(value)
    assert durations.percentiles() == {"p50": 0.0, "p99": 0.0, "p999": 0.0, "max": 0.0}
    assert durations.count == 1
    assert durations.recent() == 0.0


def test_beyond_the_range_the_maximum_is_exact_and_percentiles_stay_between() -> None:
    durations = filled(np.array([1e-9, 5e-8, 1e-3, 2e3, 5e3]))
    found = durations.percentiles()
    assert found["p50"] == pytest.approx(1e-3, rel=WITHIN)
    assert MOST <= found["p99"] <= found["p999"] <= found["max"] == 5e3
    assert filled(np.array([2e-8] * 9)).percentiles()["p99"] == 2e-8


@pytest.mark.parametrize("value", [LEAST, math.nextafter(LEAST, 0), MOST, math.nextafter(MOST, 0), 2.0**-10])
def test_the_edges_of_buckets_are_counted(value: float) -> None:
    assert filled(np.array([value])).percentiles() == dict.fromkeys(("p50", "p99", "p999", "max"), value)


def test_memory_does_not_grow() -> None:
    durations = Durations()
    before = [len(durations._buckets), len(durations._newest)]
    for i in range(3 * KEPT):
        durations.add(i * 1e-5)
    assert [len(durations._buckets), len(durations._newest)] == before
    with pytest.raises(AttributeError):
        durations.more = 1  # type: ignore[attr-defined]


def test_a_status_message_carries_flat_names_that_are_gathered_again() -> None:
    trips, ages = filled(DISTRIBUTIONS["uniform"]), filled(DISTRIBUTIONS["two"])
    flat = trips.flat("round_trip") | ages.flat("command_age")
    assert list(flat)[:4] == ["round_trip_p50", "round_trip_p99", "round_trip_p999", "round_trip_max"]
    others = {"rate": 1.0, "round_trip": 1e-4, "speed_max": 3.0}
    assert gathered(flat | others) == {"round_trip": trips.percentiles(), "command_age": ages.percentiles()}


def test_rows_stand_in_order_and_what_was_not_measured_has_none() -> None:
    each = {"p50": 1e-3, "p99": 2e-3, "p999": 0.25, "max": 1.0}
    rows = in_rows({"plant": {"round_trip_s": each, "execution_s": {}, "period_s": each}, "target": {}})
    assert [(node, text.split()) for node, text in rows] == [
        ("timing [ms]", ["p50", "p99", "p99.9", "max"]),
        ("plant", ["period", "1.000", "2.000", "250.000", "1000.000"]),
        ("plant", ["round", "trip", "1.000", "2.000", "250.000", "1000.000"]),
    ]
    assert len({len(text) for _, text in rows}) == 1
    assert in_rows({"plant": {}}) == []


def test_numbers_wider_than_their_column_stay_apart() -> None:
    late = {"p50": 17.8, "p99": 136.2, "p999": 138.0, "max": 138.4}
    assert in_rows({"plant": {"lateness": late}})[1][1].split() == [
        "lateness",
        "17800.000",
        "136200.000",
        "138000.000",
        "138400.000",
    ]
