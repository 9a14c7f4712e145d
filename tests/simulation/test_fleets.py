"""Several robots in one simulation: each follows the others' states, and the stop of one is the stop of all."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import servonode
from servonode.closed_loop.fleet import read_fleet, resolve_fleet
from servonode.record.run import Run
from servonode.simulation.simulate_fleet import simulate_fleet

PERIOD = 0.01
CONVOY = """[run]
duration = 2.0
[robots.last]
include = "trailer_pursuit"
plant.initial.X = -4.0
target = {x = "middle.X", y = "middle.Y"}
[robots.first]
include = "trailer_pursuit"
[robots.middle]
include = "trailer_pursuit"
plant.initial.X = -2.0
target = {x = "first.X", y = "first.Y"}
"""


def simulated(folder: Path, *overrides: str, text: str = CONVOY) -> Mapping[str, Run]:
    (folder / "convoy.toml").write_text(text)
    fleet = read_fleet(folder / "convoy.toml", overrides)
    assert fleet is not None
    loops = resolve_fleet(fleet)
    return simulate_fleet(loops, dict.fromkeys(loops, 1))


@pytest.mark.slow
def test_each_robot_follows_the_one_before_it(tmp_path: Path) -> None:
    runs = simulated(tmp_path, "run.duration=30")
    x = {name: run.state["X"] for name, run in runs.items()}
    assert list(runs) == ["first", "middle", "last"]
    assert x["first"][-1] > 4
    assert x["first"][-1] > x["middle"][-1] > x["last"][-1] > -3
    for behind, before in (("middle", "first"), ("last", "middle")):
        apart = np.hypot(*(runs[before].state[name] - runs[behind].state[name] for name in ("X", "Y")))
        assert 1.9 < apart.min() < apart.max() < 3.0


def test_a_robot_that_nobody_follows_moves_as_if_alone(tmp_path: Path) -> None:
    both = simulated(tmp_path)["first"]
    alone = servonode.simulate("trailer_pursuit", run__duration=2.0, every=1)
    for name, values in both.state.items():
        np.testing.assert_array_equal(values, alone.state[name])


def stops(*robots: str, at: float = 0.2) -> list[str]:
    """Settings with which robots stop as soon as a wheel of theirs has turned by this much [rad]."""
    return [f"robots.{robot}.plant.safety.state_limit={{theta1 = {at}}}" for robot in robots]


def faults(runs: Mapping[str, Run]) -> dict[str, tuple[str, float]]:
    """Name and time [s] of the fault of each robot that has one."""
    return {name: (run.fault["name"], run.fault["t"]) for name, run in runs.items() if run.fault}


@pytest.mark.slow
@pytest.mark.parametrize("culprit", ["first", "middle", "last"])
def test_all_stop_within_a_period_of_the_first_that_stops(tmp_path: Path, culprit: str) -> None:
    runs = simulated(tmp_path, "run.duration=6", *stops(culprit))
    found = faults(runs)
    name, at = found.pop(culprit)
    assert name == "implausible_state"
    assert 0.5 < at < 5.0
    assert len(found) == 2
    for other, (name, t) in found.items():
        assert name == "robot"
        assert 0.0 <= t - at <= PERIOD + 1e-9
        assert str(runs[other].faults[0]["text"]).startswith(f"robot {culprit} has stopped: implausible_state: ")


def test_two_that_stop_at_once_each_keep_their_own_fault(tmp_path: Path) -> None:
    twins = CONVOY.replace('target = {x = "middle.X", y = "middle.Y"}\n', "").replace("plant.initial.X = -4.0\n", "")
    found = faults(simulated(tmp_path, "run.duration=6", *stops("first", "last"), text=twins))
    assert found["first"] == found["last"]
    assert [name for name, _ in found.values()].count("robot") == 1
    assert found["middle"][0] == "robot"


@pytest.mark.slow
def test_the_first_to_stop_stops_a_robot_that_would_stop_later(tmp_path: Path) -> None:
    early = faults(simulated(tmp_path, "run.duration=6", *stops("last", at=1e-5)))
    found = faults(simulated(tmp_path, "run.duration=6", *stops("first", at=2.0), *stops("last", at=1e-5)))
    assert found == early
    assert [name for name, _ in found.values()] == ["robot", "robot", "implausible_state"]


def test_a_lost_state_of_the_leader_is_the_one_before_it(tmp_path: Path) -> None:
    lossy = simulated(tmp_path, "robots.first.plant.sensor.drop=0.3")
    assert not any(run.faults for run in lossy.values())
    whole = simulated(tmp_path)
    assert np.abs(lossy["middle"].state["X"] - whole["middle"].state["X"]).max() < 1e-2
