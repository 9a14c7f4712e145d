"""A robot's file as the machine of a launch file: found, cached, changed, limited, run."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import servonode
from servonode.closed_loop.fleet import read_fleet
from servonode.closed_loop.launch_file import LaunchError, launch_of_table, read_launch
from servonode.definitions import cache as keys
from servonode.plants import MachineSource, find_machine
from servonode.wings.robots.read import read
from tests.helpers.extras import needs_mujoco
from tests.helpers.refusals import command, refusal, refused_command
from tests.helpers.robots import ARM, joint, link, urdf

needs_mujoco()
LAUNCH = """
[run]
duration = 2.0
[plant]
machine = "arm.urdf"
[plant.parameters]
fore.mass = 1.5
[controller]
period = 0.01
[controller.parameters]
fore.mass = 1.6
[controller.gains]
lambda = 5.0
[controller.residuals]
pan = "pan - 0.2"
lift = "left_lift - 0.3"
"""


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    (tmp_path / "arm.urdf").write_text(ARM)
    file = tmp_path / "reach.toml"
    file.write_text(LAUNCH)
    return file


def test_an_arm_is_held_to_a_goal_of_its_joints(launch: Path) -> None:
    run = servonode.simulate(launch, controller__gains__lambda=20.0)
    assert run.fault is None
    assert run.state["pan"][-1] == pytest.approx(0.2, abs=0.01)  # the law believes another mass
    assert run.state["left_lift"][-1] == pytest.approx(0.3, abs=0.01)


@pytest.mark.slow
def test_nodes_run_an_arm_and_its_recording_is_replayed(launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(launch.parent)
    result = command("run", str(launch), "--set", 'run.mode="lockstep"', "--record")
    assert result.exit_code == 0, result.output
    recording = next(launch.parent.glob("*.mcap"))
    replayed = command("replay", str(recording))
    assert replayed.exit_code == 0, replayed.output


def test_parameters_with_dots_are_joined_everywhere(launch: Path) -> None:
    loop = servonode.load(launch)
    assert loop.machine.parameters["fore_mass"] == 1.5
    assert read_launch(launch).controller.parameters == {"fore_mass": 1.6}  # type: ignore[union-attr]
    changed = servonode.load(launch, plant__parameters__fore__mass=1.7)
    assert changed.machine.parameters["fore_mass"] == 1.7
    swept = read_launch(launch, ["sweep.vary.plant.parameters.fore.mass=[1.0, 2.0]"])
    assert [*swept.more["sweep"].vary] == ["plant.parameters.fore_mass"]  # type: ignore[attr-defined]


def test_a_parameter_has_one_name_at_a_time(launch: Path) -> None:
    """Two in the file are refused with both; what is set on the command line takes the place of either."""
    assert servonode.load(launch, plant__parameters__fore_mass=1.7).machine.parameters["fore_mass"] == 1.7
    launch.write_text(LAUNCH.replace("fore.mass = 1.5", "fore.mass = 1.5\nfore_mass = 1.5"))
    line = refused_command("check", str(launch))
    assert line.endswith("[plant.parameters] fore_mass: the same parameter as fore.mass; keep one of them")


def test_a_robot_of_several_has_its_parameters_by_either_name(launch: Path) -> None:
    fleet = '[robots.a]\ninclude = "reach.toml"\nplant.parameters.fore.mass = 1.6\n'
    file = launch.with_name("two.toml")
    file.write_text(f'{fleet}[robots.b]\ninclude = "reach.toml"\nplant.parameters.fore_mass = 1.7\n')
    masses = [each.plant.parameters for each in read_fleet(file).robots.values()]  # type: ignore[union-attr]
    assert masses == [{"fore_mass": 1.6}, {"fore_mass": 1.7}]
    changed = read_fleet(file, ["robots.b.plant.parameters.fore.mass=2"])
    assert changed.robots["b"].plant.parameters == {"fore_mass": 2}  # type: ignore[union-attr]


def test_a_robots_file_is_loaded_by_itself(launch: Path) -> None:
    """It is a launch file of 1 s without a law; keys are added as to any."""
    run = servonode.simulate(launch.with_name("arm.urdf"), run__duration=0.1, plant__parameters__fore__mass=1.5)
    assert run.t[-1] == pytest.approx(0.1)
    assert not run.residual
    assert "no file" in refused_command("check", str(launch.with_name("leg.urdf")))


def test_a_joint_that_mimics_another_has_no_motor(tmp_path: Path) -> None:
    fingers = [joint(name, "b", name[0], more='<mimic joint="j"/>') for name in ("c_grip", "d_grip")]
    hand = urdf(link("a"), link("b"), joint("j", "a", "b"), link("c"), link("d"), *fingers)
    (tmp_path / "hand.urdf").write_text(hand)
    described = servonode.load(tmp_path / "hand.urdf").machine.description
    assert described.input_names == ("j_torque",)
    assert {"c_grip_loop_force", "d_grip_loop_force"} <= {each.name for each in described.outputs}
    chosen = servonode.load(tmp_path / "hand.urdf", plant__robot={"motors": ["j", "c_grip"]})
    assert chosen.machine.description.input_names == ("j_torque", "c_grip_torque")


def test_a_machine_that_is_cached_needs_neither_mujoco_nor_sympy(launch: Path) -> None:
    servonode.load(launch)
    code = "import servonode, sys; servonode.load(sys.argv[1]); print({'mujoco', 'sympy'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", code, str(launch)], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


def test_the_digest_of_a_machine_is_that_of_all_its_files(tmp_path: Path) -> None:
    body = '<body><joint name="j"/><geom size=".1"/></body>'
    (tmp_path / "part.xml").write_text(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    (tmp_path / "robot.xml").write_text('<mujoco><include file="part.xml"/></mujoco>')
    definition = find_machine("robot.xml", tmp_path)
    before = definition.digest()
    assert {file.name for file in definition.sources()} == {"robot.xml", "part.xml"}
    (tmp_path / "part.xml").write_text(f"<mujoco><worldbody>{body}<site/></worldbody></mujoco>")
    assert definition.digest() != before
    assert MachineSource(definition, {"ignore": ["fluid"]}).key != MachineSource(definition).key


def test_what_one_version_of_mujoco_read_is_not_another_ones_machine(
    launch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = find_machine("arm.urdf", launch.parent)
    before = MachineSource(definition).key
    monkeypatch.setattr("servonode.wings.robots.definition.version_of", lambda name: f"99.0 of {name}")
    assert MachineSource(definition).key != before


@pytest.mark.parametrize(("module", "other"), [("contacts", True), ("numbers", True), ("solids", False)])
def test_other_code_that_makes_machines_of_files_is_another_key(
    launch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, other: bool
) -> None:
    source = MachineSource(find_machine("arm.urdf", launch.parent))
    definition, before, folder = source.definition, source.key, tmp_path / "servonode"
    for room in (*keys.ROOMS, "wings/robots"):
        shutil.copytree(keys._FOLDER / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / f"wings/robots/{module}.py").open("a") as file:
        file.write("# changed\n")
    monkeypatch.setattr(keys, "_FOLDER", folder)
    for each in (keys.code_digest, keys._code):
        each.cache_clear()
    try:
        assert (MachineSource(definition).key != before) is other
    finally:
        for each in (keys.code_digest, keys._code):
            each.cache_clear()


def test_limits_of_the_file_act_unless_the_launch_file_gives_others(launch: Path) -> None:
    limits = servonode.load(launch).closed_loop.safety.limits
    assert limits.value == (5.0, 5.0)
    other = servonode.load(launch, plant__safety__limit={"pan_torque": 9.0})
    assert other.closed_loop.safety.limits.value == (9.0, 5.0)
    run = servonode.simulate(launch, controller__residuals__pan="pan - 3", controller__gains__lambda=2.0)
    assert run.fault is not None
    assert run.fault["name"] == "joint_limit"
    assert run.fault["text"] == "pan is above pan_upper, its limit in arm.urdf"
    text = command("check", str(launch)).output
    assert "limits: of arm.urdf act: pan_torque 5, left_lift_torque 5, pan_lower -1, pan_upper 2" in text


def test_the_nearer_of_a_state_limit_and_the_range_of_a_joint_acts(launch: Path) -> None:
    """A state_limit tightens a range; one that is wider is named, for the range's end is a parameter."""
    away = {"controller__residuals__pan": "pan - 3", "controller__gains__lambda": 2.0}
    near = servonode.simulate(launch, **away, plant__safety__state_limit={"pan": 0.5})
    assert near.fault is not None
    assert (near.fault["name"], near.state["pan"][-1] < 0.6) == ("implausible_state", True)
    far = servonode.simulate(launch, **away, plant__safety__state_limit={"pan": 2.5})
    assert far.fault is not None
    assert (far.fault["name"], 2.0 <= far.state["pan"][-1] < 2.1) == ("joint_limit", True)
    moved = {"plant__safety__state_limit": {"pan": 2.5}, "plant__parameters__pan__upper": 9.0}
    wide = servonode.simulate(launch, **away, **moved)
    assert wide.fault is not None
    assert (wide.fault["name"], wide.state["pan"][-1] > 2.4) == ("implausible_state", True)
    text = command("check", str(launch), "--set", "plant.safety.state_limit={pan = 2.5, left_lift = 1.5}").output
    assert "left_lift_lower -1\n" in text  # its upper end, at 2, is never reached
    assert (
        "state_limit of pan, 2.5, is beyond its range, which acts first; plant.parameters.pan_upper moves its" in text
    )


