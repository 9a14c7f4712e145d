"""Designs of sweeps: by number what they are as a whole, as scipy and itertools have them; refusals."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import qmc

import servonode
from servonode.closed_loop.key_table import key_of, keys_of, keys_of_launch_files, sections
from servonode.closed_loop.launch_error import KeyRefused, LaunchError
from servonode.closed_loop.launch_file import launch_of_table, with_values
from servonode.definitions.progress import time_text
from servonode.wings.explore.sections import Sweep
from servonode.wings.explore.sweeps.design import MOST_RUNS, Axis, Design, stated_axes
from tests.helpers.point_masses import launch

WHOLE = [
    each for each in keys_of_launch_files() if (key := key_of(each)) and key.is_whole and not each.startswith("sweep.")
]
M1, M2, RATE, SEED = "plant.parameters.m1", "plant.parameters.m2", "controller.gains.lambda", "run.seed"
DELAY = "controller.delay"
THREE: dict[str, Any] = {
    M1: [3.0, 5.0],
    M2: {"values": [1.0, 2.0, 4.0]},
    RATE: {"low": 0.5, "high": 8.0, "scale": "log"},
}
METHODS = ("random", "latin_hypercube", "sobol")


def stated(vary: dict[str, Any], **keys: Any) -> Sweep:
    """[sweep] as a launch file states it."""
    table = {"run": {"duration": 1.0}, "plant": {"machine": "x"}, "sweep": {"vary": vary, **keys}}
    found = launch_of_table(table).section("sweep", Sweep)
    assert found is not None
    return found


def design(vary: dict[str, Any], duration: float = 20.0, **keys: Any) -> Design:
    return Design(stated(vary, **keys), duration)


def whole(made: Design) -> Any:
    return made.values(0, made.runs)


def test_a_grid_is_the_product_of_its_values_the_last_key_fastest() -> None:
    made = design({
        M1: {"low": 3.0, "high": 5.0, "points": 3}, M2: {"values": [4.0, 1.0]},
        RATE: {"low": 1.0, "high": 100.0, "points": 3, "scale": "log"}, SEED: [7, 9],
    })  # fmt: skip
    assert (made.keys, made.shape, made.runs) == ((M1, M2, RATE, SEED), (3, 2, 3, 3), 54)
    expected = list(itertools.product([3, 4, 5], [4, 1], [1, 10, 100], [7, 8, 9]))
    np.testing.assert_allclose(whole(made), expected, rtol=1e-14)


@pytest.mark.parametrize("method", ["grid", *METHODS])
def test_any_part_of_a_design_is_that_of_the_whole_in_whatever_order(method: str) -> None:
    vary = {M1: {"low": 3.0, "high": 5.0, "points": 10}, M2: {"values": list(range(10))}} if method == "grid" else THREE
    runs = {} if method == "grid" else {"runs": 100, "seed": 4}
    expected = whole(design(vary, method=method, **runs))
    made = design(vary, method=method, **runs)
    for first, last in ((60, 100), (0, 7), (7, 60), (31, 32)):
        np.testing.assert_array_equal(made.values(first, last), expected[first:last])


@pytest.mark.parametrize("method", METHODS)
def test_random_values_lie_between_the_ends_and_depend_on_the_seed(method: str) -> None:
    found = whole(design(THREE, method=method, runs=1000, seed=1))
    assert found.shape == (1000, 3)
    assert (found.min(axis=0) >= [3.0, 1.0, 0.5]).all()
    assert (found.max(axis=0) <= [5.0, 4.0, 8.0]).all()
    assert set(found[:, 1]) == {1.0, 2.0, 4.0}
    # the middle of a uniform, of one of three, and of a log-uniform distribution: 4, 2, 2
    np.testing.assert_allclose(np.median(found, axis=0), [4.0, 2.0, 2.0], rtol=0.1)
    again = whole(design(THREE, method=method, runs=1000, seed=1))
    np.testing.assert_array_equal(found, again)
    assert not np.isin(found[:, 0], whole(design(THREE, method=method, runs=1000, seed=2))[:, 0]).any()


def test_sobol_points_are_those_of_scipy() -> None:
    found = whole(design({M1: [0.0, 1.0], M2: [0.0, 1.0]}, method="sobol", runs=64, seed=3))
    np.testing.assert_array_equal(found, qmc.Sobol(2, rng=np.random.default_rng(3)).random(64))


def test_a_latin_hypercube_has_one_point_in_each_stratum_of_each_key() -> None:
    found = whole(design({M1: [0.0, 50.0], M2: [0.0, 50.0]}, method="latin_hypercube", runs=50))
    assert [sorted(np.floor(column)) for column in found.T] == [list(range(50))] * 2


def test_sobol_covers_the_square_more_evenly_than_random_points() -> None:
    def discrepancy(method: str) -> float:
        return float(qmc.discrepancy(whole(design({M1: [0.0, 1.0], M2: [0.0, 1.0]}, method=method, runs=256))))

    assert discrepancy("sobol") < 0.1 * discrepancy("random")


@pytest.mark.parametrize("method", METHODS)
def test_a_key_of_whole_numbers_gets_each_of_them_as_often(method: str) -> None:
    found = whole(design({SEED: [3, 6]}, method=method, runs=4096))[:, 0]
    values, counts = np.unique(found, return_counts=True)
    assert values.tolist() == [3, 4, 5, 6]
    # of 4096 independent draws the standard deviation is 28
    assert abs(counts - 1024).max() < (140 if method == "random" else 8)


@pytest.mark.parametrize("method", METHODS)
def test_a_key_of_whole_numbers_has_them_by_their_logarithms_too(method: str) -> None:
    """The number k has the share log((k + 1)/k) of log(9) in 1 to 8."""
    found = whole(design({DELAY: {"low": 1, "high": 8, "scale": "log"}}, method=method, runs=4096))[:, 0]
    numbers, counts = np.unique(found, return_counts=True)
    assert numbers.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    np.testing.assert_allclose(counts / 4096, np.log1p(1 / numbers) / np.log(9), atol=0.02)


@pytest.mark.parametrize("key", WHOLE)
def test_a_key_that_takes_whole_numbers_alone_gets_such(key: str) -> None:
    base = servonode.load(launch("x", 1.0, 1.0)).closed_loop
    with pytest.raises(LaunchError, match="not a whole number"):
        with_values(base.stated, {key: 2.5})
    found = whole(design({key: [1, 3]}, method="random", runs=20))[:, 0]
    assert set(found) == {1.0, 2.0, 3.0}


def test_a_grid_of_whole_numbers_has_whole_points_with_both_ends() -> None:
    assert whole(design({SEED: {"low": 1, "high": 10, "points": 4}}))[:, 0].tolist() == [1, 4, 7, 10]
    assert whole(design({SEED: {"low": 1, "high": 10, "points": 3}}))[:, 0].tolist() == [1, 6, 10]


def test_python_states_values_by_an_array_or_a_range_and_ends_by_a_list() -> None:
    given = {M1: np.linspace(1.0, 2.0, 3), SEED: range(2), M2: [0.5, 0.7]}
    assert stated_axes(given) == {M1: {"values": [1.0, 1.5, 2.0]}, SEED: {"values": [0.0, 1.0]}, M2: [0.5, 0.7]}


REFUSED: tuple[tuple[dict[str, Any], dict[str, Any], str | None, str], ...] = (
    ({}, {}, "vary", "no key varies"),
    ({M1: [3.0, 5.0]}, {}, M1, "a grid needs the number of values; give {low = 3, high = 5, points = 11}"),
    ({M1: [3.0, 4.0, 5.0]}, {}, M1, "3 numbers are no range; give [low, high], or {values = [3, 4, 5]}"),
    ({M1: [5.0, 3.0]}, {"method": "random", "runs": 9}, M1, "low = 5 is not below high = 3"),
    ({M1: {"low": 3.0, "points": 3}}, {}, M1, "high is missing; give [low, high], or values"),
    ({M1: {"low": 3.0, "values": [1.0]}}, {}, M1, "both values and a range"),
    ({M1: {"low": 0.0, "high": 1.0, "points": 3, "scale": "log"}}, {}, M1, "low = 0 has no logarithm"),
    ({M1: [3.0, 5.0]}, {"method": "sobol"}, "runs", "missing; the method sobol takes as many runs"),
    ({M1: {"values": [1.0]}}, {"runs": 10}, "runs", "a grid has its own number of runs; leave 10 out"),
    ({M1: {"low": 1.0, "high": 2.0, "points": 3}}, {"method": "random", "runs": 9}, M1, "points belongs to a grid"),
    ({SEED: [0.5, 3.0]}, {}, SEED, "the key takes whole numbers"),
    ({SEED: {"low": 1, "high": 3, "points": 4}}, {}, SEED, "points = 4 are more than there are whole numbers"),
)  # fmt: skip


@pytest.mark.parametrize(("vary", "keys", "key", "text"), REFUSED, ids=[text[:30] for *_, text in REFUSED])
def test_a_design_that_cannot_be_is_refused_with_its_key(
    vary: dict[str, Any], keys: dict[str, Any], key: str | None, text: str
) -> None:
    with pytest.raises(KeyRefused) as refusal:
        design(vary, **keys)
    assert text in str(refusal.value)
    assert refusal.value.key == key


@pytest.mark.parametrize(
    ("vary", "keys"),
    [
        ({M1: [3.0, 5.0]}, {"method": "sobol", "runs": 10**9}),
        ({M1: [3.0, 5.0]}, {"method": "latin_hypercube", "runs": 10**9}),
        ({M1: {"low": 3.0, "high": 5.0, "points": 10**9}}, {}),
        ({key: {"low": 1.0, "high": 2.0, "points": 1000} for key in (M1, M2, RATE)}, {}),
    ],
)
def test_a_billion_runs_are_refused_at_once_with_the_time_that_they_would_take(
    vary: dict[str, Any], keys: dict[str, Any]
) -> None:
    with pytest.raises(
        KeyRefused, match=r"1e\+09 runs of 20 s take about 46.3 days on one core at 5000 times real time"
    ):
        design(vary, **keys)
    assert design({M1: [3.0, 5.0]}, method="random", runs=MOST_RUNS).runs == MOST_RUNS


def test_times_have_the_largest_unit_of_which_there_are_two() -> None:
    assert [time_text(each) for each in (0.5, 119, 121, 7300, 2e5, 1e8)] == [
        "0.5 s", "119 s", "2.02 min", "2.03 h", "2.31 days", "3.17 years",
    ]  # fmt: skip


def test_an_axis_of_a_whole_number_is_whole() -> None:
    for section, struct in sections():
        for field in keys_of(struct) if "NAME" not in section and "[" not in section else ():
            dotted = f"{section}.{field.name}"
            known = key_of(dotted)
            assert known is not None
            assert Axis(dotted, [0, 2]).whole == known.is_whole
