"""A robot that does not move as MuJoCo moves its file is refused, with the place where the difference begins."""

from pathlib import Path

import pytest

from servonode.errors import ServonodeError
from servonode.wings.robots import judge
from servonode.wings.robots.read import read
from tests.helpers.extras import needs_mujoco
from tests.helpers.robots import ARM, machine_of
from tests.helpers.rolling_robots import FOUR_BAR, WHEELS, robot_machine, trailer_robot

needs_mujoco()
INERTIA = '<inertial pos="0.1 0 0.02" mass="1" diaginertia="0.01 0.02 0.02"/>'
SMALL = f"""<mujoco><worldbody>
  <body name="arm"><joint name="h" axis="0 1 0" damping="0.4"/>{INERTIA}
    <body name="head" pos="0.2 0 0"><joint name="s" type="slide" axis="1 2 0" frictionloss="0.1"/>{INERTIA}
      <body name="eye" pos="0.2 0 0"><joint name="b" type="ball" pos="0 0.05 0"/>
        <inertial pos="0.1 0 0" mass="2" diaginertia="0.01 0.02 0.02"/></body></body></body>
  </worldbody><actuator><motor name="m" joint="h" gear="3"/></actuator></mujoco>"""
WRONG = {  # what the file says where the machine is that of SMALL
    "damping": ('damping="0.4"', 'damping="0.40001"', '"h" of body "arm"'),
    "a mass": ('mass="2"', 'mass="2.000001"', '"b" of body "eye"'),
    "friction": ('loss="0.1"', 'loss="0.10001"', '"s" of body "head"'),
    "friction of a ball": ('type="ball"', 'type="ball" frictionloss="0.001"', '"b" of body "eye"'),
    "gravity": ("<worldbody>", '<option gravity="0 0 -9.810001"/><worldbody>', "which begins at joint"),
    "a gear": ('gear="3"', 'gear="3.0001"', '"h" of body "arm"'),
    "an axis": ('axis="1 2 0"', 'axis="1 2 1e-6"', "which begins at joint"),
    "a range": (
        'gear="3"',
        'gear="3" ctrlrange="-2 5"',
        'its range of input "m" is unlimited, and that of the file 2.0',
    ),
    "a range upwards": (
        'gear="3"',
        'gear="3" forcerange="0 5"',
        'its range of input "m" is unlimited, and that of the file 5.0',
    ),
    "an input": ('name="m"', 'name="n"', 'its input "m" is no actuator of the file'),
}
WRONG_LOOP = {
    "where a loop begins": ('anchor="0.9', 'anchor="0.90001', 'loop "pin" is open by'),
    "a mass": ('mass="1.5"', 'mass="1.50001"', "which begins at joint"),
    "what a loop holds": ("<connect", '<joint joint1="a"/><connect', "is open by"),
}
# a grain whose accelerations are 1e7 as large as those of what carries it, which turns about a vertical axis
CARRIER = f"""<mujoco><worldbody>
  <body name="table"><joint name="v" axis="0 0 1"/>{INERTIA}<body name="arm"><joint name="h" axis="0 1 0"/>{INERTIA}
    <body name="grain"><joint name="s" axis="0 1 0" stiffness="0.1"/>
      <inertial pos="0.001 0 0.0002" mass="1e-6" diaginertia="1e-10 1e-10 1e-10"/></body></body></body>
  </worldbody><actuator><motor name="m" joint="s"/></actuator></mujoco>"""
HIDDEN = {
    "a mass": ('mass="1"', 'mass="1.00001"', 'begins at joint "h" of body "arm"'),
    "gravity": ("<worldbody>", '<option gravity="0 0 -9.8099"/><worldbody>', "which begins at joint"),
    "a mass that only stands": ("<worldbody>", '<worldbody><body name="more"/>', ""),
    "a mass on its axis": (
        'name="table">', 'name="table"><body name="nut"><inertial pos="0 0 0" mass="1" diaginertia="1e-15 1e-15 '
        '1e-15"/></body>', "its total mass is 2.000001, and that of the file 3.000001"),
}  # fmt: skip
WRITTEN = {
    "an end": ('lower="-1"', 'lower="-0.9"', 'its lower limit of joint "pan" is -1.0, and that of the file -0.9'),
    "no end": (' lower="-1" upper="2"', "", 'its lower limit of joint "pan" is -1.0, and that of the file unlimited'),
    "an effort": ('effort="5"', 'effort="4"', 'its range of input "pan_torque" is 5.0, and that of the file 4.0'),
    "a speed": ('velocity="3"', 'velocity="2"', 'its speed of joint "pan" is 3.0, and that of the file 2.0'),
    "a mass": ('value="2"', 'value="2.1"', "which begins at joint"),
}
CASES = ((SMALL, WRONG), (FOUR_BAR, WRONG_LOOP), (CARRIER, HIDDEN), (ARM, WRITTEN))


