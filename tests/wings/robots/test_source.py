"""`servonode new machine --from`: the Python file has the equations of the robot's file."""

import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import servonode
from servonode.closed_loop.launch_file import launch_of_table
from servonode.closed_loop.machine_section import plant_source
from servonode.mechanics.derivation import Derivation
from servonode.mechanics.machine_source import describe, source_and_description
from servonode.mechanics.model import Model
from servonode.plants import MachineSource
from tests.helpers.extras import needs_mujoco
from tests.helpers.followed import DOCS
from tests.helpers.refusals import command, refused_command

needs_mujoco()

ARM = DOCS.parent / "examples" / "arm" / "arm.urdf"
LEG = """
  <body name="{0}_hip" pos="{1} {2} 0">
    <joint name="{0}_swing" axis="1 0 0" range="-1 1"/>
    <inertial pos="0 0.03 0" mass="0.4" diaginertia="3e-4 3e-4 2e-4"/>
    <body name="{0}_thigh" pos="0 {3} 0">
      <joint name="{0}_lift" axis="0 1 0" damping="0.02" armature="0.005"/>
      <inertial pos="0 0 -0.1" mass="0.5" diaginertia="2e-3 2e-3 2e-4"/>
      <body name="{0}_shank" pos="0 0 -0.2" euler="0 30 0">
        <joint name="{0}_bend" axis="0 1 0" pos="0 0 0.01"/>
        <inertial pos="0 0 -0.08" mass="0.2" fullinertia="9e-4 8e-4 2e-4 1e-5 2e-5 3e-5"/>
        <site name="{0}_foot" pos="0 0 -0.2"/>
      </body>
    </body>
  </body>"""
LEGS = [(f"leg{i}", f"{x}", f"{y}", f"{0.3 * y}") for i, (x, y) in enumerate([(0.2, 0.1), (0.2, -0.1), (-0.2, 0.1)])]
QUADRUPED = f"""<mujoco model="four-legs">
  <worldbody>
    <body name="trunk" pos="0 0 0.5">
      <freejoint/>
      <inertial pos="0.01 0 0" mass="6" diaginertia="0.05 0.15 0.17"/>
      {"".join(LEG.format(*leg) for leg in [*LEGS, ("leg3", "-0.2", "-0.1", "-0.03")])}
    </body>
  </worldbody>
  <actuator>
    {"".join(f'<motor joint="leg{i}_{joint}" gear="9"/>' for i in range(4) for joint in ("swing", "lift", "bend"))}
  </actuator>
</mujoco>"""
SPRINGS = """<mujoco model="2 springs">
  <option gravity="1 -2 -9.5"/>
  <worldbody>
    <body name="lambda" euler="10 20 30">
      <joint name="links" type="slide" axis="1 2 3" stiffness="40" springref="0.1" ref="0.2" frictionloss="0.3"/>
      <joint name="slide" axis="0.3 1 0" frictionloss="0.1" damping="0.7" stiffness="3" armature="0.02"/>
      <inertial pos="0.1 0 0.2" mass="1.3" diaginertia="0.02 0.03 0.04"/>
      <site name="tree" pos="0 0 0.3" euler="0 90 0"/>
      <body name="bob" pos="0 0.1 0.2">
        <joint name="swivel" type="ball" damping="0.05" armature="0.01"/>
        <inertial pos="0 0 -0.3" mass="0.7" diaginertia="0.01 0.02 0.015"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="if" joint="slide" gear="-12.5" ctrllimited="true" ctrlrange="-2 3"/></actuator>
</mujoco>"""
ROBOTS = {"arm.urdf": ARM.read_text("utf-8"), "four.xml": QUADRUPED, "springs.xml": SPRINGS}


def source_of(folder: Path, machine: str) -> MachineSource:
    launch = launch_of_table({"run": {"duration": 1.0}, "plant": {"machine": machine}}, path=folder / "x.toml")
    return plant_source(launch.plant, folder, launch.more)


def written(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Model, Model]:
    """The machine of a robot's file, and that of the Python file which is made of it."""
    monkeypatch.chdir(folder)
    (folder / name).write_text(ROBOTS[name], "utf-8")
    made = command("new", "machine", "made", "--from", name)
    assert made.exit_code == 0, made.stderr
    assert made.stdout.splitlines() == ["wrote made.py", "wrote made.toml", "now: servonode run made.toml"]
    return source_of(folder, name).build(), source_of(folder, "./made.py:model").build()


def facts(model: Model) -> Any:
    """The description without where it stands and what it is called."""
    return msgspec.structs.replace(describe(model), places={}, name="")


@pytest.mark.parametrize("name", ["arm.urdf", "springs.xml", pytest.param("four.xml", marks=pytest.mark.slow)])
def test_the_python_file_has_the_same_equations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    read, made = written(tmp_path, name, monkeypatch)
    assert facts(made) == facts(read)
    texts = [source_and_description(Derivation(each))[0] for each in (made, read)]
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_the_launch_file_holds_the_joints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "arm.urdf", monkeypatch)
    text = (tmp_path / "made.toml").read_text("utf-8")
    assert not re.search(r"\b(NAME|INITIAL|RESIDUALS|SETTINGS)\b", text)
    run = servonode.simulate(
        tmp_path / "made.toml", plant__initial__shoulder=0.5, controller__settings__shoulder_goal=0.5
    )
    assert max(abs(each).max() for each in run.residual.values()) < 1e-12


