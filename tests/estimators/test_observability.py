"""What `check` says of sensors and estimates, and what a robot does that believes too much of its hitch."""

from typing import Any

import numpy as np
import pytest

import servonode
from servonode.analysis import observability
from servonode.analysis.report import Report
from servonode.views.summary import summary_rows

ENCODERS = ["encoder_left", "encoder_right"]


def checked(name: str = "trailer_estimated", **overrides: Any) -> Report:
    return servonode.check(name, **{"run__duration": 5.0} | overrides)


def about_the_estimator(report: Report) -> list[tuple[str, str]]:
    return [(each.level, each.text) for each in report.findings if each.subject == "estimator"]


def test_encoders_alone_give_no_absolute_position() -> None:
    report = checked(estimator__sensors=ENCODERS)
    found = report.numbers["estimator"]
    assert found["unobserved"] == [["X"], ["Y"], ["psi"]]
    assert found["rank"] == 5
    assert found["needed"] == ["speed", "heading"]
    level, text = about_the_estimator(report)[0]
    assert level == "warn"
    assert "not observed by encoder_left, encoder_right: X, Y, psi (3 directions in which an error stays)" in text
    assert "the goal (speed, heading) depends on them" in text
    assert text.endswith("camera_x, camera_y would see some of them")


@pytest.mark.slow
def test_a_camera_and_encoders_see_everything() -> None:
    report = checked(run__duration=10.0)
    assert report.verdict == "yes"
    assert report.numbers["estimator"]["unobserved"] == []
    assert report.numbers["estimator"]["rank"] == 8
    level, text = about_the_estimator(report)[0]
    assert (level, text[:29]) == ("good", "every state is observed along")
    first, last = report.numbers["estimator"]["residual_std"]["heading"]
    assert last < 0.1 * first


@pytest.mark.slow
def test_what_a_gate_rejected_is_told_and_much_of_it_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the gyroscope one good reading in 22 is beyond two standard deviations."""
    for most, level in ((0.1, "good"), (0.02, "warn")):
        monkeypatch.setattr(observability, "REJECTED", most)
        report = checked(estimator__gate={"gyroscope": 2.0}, run__duration=4.0)
        ((found, text),) = [each for each in about_the_estimator(report) if each[1].startswith("the gate rejected")]
        assert found == level, text
        assert " of 401 readings of gyroscope" in text
        assert text.endswith(": raise the noise of gyroscope, process_noise or gate") == (level == "warn")


@pytest.mark.slow
def test_a_camera_whose_pictures_do_not_come_observes_nothing() -> None:
    for errors in ({"delay": 50.0}, {"drop": 0.999}, {"lost_from": 0.0, "lost_for": 100.0}):
        report = checked(plant__sensors={"camera_x": errors, "camera_y": errors})
        assert report.numbers["estimator"]["unobserved"] == [["X"], ["Y"], ["psi"]], errors
        first, last = report.numbers["estimator"]["residual_std"]["heading"]
        assert last > 0.5 * first, errors


def test_one_picture_tells_the_position_and_not_the_heading() -> None:
    report = checked(plant__sensors={"camera_x": {"rate": 1e-6}, "camera_y": {"rate": 1e-6}})
    assert report.numbers["estimator"]["unobserved"] == [["psi"]]


def test_an_unobserved_position_does_not_matter_to_a_goal_of_speeds() -> None:
    launch = {
        "run": {"duration": 5.0},
        "plant": {"machine": "diff_drive_trailer", "publish_every": 10},
        "controller": {"residuals": {"speed": "V - 0.4", "turning": "Omega - 0.2"}, "gains": {"lambda": 2.0}},
        "estimator": {"sensors": [*ENCODERS, "gyroscope"], "process_noise": 0.02},
    }
    report = servonode.check(launch)
    level, text = about_the_estimator(report)[0]
    assert level == "good"
    assert text.endswith("the goal does not depend on them")
    assert report.verdict == "yes"


@pytest.mark.slow
def test_a_robot_that_is_sure_of_a_straight_hitch_folds_its_trailer_and_the_law_does_not_see_it() -> None:
    """It backs its trailer, sure that the hitch is straight, where it is at 0.3 rad."""
    sure = servonode.simulate("trailer_reverse_estimated", every=10, estimator__initial_std={"phi": 0.0})
    assert sure.fault is None  # it completes
    assert max(abs(sure.residual["phi"][-100:])) < 0.01  # as far as the law can see
    assert abs(sure.state["phi"][-1]) > 3.0
    assert max(abs(sure.estimate.residual["phi"][-100:])) > 3.0
    told = dict(summary_rows(sure, "sure"))
    assert "phi 3.84e-01" in told["largest residual"]
    assert "phi 3.29" in told["truly"]


@pytest.mark.slow
def test_a_robot_that_doubts_it_finds_the_hitch_by_its_wheels_and_backs_on() -> None:
    run = servonode.simulate("trailer_reverse_estimated", every=10, run__seed=1)
    assert run.fault is None
    assert np.max(np.abs(run.state["phi"])) < 0.6
    assert not run.warnings
    assert abs(run.state["Y"][-1]) < 0.3
    soon = run.t > 2.0
    error = np.abs(run.estimate.state["phi"] - run.state["phi"])
    assert np.mean(error[soon] < 2 * run.estimate.std["phi"][soon]) > 0.9


@pytest.mark.slow
def test_check_refuses_the_run_of_the_one_and_warns_of_the_others_straight_line() -> None:
    refused = checked("trailer_reverse_estimated", estimator__initial_std={"phi": 0.0})
    assert refused.verdict == "no"
    assert any("surer than it is right" in text for _, text in about_the_estimator(refused))
    passed = checked("trailer_reverse_estimated", run__duration=10.0)
    assert passed.verdict == "yes"
    (text,) = [each.text for each in passed.findings if each.subject == "phi" and each.level == "warn"]
    assert "the readings say too little of it" in text