@pytest.mark.parametrize(("text", "case"), [(text, each) for text, cases in CASES for each in cases.values()])
def test_what_misses_its_file_is_refused_where_it_does(text: str, case: tuple[str, str, str], tmp_path: Path) -> None:
    file, (before, after, place) = tmp_path / ("robot.urdf" if text == ARM else "robot.xml"), case
    file.write_text(text)
    machine = machine_of(file)
    assert judge.judged(read(file), lambda: machine, {}) == ""
    assert before in text
    file.write_text(text.replace(before, after))
    said = judge.judged(read(file), lambda: machine, {})
    assert place in said
    assert bool(place) == bool(said)
    assert "\n" not in said


def test_a_machine_that_misses_is_refused_by_all_that_load_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "robot.xml"
    file.write_text(SMALL.replace('damping="0.4"', f'damping="0.{abs(hash(str(tmp_path)))}"'))  # of no cache
    for word in ("LITTLE", "MOST", "SPREAD"):
        monkeypatch.setattr(judge, word, 0.0)
    for _ in range(2):
        with pytest.raises(ServonodeError, match=r"^robot\.xml: its accelerations miss MuJoCo's of the file by .*e-1"):
            machine_of(file)
        monkeypatch.undo()  # the verdict is kept


def test_a_robot_is_compared_without_what_holds_it_or_it_is_said_that_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its wheels' massless links cannot move alone."""
    monkeypatch.setattr(judge._Judge, "verdict", lambda _: "compared")
    with pytest.raises(ServonodeError, match="compared"):
        robot_machine(tmp_path, trailer_robot(massless=False), wheels=WHEELS, independent=["theta1", "theta2", "phi"])
    notes = robot_machine(tmp_path, trailer_robot(), wheels=WHEELS).description.notes
    assert any(each.startswith("not compared with MuJoCo, ") for each in notes)


def test_a_crank_is_compared_within_its_reach(tmp_path: Path) -> None:
    pin = '<joint name="h" axis="0 1 0"/><site name="pin" pos="0.2 0 0"/>'
    file = tmp_path / "crank.xml"
    file.write_text(
        f'<mujoco><worldbody><site name="rail" euler="0 90 0" pos="0 0 0.1"/><body name="arm">{pin}{INERTIA}</body>'
        '</worldbody><actuator><motor name="m" cranksite="pin" slidersite="rail" cranklength="0.15"/></actuator>'
        "</mujoco>"
    )
    assert machine_of(file).description.input_names == ("m",)
    assert judge.judged(read(file), lambda: machine_of(file), {}) == ""


def test_a_weak_servo_is_pushed_within_what_mujoco_takes(tmp_path: Path) -> None:
    file = tmp_path / "fin.xml"
    file.write_text(
        f'<mujoco><worldbody><body name="fin"><joint name="f" axis="0 1 0"/>{INERTIA}</body></worldbody><actuator>'
        '<position name="f" joint="f" kp="5e-4" ctrlrange="-1 1"/></actuator></mujoco>'
    )
    assert judge.judged(read(file), lambda: machine_of(file), {}) == ""


def test_a_body_that_is_moved_by_hand_has_no_mass_in_the_machine(tmp_path: Path) -> None:
    file = tmp_path / "held.xml"
    file.write_text(
        f'<mujoco><worldbody><body name="hand" mocap="true"><geom size="0.1" mass="0.4"/></body><body name="arm">'
        f'<joint name="h" axis="0 1 0"/>{INERTIA}</body></worldbody></mujoco>'
    )
    assert judge.judged(read(file), lambda: machine_of(file), {}) == ""