def test_a_machine_without_inputs_has_a_launch_file_without_a_law(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = '<body name="bob"><joint type="ball" range="0 20"/><geom size=".1" pos="0 0 -.3"/></body>'
    monkeypatch.setitem(ROBOTS, "bob.xml", f"<mujoco><worldbody>{bob}</worldbody></mujoco>")
    written(tmp_path, "bob.xml", monkeypatch)
    assert "# Watch for: made moves without a law" in (tmp_path / "made.toml").read_text("utf-8")
    assert command("check", "made.toml").exit_code == 0


def test_lines_are_short_and_names_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "springs.xml", monkeypatch)
    text = (tmp_path / "made.py").read_text("utf-8")
    assert max(map(len, text.splitlines())) <= 120
    assert 'links_ = coordinate("links", "travel of links", "m", start=0.2)' in text
    assert 'swivel_damping = parameter("swivel_damping", "damping of swivel", "N m s/rad", default=0.05)' in text
    assert "ball(bob_q, bob_omega, armature=swivel_armature)" in text


HOSTILE = """<robot name="a&quot;&quot;&quot; \\ '); import os #">
  <link name="box"><inertial><mass value="2"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1.2" iyz="0" izz="1.4"/></inertial></link>
</robot>"""


@pytest.mark.parametrize(("base", "state"), [("free", "x y z q_0 q_1 q_2 q_3"), ("planar", "x y psi")])
def test_the_base_of_a_urdf_is_stated_as_in_a_launch_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, state: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'b""" 1.urdf').write_text(HOSTILE, "utf-8")
    made = command("new", "machine", "box", "--from", 'b""" 1.urdf', "--set", f"plant.robot.base={base}")
    assert made.exit_code == 0, made.stderr
    model = source_of(tmp_path, "./box.py:model").build()
    assert [each.name for each in model.coordinates] == state.split()
    assert "import os #" in model.description


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["machine", "--from", "none.urdf"], "none.urdf [plant] machine: there is no file"),
        (["machine", "--from", "arm.txt"], "--from arm.txt: give a URDF or MJCF file, whose name ends in .urdf, .xml"),
        (["machine", "--from", "bad.urdf"], "bad.urdf line 1: is no XML"),
        (["machine", "2fast", "--from", "arm.urdf"], "'2fast' is not a valid name"),
        (["machine", "--from", "arm.urdf"], "arm.py exists already"),
        (["program", "--from", "arm.urdf"], "--from is of a machine, not of program; write servonode new machine"),
        (["machine", "--from", "arm.urdf", "--set", "run.duration=3"], "--from has the keys of [plant.robot] alone"),
        (
            ["machine", "--from", "arm.urdf", "--set", "plant.robot.base=flying"],
            '"flying" is unknown; choose fixed, free or planar',
        ),
        (["machine", "--from", "arm.urdf", "--set", "plant.robot.bse=free"], "plant.robot.bse"),
        (["machine", "crab", "--set", "plant.robot.base=free"], "--set is of --from alone"),
        (["machine", "crab", "crib", "--from", "arm.urdf"], "'crib' is one name too many"),
        (["machine"], "Missing argument 'NAME'"),
    ],
)
def test_what_is_refused_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("arm.urdf", ROBOTS["arm.urdf"]), ("arm.txt", ""), ("bad.urdf", "no"), ("arm.py", "mine")):
        (tmp_path / name).write_text(text, "utf-8")
    before = sorted(each.name for each in tmp_path.iterdir())
    assert said in refused_command("new", *words)
    assert sorted(each.name for each in tmp_path.iterdir()) == before
    assert (tmp_path / "arm.py").read_text("utf-8") == "mine"


def test_without_mujoco_the_line_to_install_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    (tmp_path / "arm.urdf").write_text(ROBOTS["arm.urdf"], "utf-8")
    assert 'pip install "servonode[mujoco]"' in refused_command("new", "machine", "--from", "arm.urdf")


@pytest.mark.slow
def test_a_base_on_wheels_is_held_by_its_velocities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tray.urdf").write_text((ARM.parents[1] / "tray" / "tray.urdf").read_text("utf-8"), "utf-8")
    wheels = 'plant.robot.wheels={left="left_wheel", right="right_wheel"}'
    casters = 'plant.robot.casters=["caster_swivel", "caster_wheel"]'
    made = command("new", "machine", "cart", "--from", "tray.urdf", "--set", wheels, "--set", casters)
    assert made.exit_code == 0, made.stderr
    robot = {"wheels": {"left": "left_wheel", "right": "right_wheel"}, "casters": ["caster_swivel", "caster_wheel"]}
    table = {"run": {"duration": 1.0}, "plant": {"machine": "tray.urdf", "robot": robot}}
    launch = launch_of_table(table, path=tmp_path / "x.toml")
    read = plant_source(launch.plant, tmp_path, launch.more).build()
    model = source_of(tmp_path, "./cart.py:model").build()
    assert facts(model) == facts(read)
    texts = [source_and_description(Derivation(each))[0] for each in (model, read)]
    assert texts[0] == texts[1]
    goals = (tmp_path / "cart.toml").read_text("utf-8")
    assert 'V = "V - V_goal"' in goals
    assert 'shoulder = "shoulder - shoulder_goal"' in goals
