"""A robot that does not move as MuJoCo moves its file is refused, with the place where the difference begins."""

from pathlib import Path

import pytest

from servonode.errors import ServonodeError
from servonode.wings.robots import judge
from servonode.wings.robots.read import read
from tests.helpers.extras import needs_mujoco
from tests.helpers.robots import machine_of
from tests.helpers.rolling_robots import FOUR_BAR

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
    "an input": ('name="m"', 'name="n"', 'its input "m" is no actuator of the file'),
}
WRONG_LOOP = {
    "where a loop begins": ('anchor="0.9', 'anchor="0.90001', 'loop "pin" is open by'),
    "a mass": ('mass="1.5"', 'mass="1.50001"', "which begins at joint"),
    "what a loop holds": ("<connect", '<joint joint1="a"/><connect', "is open by"),
}


@pytest.mark.parametrize(
    ("text", "case"), [*((SMALL, each) for each in WRONG.values()), *((FOUR_BAR, each) for each in WRONG_LOOP.values())]
)
def test_what_misses_its_file_is_refused_where_it_does(text: str, case: tuple[str, str, str], tmp_path: Path) -> None:
    file, (before, after, place) = tmp_path / "robot.xml", case
    file.write_text(text)
    machine = machine_of(file)
    assert judge.judged(read(file), lambda: machine, {}) == ""
    assert before in text
    file.write_text(text.replace(before, after))
    said = judge.judged(read(file), lambda: machine, {})
    assert place in said
    assert "\n" not in said


def test_a_machine_that_misses_is_refused_by_all_that_load_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "robot.xml"
    file.write_text(SMALL.replace('damping="0.4"', f'damping="0.{abs(hash(str(tmp_path)))}"'))  # of no cache
    monkeypatch.setattr(judge, "MOST", 0.0)
    monkeypatch.setattr(judge, "SPREAD", 0.0)
    for _ in range(2):
        with pytest.raises(ServonodeError, match=r"^robot\.xml: its accelerations miss MuJoCo's of the file by .*e-1"):
            machine_of(file)
        monkeypatch.undo()  # the verdict is kept
