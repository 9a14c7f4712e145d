"""The examples whose inputs do not reach the goal at once: each passes its check, is kept, and has the pages' text."""

import re
from functools import cache

import numpy as np
import pytest

import servonode
from tests.helpers.followed import DOCS

EXAMPLES = DOCS.parent / "examples"
FILES = [
    "crane/crane.toml",
    pytest.param("crane/rest_to_rest.toml", marks=pytest.mark.slow),
    "quadrotor/quadrotor.toml",
    "elastic_arm/arm.toml",
    pytest.param("crane_3d/crane_3d.toml", marks=pytest.mark.slow),
    pytest.param("snakeboard/snakeboard.toml", marks=pytest.mark.slow),
]
SHOWN_ELSEWHERE = (
    "car",
    "drone",
    "gripper",
    "kept",
    "lesson",
    "mecanum",
    "mechanisms",
    "parking",
    "quadruped",
    "tray",
)  # on pages of their own
every_example = pytest.mark.parametrize("name", FILES)
WARNS = {  # what passive brakes cannot hold; where the axles are nearly straight
    "quadrotor/quadrotor.toml": ["safe action"],
    "elastic_arm/arm.toml": ["safe action"],
    "snakeboard/snakeboard.toml": ["rank", "zero dynamics"],
}


@cache
def loop(name: str) -> servonode.Loop:
    """The closed loop of an example, derived once."""
    return servonode.load(EXAMPLES / name)


@every_example
def test_an_example_says_what_to_watch_and_passes_its_check(name: str) -> None:
    assert (EXAMPLES / name).read_text("utf-8").startswith("# Watch for: ")
    report = loop(name).check()
    assert report.verdict == "yes", report
    assert [each.subject for each in report.findings if each.level == "warn"] == WARNS.get(name, [])


@every_example
def test_with_the_law_evaluated_continuously_only_rounding_remains(name: str) -> None:
    run = servonode.simulate(EXAMPLES / name, control="continuous", run__duration=0.1)
    assert np.abs(list(run.residual.values())).max() < 1e-11


@every_example
def test_the_nodes_of_a_run_have_the_bits_of_the_compiled_loop(name: str) -> None:
    run, nodes = (
        servonode.simulate(EXAMPLES / name, run__duration=0.2, loop=kind).final() for kind in ("fused", "nodes")
    )
    assert nodes["state"] == run["state"]
    assert nodes["program_state"] == run["program_state"]


def test_each_example_of_goals_from_outside_passes_its_check() -> None:
    for file in sorted((EXAMPLES / "goals").glob("*.toml")):
        report = servonode.check(file)
        assert [str(each) for each in report.findings if each.level != "good"] == []
        assert file.read_text("utf-8").startswith("# Watch for: ")


@pytest.mark.parametrize(
    "name", ["cart", pytest.param("sphero", marks=pytest.mark.slow), pytest.param("trailer", marks=pytest.mark.slow)]
)
def test_an_example_of_limits_keeps_all_with_its_inputs_limited(name: str) -> None:
    file = EXAMPLES / "kept" / f"{name}.toml"
    assert file.read_text("utf-8").startswith("# Watch for: ")
    report = servonode.check(file)
    assert report.verdict == "yes", report
    run = servonode.simulate(file)
    assert run.fault is None
    assert [each.text for each in run.warnings if each.name == "keep"] == []
    assert max(run.limited_share.values()) > 0.0


@pytest.mark.parametrize(
    ("name", "left", "acted"),
    [
        ("crane", 1e-4, ["swing", "obstacle"]),
        pytest.param("arm", 0.02, ["ball", "twist_speed", "flange_range"], marks=pytest.mark.slow),
        pytest.param("quadruped", 0.03, ["front_left", "hind_right"], marks=pytest.mark.slow),
    ],
)
def test_a_machine_that_keeps_something_follows_its_goal_again(name: str, left: float, acted: list[str]) -> None:
    run = servonode.simulate(EXAMPLES / "kept" / f"{name}.toml")
    assert run.fault is None
    for each in acted:
        assert run.keeps[each]["acted"] > 10
    for each in run.keeps.values():
        assert each["margin"] > -1e-4
        assert each["gave_way"]["instants"] == 0
    assert max(abs(each[-1]) for each in run.residual.values()) < left


@pytest.mark.slow
def test_strict_priorities_of_an_arm_leave_the_first_residual_its_equation() -> None:
    stated = {"controller__priority": {"tool_x": 2, "tool_y": 2, "tool_z": 1, "tool_rx": 2, "tool_ry": 2}}
    run, same = (
        servonode.simulate(EXAMPLES / "kept" / "arm.toml", controller__damping=0.0, duration=1.5, **more)
        for more in (stated, {})
    )
    assert run.fault is None
    assert np.abs(same.residual["tool_z"]).max() > 5e-3
    assert np.abs(run.residual["tool_z"]).max() <= abs(run.residual["tool_z"][0])  # it decays from the start
    assert np.abs(run.residual["tool_x"]).max() > 0.01


def test_the_page_names_every_example_and_shows_its_picture() -> None:
    text = (DOCS / "systems" / "extended.md").read_text("utf-8")
    for file in sorted(EXAMPLES.glob("*/*.toml")):
        if file.parent.name in SHOWN_ELSEWHERE:
            continue
        if (
            "residuals" in (content := file.read_text("utf-8"))
            and "inversion" not in content
            and "bandwidth" not in content
        ):
            assert f"examples/{file.parent.name}/{file.name}" in text, file
            shown = re.search(rf"\.\./images/((?:drawings/)?{file.stem}\.png)", text)
            assert shown, file
            assert (DOCS / "images" / shown[1]).stat().st_size < 250_000
