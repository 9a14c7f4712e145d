"""The convergence rate that acts where nobody gives one, and the rate that a remedy names."""

from pathlib import Path
from typing import Any

import pytest

import servonode
from servonode.controllers import Program, residual
from servonode.mechanics import Model
from tests.helpers import verdict_machines

CRANE = Path(__file__).parents[2] / "examples" / "crane" / "crane.py"


def arm(**gains: Any) -> dict[str, Any]:
    """A spring between motor and arm: the goal has relative degree 4."""
    return {
        "run": {"duration": 10.0},
        "plant": {"machine": verdict_machines.elastic_arm},
        "controller": {"residuals": {"arm": "p - 0.5*sin(2*t)"}, "period": 0.01, "gains": gains},
    }


def reason(report: Any) -> str:
    return next(each.text for each in report.findings if each.level == "refuse")


def test_check_passes_relative_degree_4_without_a_given_rate() -> None:
    report = servonode.check(arm())
    assert (report.verdict, report.residuals["arm"]["relative_degree"]) == ("yes", 4)
    auto = servonode.load(arm(**{"lambda": "auto"}))
    assert report.residuals["arm"]["convergence_rate"] == auto.closed_loop.control.gains.rates[0]  # type: ignore[union-attr]


def test_a_rate_that_is_too_low_has_the_remedy_with_the_one_that_works() -> None:
    report = servonode.check(arm(**{"lambda": 2.0}))
    assert report.verdict == "no"
    assert reason(report).endswith(
        'not reached; give controller.gains.lambda = "auto" (17 1/s), which reaches the goal'
    )


def test_a_rate_that_is_too_high_for_the_period_has_the_remedy_with_the_one_that_works() -> None:
    assert "lower the convergence rate or shorten period and delay; auto would take 17 1/s" in reason(
        servonode.check(arm(**{"lambda": 45.0}))
    )


@pytest.mark.slow
def test_a_rate_that_is_too_high_for_the_start_and_the_drives_has_the_remedy_with_the_one_that_works() -> None:
    stated: dict[str, Any] = {
        "run": {"duration": 8.0},
        "plant": {
            "machine": f"{CRANE}:model",
            "initial": {"l": 4.0, "s": 3.0},
            "actuator": {"limit": 3000.0},
        },
        "controller": {"period": 0.005, "residuals": {"load_x": "x - 0.5*sin(t)", "load_z": "z - 1"}},
    }
    report = servonode.check(stated)
    assert "; or give controller.gains.lambda = 3.4, which reaches the goal" in reason(report)  # a tenth of auto
    stated["controller"]["gains"] = {"lambda": 3.4}
    assert servonode.check(stated).verdict == "yes"


def test_coupled_gains_that_are_too_high_have_the_remedy_with_the_eigenvalue_that_works() -> None:
    stated: dict[str, Any] = {
        "run": {"duration": 1.0},
        "plant": {"machine": "diff_drive_trailer"},
        "controller": {"residuals": {"v": "V - 0.1", "w": "Omega"}, "gains": {"K0": [[90.0, 85.0], [85.0, 90.0]]}},
    }
    said = "their fastest eigenvalue, now 175 1/s, should be at most 66.7 1/s"
    assert said in reason(servonode.check(stated))


def plain(machine: Model) -> Program:
    return Program("plain", "", (residual("arm", machine["q"], "", "rad"),))


def rated(machine: Model) -> Program:
    return Program("rated", "", (residual("arm", machine["q"], "", "rad", rate=4.0),))


@pytest.mark.parametrize(
    ("program", "gains", "rate"),
    [(plain, {}, 100 / 3), (rated, {}, 4.0), (rated, {"lambda": "auto"}, 100 / 3), (plain, {"lambda_arm": 5}, 5.0)],
)
def test_default_rate_launch_file_then_program_then_auto(program: Any, gains: Any, rate: float) -> None:
    plant = {"machine": verdict_machines.elastic_arm}
    stated = {"run": {"duration": 1.0}, "plant": plant, "controller": {"program": program, "gains": gains}}
    control = servonode.load(stated).closed_loop.control
    assert control is not None
    assert control.gains.rates[0] == pytest.approx(rate, rel=1e-8)
