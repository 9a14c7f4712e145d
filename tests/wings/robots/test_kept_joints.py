"""With limits = "keep" a law keeps ranges and speeds of a robot's joints, and limits of motors, as its file has."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.launch_error import LaunchError
from tests.helpers.extras import needs_mujoco
from tests.helpers.refusals import command
from tests.helpers.robots import ARM, machine_of

needs_mujoco()
GOALS = {"pan": "pan - 1.5*sin(2*t)", "lift": "left_lift - 3*(1 - cos(2*t))"}
MJCF = """<mujoco><worldbody><body><joint name="a" type="hinge" axis="0 1 0" range="-60 60"/>
<inertial pos="0.2 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body></worldbody>
<actuator><motor name="pull" joint="a" ctrlrange="{}"/></actuator></mujoco>"""


def arm(tmp_path: Path, text: str = ARM) -> Path:
    file = tmp_path / "arm.urdf"
    file.write_text(text)
    return file


def kept_by(found: servonode.Loop) -> Any:
    control = found.closed_loop.control
    assert control is not None
    return control.law


def load(file: Path, **more: Any) -> servonode.Loop:
    stated: dict[str, Any] = {"residuals": GOALS, "duration": 2.0, "controller__limits": "keep"}
    return servonode.load(file, **stated | more)


def test_ranges_speeds_and_motors_are_kept(tmp_path: Path) -> None:
    found = load(arm(tmp_path), gains={"lambda": 5.0})
    law = kept_by(found)
    assert [*law.keep_numbers] == ["pan_range", "left_lift_range", "pan_speed", "left_lift_speed"]
    assert law.limits.tolist() == [[-5.0, -5.0], [5.0, 5.0]]
    assert [each.quantity.unit for each in law.description.keeps] == ["rad", "rad", "rad/s", "rad/s"]
    run = found.simulate()
    assert run.fault is None
    for joint in ("pan", "left_lift"):
        assert -1.0 < run.state[joint].min() <= run.state[joint].max() < 2.0
        assert np.abs(run.state[f"{joint}_dot"]).max() < 3.0
    clipped = load(arm(tmp_path), gains={"lambda": 5.0}, controller__limits="clip").simulate()
    assert clipped.fault is not None


def test_their_numbers_are_stated_by_their_names_and_an_expression_replaces_one(tmp_path: Path) -> None:
    keep = {"pan_range": {"margin": 0.2}, "pan_speed": "1 - pan_dot"}
    law = kept_by(load(arm(tmp_path), keep=keep))
    assert law.keep_numbers["pan_range"].margin == 0.2
    assert law.keep_numbers["left_lift_range"].margin == pytest.approx(3e-3)
    assert law.keep_numbers["pan_speed"][2:] == (0.0, 1e-3)
    assert [len(each.degrees) for each in law.description.keeps if each.quantity.name == "pan_speed"] == [1]
    with pytest.raises(LaunchError, match="pan_range: program residuals keeps nothing whose numbers these could be"):
        load(arm(tmp_path), keep={"pan_range": {"margin": 0.2}}, controller__limits="clip")


def test_a_joint_at_its_end_has_no_margin_and_one_without_motor_is_left_alone(tmp_path: Path) -> None:
    at_end = load(arm(tmp_path), initial={"pan": 2.0}, plant__safety__faults=False)
    assert kept_by(at_end).keep_numbers["pan_range"].margin == 0.0
    one = load(arm(tmp_path), plant__robot__motors=["pan"], residuals={"pan": GOALS["pan"]})
    assert [*kept_by(one).keep_numbers] == ["pan_range", "pan_speed"]


def test_a_motor_that_only_pushes_is_kept_from_pulling(tmp_path: Path) -> None:
    file = tmp_path / "arm.xml"
    file.write_text(MJCF.format("0 3"))
    (motor,) = machine_of(file).description.inputs
    assert (motor.limit, motor.at_least) == (3.0, 0.0)
    found = load(file, residuals={"a": "a - 0.2*sin(t)"})
    assert kept_by(found).limits.tolist() == [[0.0], [3.0]]
    assert found.simulate().input["pull"].min() >= 0.0


def test_what_is_made_of_a_file_keeps_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arm(tmp_path)
    assert command("new", "machine", "made", "--from", "arm.urdf").exit_code == 0
    law = kept_by(servonode.load("made.toml"))
    assert law.description.limited
    assert [*law.keep_numbers] == ["pan_range", "left_lift_range", "pan_speed", "left_lift_speed"]
    (tmp_path / "free.urdf").write_text(ARM.replace("revolute", "continuous").replace('effort="5" velocity="3"', ""))
    assert command("new", "machine", "free", "--from", "free.urdf").exit_code == 0
    assert "limits" not in (tmp_path / "free.toml").read_text()
