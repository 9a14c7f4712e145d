"""Limits of joints and singular poses in `check`: which, when, at which pose."""

from typing import Any

import pytest

import servonode
from servonode.mechanics import Model, coordinate, frame, input_, link, slide, tree
from tests.helpers.arms import launch, two

OUT_OF_REACH = {"residuals": {"x": "tool.x - 0.65 - 0.1*t", "z": "tool.z"}}
BENT = {"q1": -0.8, "q2": 1.6}


def drawer() -> Model:
    x = coordinate("x", "travel", "m", limit=1.5, rate_limit=0.8)
    made = tree([link("tray", joints=(slide(x, (1, 0, 0)),), mass=2.0)], frames=[frame("handle", "tray")])
    return Model(name="drawer", description="a drawer", tree=made, inputs={input_("F", "pull", "N"): x.rate})


def check(machine: Any, start: Any, controller: Any, **plant: Any) -> Any:
    stated = launch(machine, start, controller, 3.0)
    return servonode.load({**stated, "plant": stated["plant"] | plant}).check()


def warned(report: Any, subject: str) -> list[str]:
    return [each.text for each in report.findings if each.level == "warn" and each.subject == subject]


def test_speed_and_place_and_force_are_named_with_the_time_at_which_they_reach_their_limits() -> None:
    goal = {"goal": {"handle": {"x": "1.6*sin(t)**2"}}, "gains": {"lambda": 20.0}}
    place, speed = warned(check(drawer, {}, goal), "x")
    assert place.startswith("reaches the limit of its size, 1.5 m, at t = 1.3")  # 1.6 sin(t)^2 = 1.5 at 1.32 s
    assert speed.startswith("reaches the limit of its speed, 0.8 m per s, at t = 0.2")  # 1.6 sin(2t) = 0.8 at 0.26 s
    assert "and at most 1.6 m per s in the run" in speed
    (force,) = warned(check(drawer, {}, goal, safety={"limit": 4.0}), "F")
    assert force.startswith("reaches its limit 4, first at t = ")


def test_within_its_limits_nothing_is_said_of_a_joint() -> None:
    report = check(drawer, {}, {"goal": {"handle": {"x": "0.5*sin(t)**2"}}, "gains": {"lambda": 20.0}})
    assert warned(report, "x") == warned(report, "F") == []


@pytest.mark.slow
def test_a_law_that_stops_at_a_singular_pose_names_it() -> None:
    report = check(two, BENT, OUT_OF_REACH)
    (refused,) = [each.text for each in report.findings if each.subject == "run" and each.level == "refuse"]
    assert "the servo-constraints x, z lost rank" in refused
    angles = dict(each.split(" = ") for each in refused[refused.rindex("(at ") + 4 : -1].split(", "))
    assert abs(float(angles["q2"])) < 0.2
    simulated = report.numbers["simulated"]
    assert simulated["condition_max_t"] > 2.0
    assert simulated["condition_max_pose"].keys() == {"q1", "q2"}
