"""What a run warns of, and what it does not know: the same in every loop, and with `check`."""

from typing import Any

import numpy as np
import pytest

import servonode

WEAK: dict[str, Any] = {"run__duration": 4.0, "plant__actuator__limit": 0.01}


def named(run: Any, name: str) -> list[str]:
    return [each.text for each in run.warnings if each.name == name]


@pytest.mark.parametrize("loop", ["fused", "nodes"])
def test_drives_at_their_limit_and_a_goal_that_is_missed_are_warned_of(loop: Any) -> None:
    run = servonode.simulate("trailer_pursuit", loop=loop, **WEAK)
    assert run.fault is None
    assert [each.partition(":")[0] for each in named(run, "goal")] == ["speed", "heading"]
    share = float(np.mean(np.abs(run.input["U1"]) >= 0.01 * (1 - 1e-9)))
    assert run.limited_share["U1"] == share > 0.5
    assert named(run, "input_limit")[0] == f"U1 is at its limit of 0.01 N m for {100 * share:.3g} % of the time"
    assert [each["name"] for each in run.final()["warnings"]] == [each.name for each in run.warnings]
    assert repr(run).count("warning  ") == len(run.warnings)


def test_a_run_misses_its_goal_where_check_refuses_it() -> None:
    report = servonode.check("trailer_pursuit", **WEAK)
    refused = [f"{each.subject}: {each.text.partition('; ')[0]}" for each in report.findings if each.level == "refuse"]
    assert refused == named(servonode.simulate("trailer_pursuit", **WEAK), "goal")


@pytest.mark.parametrize("limit", [{"rate_limit": 0.02}, {"power_limit": 0.005}], ids=str)
def test_limits_that_no_column_shows_are_warned_of_by_the_number_of_commands(limit: dict[str, float]) -> None:
    run = servonode.simulate("trailer_pursuit", run__duration=2.0, plant__safety=limit)
    counts, told = run.stats["counts"], named(run, "input_limit")
    reason = "rate:U1" if "rate_limit" in limit else "power"
    word = "the rate limit of U1" if "rate_limit" in limit else "the power limit"
    assert f"{word} held back {counts[reason]} commands" in told


@pytest.mark.slow
def test_what_an_estimator_does_not_know_is_no_missed_goal() -> None:
    run = servonode.simulate("trailer_reverse_estimated")
    assert run.estimate is not None
    assert np.nanmax(np.abs(run.estimate.residual["phi"][-len(run.t) // 4 :])) > 0.1  # of a goal of 0.7
    assert run.warnings == []


def test_nobody_judges_the_goal_of_a_run_that_ended_by_a_fault() -> None:
    run = servonode.simulate("snowboarder_too_weak")
    assert run.fault is not None
    assert {each.name for each in run.warnings} == {"machine", "input_limit"}


@pytest.mark.parametrize("name", ["sphero_runs_over", "snowboarder_turns_back"])
def test_residuals_after_a_fault_are_a_gap(name: str) -> None:
    run = servonode.simulate(name)
    assert run.fault is not None
    known = run.t < run.fault["t"]
    period = run.closed_loop.launch.period_ns / 1e9
    assert run.t[-1] > run.fault["t"] + 1.0
    for values in run.residual.values():
        assert np.isfinite(values[known]).all()
        assert np.isnan(values[run.t > run.fault["t"] + period]).all()
    assert set(run.final()["residual"].values()) == {None}
    assert np.isfinite(list(run.residual_max.values())).all()


def test_states_that_are_lost_leave_gaps_of_their_periods_alone() -> None:
    run = servonode.simulate("trailer_pursuit", every=1, run__duration=1.0, plant__sensor__drop=0.3)
    gaps = np.isnan(run.residual["speed"])[:-1].reshape(-1, run.closed_loop.launch.steps_per_period)
    assert (gaps.all(axis=1) == gaps.any(axis=1)).all()
    lost = run.stats["counts"]["dropped_states"]
    assert gaps.any(axis=1).sum() + np.isnan(run.residual["speed"][-1]) == lost > 0


def test_a_report_of_check_is_true_where_it_passed() -> None:
    assert servonode.check("trailer_pursuit")
    assert not servonode.check("trailer_pursuit", **WEAK)