@pytest.mark.parametrize(("lower", "start"), [("-1", 0.0), ("1", 1.5), ("0", 1.0)])
def test_a_joint_begins_in_the_middle_of_a_range_without_zero_inside(lower: str, start: float, tmp_path: Path) -> None:
    """At an end it would leave the range by rounding alone."""
    file = tmp_path / "arm.urdf"
    file.write_text(ARM.replace('lower="-1"', f'lower="{lower}"'))
    assert [each.start for each in read(file).joints] == [(start,), (start,)]


def test_the_names_of_a_file_become_identifiers_and_places(launch: Path) -> None:
    robot = read(launch.parent / "arm.urdf")
    assert [each.name for each in robot.bodies] == ["upper", "fore"]
    assert [(each.name, each.body) for each in robot.frames] == [("base", ""), ("tool", "fore")]
    tree = find_machine("arm.urdf", launch.parent).call().tree
    assert tree["tool"].position.shape == (3, 1)


def test_the_section_of_robots_belongs_to_files_alone(launch: Path) -> None:
    table = {"run": {"duration": 1.0}, "plant": {"machine": "diff_drive_trailer", "robot": {"base": "free"}}}
    text = refusal(LaunchError, servonode.load, table)
    assert "[plant.robot]: machine diff_drive_trailer is not read from a URDF or MJCF file" in text
    assert 'is not a list of "activation"' in refusal(
        LaunchError, launch_of_table, table | {"plant": {"robot": {"ignore": ["wings"]}}}
    )
    line = refused_command("check", str(launch), "--set", "plant.settings.a=1")
    assert "machine arm.urdf has no settings" in line


