"""What changes a motion in a robot's file is right, as MuJoCo moves with hard constraints, or refused by name."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.mechanics.equilibrium import closed
from servonode.wings.robots.joint_states import JointStates, joints_of
from servonode.wings.robots.read import read
from tests.helpers.extras import needs_mujoco
from tests.helpers.mjcf import (
    STEP,
    body,
    hard_accelerations,
    hinge,
    mjcf,
    motors,
    own_accelerations,
    written,
)
from tests.helpers.refusals import refused_command
from tests.helpers.robots import joint, link, machine_of, mujoco_model, urdf

needs_mujoco()
STATES = 4
SPRUNG = body("a", hinge("j", 'damping="3" stiffness="5"'))
GEARED = (
    motors('name="m" joint="a" damping="0.2" armature="0.01"')
    + '<equality><joint joint1="b" joint2="a" polycoef="0 2 0 0 0"/></equality>'
)
TWO = body("a", hinge("a", 'frictionloss="0.3"'), body("b", hinge("b"), at="0.3 0 0"))
SITES = body("a", hinge("a"), '<site name="s" pos="0.2 0 0"/>' + body(
    "b", hinge("b"), '<site name="r" euler="0 20 0"/>', at="0.2 0 0")) + '<site name="far" pos="5 5 5"/>'  # fmt: skip
OPEN = '<joint name="{0}x" type="slide" axis="1 0 0"/><joint name="{0}z" type="slide" axis="0 0 1"/>' + hinge("{0}y")
LOOSE = body("a", hinge("a", 'damping="0.1"')) + body("f", OPEN.format("f"), at="0.5 0 1")
ROD = body("rod", '<joint name="hip" type="ball" damping="0.3" armature="0.05" range="0 100"/>') + body(
    "s", OPEN.format("s").replace(hinge("sy"), '<joint name="sy" type="slide" axis="0 1 0"/>'), at="0 0 0.6",
)  # fmt: skip
RIGHT = {
    "attached files with compilers of their own": mjcf(
        body("a", hinge("a", axis="0 0 1"), '<frame pos="0 0.1 0" euler="0 30 0"><attach model="c" body="link" '
             'prefix="c_"/></frame>'),
        before='<asset><model name="c" file="child.xml"/></asset><compiler angle="degree"/>'),
    "shapes that win over inertias": mjcf(
        body("a", hinge("a"), '<geom type="box" size=".1 .2 .3" pos="0.1 0 0"/>'),
        before='<compiler inertiafromgeom="true"/>'),
    "a spring by its time constant, a site with a material": mjcf(
        body("a", hinge("a", 'springdamper="0.2 0.5"'), '<site name="s" material="red"/><body name="bare"/>'),
        motors('joint="a"'), '<asset><material name="red"/></asset>'),
    "springs that are switched off": mjcf(SPRUNG, before='<option><flag spring="disable"/></option>'),
    "dampers that are switched off": mjcf(
        TWO, GEARED.partition("<eq")[0], '<option><flag damper="disable"/></option>'),
    "equalities that are switched off": mjcf(TWO, GEARED, '<option><flag equality="disable"/></option>'),
    "constraints that are switched off": mjcf(TWO, GEARED, '<option><flag constraint="disable"/></option>'),
    "actuation that is switched off": mjcf(TWO, GEARED, '<option><flag actuation="disable"/></option>'),
    "actuators that are switched off": mjcf(
        SPRUNG, motors('name="m" joint="j"', 'name="n" joint="j" group="2" damping="0.5" armature="0.1"'),
        '<option actuatorgroupdisable="2"/>'),
    "a site with the name of its fixed body": mjcf(
        '<body name="base"><site name="base"/>' + body("a", hinge("a")) + "</body>", motors('joint="a"')),
    "points of sites": mjcf(
        SITES.replace('name="b" axis="0 1 0"', 'name="b" axis="0 0 1"')
        .replace('"s" pos="0.2 0 0"', '"s" pos="0.2 0.05 0.1"').replace('"r" euler', '"r" pos="0 0.05 0.1" euler'),
        '<equality><connect site1="s" site2="r"/></equality>' + motors('joint="a"')),
    "axes of sites": mjcf(SITES, '<equality><weld site1="s" site2="r"/></equality>' + motors('joint="a"')),
    "a weld with an anchor and a pose": mjcf(LOOSE, '<equality><weld body1="a" body2="f" anchor="0.1 0 0" '
                                             'relpose="0.3 0 0.1 0.9 0 0.2 0"/></equality>' + motors('joint="a"')),
    "a weld without torques": mjcf(LOOSE, '<equality><weld body1="a" body2="f" anchor="0.1 0 0" torquescale="0"/>'
                                   "</equality>" + motors('joint="a"', 'joint="fy"')),
    "losses of a ball that a loop holds": mjcf(
        ROD, '<equality><connect body1="rod" body2="s" anchor="0 0 -0.4"/></equality>'
        + motors('joint="sx"', 'joint="sy"')),
    "a motor with a range of more on one side, a joint called g": mjcf(
        body("a", hinge("g")), motors('name="m" joint="g" gear="2" ctrlrange="-1 3"')),
}  # fmt: skip


@pytest.mark.parametrize("case", RIGHT)
def test_what_changes_a_motion_moves_as_in_mujoco(case: str, tmp_path: Path) -> None:
    file = written(tmp_path, RIGHT[case])
    machine = machine_of(file)
    machine = machine.with_parameters({name: 0.0 for name in machine.parameters if name.endswith("_friction")})
    model, data = mujoco_model(file)
    states, rng = JointStates(read(file), machine), np.random.default_rng(0)
    for _ in range(STATES):
        x = np.append(rng.uniform(-0.4, 0.4, len(machine.description.state_names)), 0.0)
        for each in [name for name in machine.description.state_names if name.endswith("_q_0")]:
            x[machine.description.state_names.index(each)] = 1.0
        found = closed(machine, 0.0, x) if machine.description.constraints else x
        assert found is not None
        u = rng.uniform(-1, 1, model.nu)
        own = own_accelerations(machine, states, model, data, found, u[: machine.n_inputs])
        expected = hard_accelerations(model, data, u)
        assert_allclose(own, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())


def test_a_link_that_floats_on_an_empty_root_moves_as_one_that_floats_on_the_ground(tmp_path: Path) -> None:
    on_root = urdf(
        '<link name="base"/>', link("a"), link("b"), joint("fl", "base", "a", "floating"), joint("j", "a", "b")
    )
    alone = machine_of(written(tmp_path, urdf(link("a"), link("b"), joint("j", "a", "b"))), base="free")
    floating = machine_of(written(tmp_path, on_root.replace('<origin xyz="0.2 0.1 0" rpy="0 0.4 0"/>', "", 1)))
    assert floating.description.state_names[:4] == ("fl_x", "fl_y", "fl_z", "a_q_0")
    assert floating.description.input_names == ("j_torque",)
    x, u = np.append(np.random.default_rng(3).uniform(-1, 1, 15), 0.0), np.array([0.7])
    x[3:7] /= np.linalg.norm(x[3:7])
    assert_allclose(floating.derivatives(0.0, x, u), alone.derivatives(0.0, x, u), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("held", [False, True])
def test_a_ball_has_friction_and_ends_a_run_beyond_its_range(held: bool, tmp_path: Path) -> None:
    loop = '<equality><connect body1="rod" body2="s" anchor="0 0 -0.4"/></equality>' if held else ""
    lossy = ROD.replace('damping="0.3" armature="0.05"', 'frictionloss="0.3"')
    file = written(tmp_path, mjcf(lossy, loop, '<option gravity="0 0 0"/>'))
    machine = machine_of(file)
    assert machine.parameters["hip_upper"] == pytest.approx(np.radians(100))
    names = machine.description.state_names
    x, power = np.zeros(len(names) + 1), []
    if not held:
        x[names.index("rod_q_0")], spin = 1.0, ["rod_omega_0", "rod_omega_1", "rod_omega_2"]
    else:
        spin = ["rod_roll_dot", "rod_pitch_dot", "rod_yaw_dot"]
    for name, rate in zip(spin, (0.1, -0.2, 0.05), strict=True):
        if name in names:
            x[names.index(name)] = rate
    model, data = mujoco_model(file)
    JointStates(read(file), machine).place(
        joints_of(data, model), dict(zip(names, x.tolist(), strict=False)), machine.parameters)  # fmt: skip
    omega = data.joint("hip").qvel
    for sign in (1, -1):
        moved = x + sign * STEP * machine.derivatives(0.0, x, np.zeros(0))
        power.append(machine.energy(0.0, moved))
    assert np.abs(omega).max() > 0.04
    assert (power[0] - power[1]) / 2 / STEP == pytest.approx(-0.3 * np.tanh(omega / 0.05) @ omega, rel=1e-6)


def limited(text: str) -> str:
    """A URDF of one joint with this <limit>."""
    return urdf(
        link("a"), link("b"), joint("j", "a", "b").replace('lower="-1" upper="2" effort="5" velocity="3"', text)
    )


BALL = body("b", '<joint name="q" type="ball"/>')
PID = '<extension><plugin plugin="mujoco.pid"><instance name="p"/></plugin></extension>'
ONE = body("a", hinge("j"))
REFUSED = {
    "a motor that never stops": (
        mjcf(ONE, motors('name="m" joint="j" gear="2" ctrlrange="1 3"')),
        'actuator "m": its input has the range 1 to 3; an input acts in both directions or upwards, and a stop is zero',
    ),
    "a brake": (mjcf(ONE, motors('name="m" joint="j" forcerange="-3 -1"')), "its input has the range -3 to -1"),
    "a joint that limits the sum of two motors": (
        mjcf(body("a", hinge("j", 'actuatorfrcrange="-3 3"')), motors('name="d" joint="j"', 'name="e" joint="j"')),
        'actuator "d" acts on j together with e, and the joint limits their sum; give each motor a forcerange',
    ),
    "a plugin of an actuator": (
        mjcf(ONE, '<actuator><plugin name="m" joint="j" plugin="mujoco.pid" instance="p"/></actuator>', PID),
        'plugin of actuator "m", which has no counterpart in the equations; [plant.robot] ignore = ["plugin"]',
    ),
    "a timed spring of a ball": (
        mjcf(BALL.replace('"ball"', '"ball" springdamper="0.2 0.5"')), 'spring of joint "q" that yields, or turns',
    ),
    "xacro": (
        urdf(link("a"), '<xacro:macro name="m"/>'),
        "<xacro:macro> is of xacro, which is not read; give what `xacro robot.urdf > robot_read.urdf` writes",
    ),
    "a range upside down": (limited('lower="1" upper="-1"'), 'joint "j": its range begins at 1 and ends at -1'),
    "a range without its upper end": (limited('lower="1"'), "its range begins at 1 and ends at 0 (absent: 0); swap"),
    "a negative effort": (limited('lower="-1" upper="1" effort="-5"'), "effort='-5' is negative, or no number"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_right_is_refused_with_its_element(case: str, tmp_path: Path) -> None:
    text, said = REFUSED[case]
    launch = tmp_path / "launch.toml"
    launch.write_text(f'run.duration = 1.0\nplant.machine = "{written(tmp_path, text).name}"\n')
    assert said in refused_command("check", str(launch))


def test_what_a_machine_makes_of_a_range_is_said(tmp_path: Path) -> None:
    machine = machine_of(written(tmp_path, mjcf(ONE, motors('name="m" joint="j" ctrlrange="-1 3"'))))
    assert [each.limit for each in machine.description.inputs] == [1.0]
    assert machine.description.notes == (
        'actuator "m": its input has the range -1 to 3, of which 1 acts in both directions',
    )
    robot = read(written(tmp_path, limited('lower="-1" effort="0" velocity="0"')))
    assert [each.range for each in robot.joints] == [(-1.0, 0.0)]
    assert robot.dropped == tuple(f'joint "j": {word}="0" is taken for no limit' for word in ("effort", "velocity"))


def test_casters_lose_their_motors_and_what_follows_them_stays(tmp_path: Path) -> None:
    file = written(tmp_path, mjcf(TWO, '<equality><joint joint1="a" joint2="b"/></equality>' + motors('joint="b"')))
    robot = read(file, casters=["b"])
    assert (robot.actuators, [(each.first, each.second) for each in robot.loops]) == ((), [("a", "")])


def test_a_fixed_link_whose_mass_is_zero_adds_no_inertia(tmp_path: Path) -> None:
    import mujoco

    def heavy(name: str, mass: float, moment: float) -> str:
        stated = (
            f'<mass value="{mass}"/><inertia ixx="{moment}" iyy="{moment}" izz="{moment}" ixy="0" ixz="0" iyz="0"/>'
        )
        return f'<link name="{name}"><inertial>{stated}</inertial></link>'

    def joined(child: str, parent: str, kind: str) -> str:
        ends = f'<parent link="{parent}"/><child link="{child}"/><axis xyz="0 1 0"/>'
        return f'<joint name="{child}_joint" type="{kind}">{ends}</joint>'

    links = '<link name="base"/>' + heavy("arm", 1.0, 0.2) + heavy("tip", 0.0, 0.1)
    joints = joined("arm", "base", "continuous") + joined("tip", "arm", "fixed")
    file = written(tmp_path, f'<robot name="r">{links}{joints}</robot>')
    model = mujoco.MjModel.from_xml_path(str(file))
    (arm,) = read(file).bodies
    assert_allclose(arm.inertia, np.diag(model.body_inertia[1]), rtol=1e-12, atol=1e-15)
    assert arm.inertia[1, 1] == pytest.approx(0.2)
