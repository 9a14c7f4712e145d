"""What messages of ROS 2 mean as goals of a run, without ROS and without DDS."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.wings.neighbours.ros2_goals import GoalRefused, GoalRule

GOALS = Path(__file__).parents[3] / "examples" / "goals"
WAY_POINTS = GoalRule({"x": "x", "y": "y"}, "", frozenset())


def vector(x: float = 0.0, y: float = 0.0, z: float = 0.0, **more: float) -> Any:
    return SimpleNamespace(x=x, y=y, z=z, **more)


def pose(place: Any, turn: Any, frame: str = "world") -> Any:
    header = SimpleNamespace(frame_id=frame)
    return SimpleNamespace(header=header, pose=SimpleNamespace(position=place, orientation=turn), point=place)


def twist(linear: Any, angular: Any) -> Any:
    return SimpleNamespace(linear=linear, angular=angular)


STRAIGHT = vector(w=1.0)


@pytest.mark.parametrize(("file", "words"), [
    (GOALS / "way_points.toml", {"/goal_pose": "x, y", "/clicked_point": "x, y"}),
    (GOALS / "teleop.toml", {"/cmd_vel": "v, omega"}),
    ("trailer_pursuit", {}),
])  # fmt: skip
def test_topics_give_the_targets_that_have_a_bandwidth(file: Any, words: dict[str, str]) -> None:
    assert GoalRule.of(resolve(read_launch(str(file)))).words() == words


def test_a_place_goes_to_the_axes_of_the_view_and_the_height_is_not_used() -> None:
    assert WAY_POINTS.of_point(pose(vector(1.0, 2.0, 9.0), STRAIGHT, ""), {}) == {"x": 1.0, "y": 2.0}
    assert WAY_POINTS.of_pose(pose(vector(1.0, 2.0, 9.0), vector(w=math.nan)), {}) == {"x": 1.0, "y": 2.0}
    upright = GoalRule({"x": "x", "h": "z"}, "", frozenset())
    assert upright.of_point(pose(vector(1.0, 2.0, 9.0), STRAIGHT), {}) == {"x": 1.0, "h": 9.0}


@pytest.mark.parametrize("turns", [-3, 0, 2])
def test_a_heading_stays_on_the_turn_of_its_last_value(turns: int, rng: np.random.Generator) -> None:
    rule = replace(WAY_POINTS, heading="psi")
    for angle in rng.uniform(-math.pi, math.pi, 20).tolist():
        turn = vector(z=math.sin(angle / 2), w=math.cos(angle / 2))
        last = angle + turns * math.tau + rng.uniform(-3.0, 3.0)
        goal = rule.of_pose(pose(vector(1.0, 2.0), turn), {"psi": last})
        assert goal["psi"] == pytest.approx(angle + turns * math.tau, abs=1e-12)
        assert rule.of_pose(pose(vector(), turn), {})["psi"] == pytest.approx(angle, abs=1e-12)


def test_a_twist_gives_speeds_and_what_is_not_a_number_is_left_to_the_run() -> None:
    rule = GoalRule({}, "", frozenset({"v", "omega"}))
    assert rule.of_twist(twist(vector(0.2), vector(z=-0.1)), {}) == {"v": 0.2, "omega": -0.1}
    assert math.isnan(rule.of_twist(twist(vector(math.nan), vector()), {})["v"])
    assert replace(rule, speeds=frozenset({"v"})).of_twist(twist(vector(0.2), vector()), {}) == {"v": 0.2}


NOTHING, SPEED = GoalRule({}, "", frozenset()), GoalRule({}, "", frozenset({"v"}))
HEADED = replace(WAY_POINTS, heading="psi")


@pytest.mark.parametrize(("rule", "method", "message", "said"), [
    (NOTHING, "of_pose", pose(vector(), STRAIGHT), "this run takes a place or an angle from nobody"),
    (NOTHING, "of_point", pose(vector(), STRAIGHT), "give targets x, y of its launch file a bandwidth"),
    (NOTHING, "of_twist", twist(vector(), vector()), "give targets v, omega of its launch file a bandwidth"),
    (WAY_POINTS, "of_point", pose(vector(), STRAIGHT, "map"), "frame 'map' is not known; give the goal in the frame"),
    (HEADED, "of_pose", pose(vector(), vector(w=0.0)), "orientation has length 0; give a unit quaternion"),
    (HEADED, "of_pose", pose(vector(), vector(w=math.nan)), "orientation has length nan"),
    (SPEED, "of_twist", twist(vector(0.1, 0.2), vector()), "linear.y = 0.2, for which this run has no target; give 0"),
    (SPEED, "of_twist", twist(vector(0.1), vector(z=math.nan)), "angular.z = nan, for which this run has no target"),
])  # fmt: skip
def test_a_goal_that_the_run_cannot_follow_is_refused(rule: Any, method: str, message: Any, said: str) -> None:
    with pytest.raises(GoalRefused) as refusal:
        getattr(rule, method)(message, {})
    assert said in str(refusal.value)