def test_a_robot_of_mjcf_has_the_joints_that_it_states(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>")
    table = {"run": {"duration": 1.0}, "plant": {"machine": str(tmp_path / "a.xml"), "robot": {"base": "free"}}}
    text = refusal(LaunchError, servonode.load, table)
    assert 'a.xml: an MJCF file states the joints of its bodies itself, so base = "free" cannot be' in text


def test_a_planar_base_drives_without_motors_of_its_own(launch: Path) -> None:
    loop = servonode.load(launch, plant__robot__base="planar")
    assert loop.machine.description.state_names[:3] == ("x", "y", "psi")
    assert loop.machine.description.input_names == ("pan_torque", "left_lift_torque")


def test_a_joint_that_is_left_out_follows_no_other(tmp_path: Path) -> None:
    """So that an arm is without the fingers of its hand."""
    fingers = [joint(name, "b", name[0], more='<mimic joint="j"/>') for name in ("c_grip", "d_grip")]
    (tmp_path / "hand.urdf").write_text(
        urdf(link("a"), link("b"), joint("j", "a", "b"), link("c"), link("d"), *fingers)
    )
    found = read(tmp_path / "hand.urdf", casters=["c_grip", "d_grip"])
    assert [each.name for each in found.joints] == ["j"]
    assert found.loops == ()
