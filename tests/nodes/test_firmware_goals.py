"""When a law in the machine's firmware acts: with the goal of a command whose inputs no limit has changed."""

from pathlib import Path

import numpy as np
import pytest

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.drivers.driver import LawTerms
from servonode.plants.simulated import SimulatedPlant
from tests.helpers.stepped import WAITS, Bench, active, puck

GOAL = [0.25, -0.5]


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[float], list[float]]]:
    """What a machine with a law of its own, of a goal of two numbers, was sent: inputs and goal."""
    sent: list[tuple[list[float], list[float]]] = []

    def follow(self: SimulatedPlant, applied: np.ndarray, goal: list[float]) -> None:
        sent.append((applied.tolist(), goal))

    terms = LawTerms(1, len(GOAL), (1.0, 1.0))
    monkeypatch.setattr(ClosedLoop, "device_law", property(lambda _: terms))
    monkeypatch.setattr(SimulatedPlant, "follow", follow, raising=False)
    return sent


def test_the_goal_goes_with_the_steps_at_which_it_holds(followed: list[object], tmp_path: Path) -> None:
    bench = active(puck(tmp_path, WAITS))
    bench.node.handle_request("disarm")
    bench.period(0.0)  # goal time stands meanwhile
    bench.node.handle_request("arm")
    assert bench.period(0.5, -0.25, goal=GOAL)
    assert followed == [([0.5, -0.25], [20.0, 10.0, *GOAL])]
    assert bench.written[-1] != (0.5, -0.25)


@pytest.mark.parametrize("goal", [{}, {"goal": GOAL[:1]}, {"goal": [*GOAL, 0.0]}])
def test_without_a_goal_of_its_length_the_inputs_act(
    goal: dict[str, list[float]], followed: list[object], tmp_path: Path
) -> None:
    bench = active(puck(tmp_path, WAITS))
    before = bench.counts.get("without_goal", 0)
    assert bench.period(0.5, **goal)
    assert (followed, bench.written[-1], bench.counts["without_goal"]) == ([], (0.5, 0.0), before + 1)


def test_no_goal_while_a_limit_changes_the_inputs(followed: list[object], tmp_path: Path) -> None:
    bench = active(puck(tmp_path, WAITS, "plant.safety.limit=0.5"))
    assert bench.period(0.75, goal=GOAL)
    assert (followed, bench.written[-1]) == ([], (0.5, 0.0))
    assert bench.period(0.25, goal=GOAL)
    assert len(followed) == 1


@pytest.mark.parametrize("soft", ["plant.safety.arming_limit={F=5}", "plant.safety.ramp=0.05"])
def test_no_goal_until_a_soft_start_is_over_even_where_it_changes_nothing(
    soft: str, followed: list[object], tmp_path: Path
) -> None:
    """A law in firmware does not know of the limits after an arming, and its inputs may be larger than these."""
    bench: Bench = active(puck(tmp_path, WAITS, soft, *(("plant.safety.arming_time=0.05",) if "limit" in soft else ())))
    bench.node.handle_request("disarm")
    bench.period(0.0)
    bench.node.handle_request("arm")
    found = []
    for _ in range(7):
        assert bench.period(0.0, goal=GOAL)
        found.append(len(followed))
    assert found == ([0, 0, 0, 0, 0, 1, 2] if "limit" in soft else [0, 0, 0, 0, 1, 2, 3])
