"""Robots whose own file MuJoCo moves: the machine's equations as the limit, parameters, contacts, meshes, floors."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.launch_file import LaunchError
from servonode.wings.robots.definition import robot_of
from servonode.wings.robots.joint_states import JointStates
from servonode.wings.robots.sections import Contact
from tests.helpers.extras import needs_mujoco
from tests.helpers.rolling_robots import FOUR_BAR, WELDED

needs_mujoco()

LINK = """<inertial><origin xyz="0.02 0.01 {z}"/><mass value="{mass}"/>
  <inertia ixx="0.03" iyy="0.04" izz="0.02" ixy="0.001" ixz="0.002" iyz="-0.003"/></inertial>"""
FIXED = """<link name="hand"><inertial><mass value="0.5"/><inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0"
  iyz="0"/></inertial></link>
  <joint name="weld" type="fixed"><parent link="fore"/><child link="hand"/>
  <origin xyz="0 0.1 0.4" rpy="0.3 0 0"/></joint>"""
ARM = f"""<robot name="arm"><link name="stand"/>
  <link name="upper">{LINK.format(mass=2, z=0.2)}SHAPE</link>
  <link name="fore">{LINK.format(mass=1, z=0.15)}</link>{FIXED}
  <joint name="shoulder" type="revolute"><parent link="stand"/><child link="upper"/>
    <origin xyz="0 0 1"/><axis xyz="0 1 0"/>
    <limit lower="-9" upper="9" effort="200" velocity="90"/><dynamics damping="0.3"/></joint>
  <joint name="elbow-joint" type="continuous"><parent link="upper"/><child link="fore"/>
    <origin xyz="0 0 0.5" rpy="0.2 0.1 0"/><axis xyz="1 0 0"/></joint></robot>"""
BALL = """<mujoco><option gravity="0 0 -9.81"/><worldbody><body name="body" pos="0 0 2"><freejoint name="root"/>
  <inertial pos="0.1 0 0.05" mass="2" fullinertia="0.03 0.04 0.05 0.001 0 0.002"/>
  <body name="tail" pos="0 0.3 0">
  <joint name="wag" pos="0 0.1 0" axis="1 0 0" stiffness="3" springref="0.2" armature="0.01"/>
  <joint name="nod" pos="0 0.1 0" axis="0 0 1" damping="0.1"/>
  <inertial pos="0 0.2 0" mass="0.5" diaginertia="0.01 0.002 0.01"/></body></body></worldbody>
  <actuator><motor name="m-1" joint="wag" gear="3"/></actuator></mujoco>"""
START = {"shoulder": 0.7, "elbow_joint": -0.4, "shoulder_dot": 0.5, "elbow_joint_dot": 1.0}
FREE = {"wag": 0.3, "x_dot": 0.4, "omega": [0.5, -1.0, 0.3], "nod_dot": 0.7, "wag_dot": -0.5}
LAUNCH = """[run]\nduration = {duration}\nmode = "lockstep"\n[plant]\nmachine = "{file}"\n{more}"""


def loop(folder: Path, text: str, name: str = "arm.urdf", more: str = "", values: Any = None) -> servonode.Loop:
    """The closed loop of a robot that MuJoCo moves; more: of [plant] and further sections; values: by dotted keys."""
    (folder / name).write_text(text)
    file = folder / "run.toml"
    file.write_text(LAUNCH.format(duration=0.5, file=name, more=f'driver = "mujoco"\n{more}'))
    return servonode.load(file, **{key.replace(".", "__"): value for key, value in (values or {}).items()})


def away(loop: servonode.Loop, substeps: int, u: float = 0.0) -> tuple[float, float]:
    """How far MuJoCo is from the equations after half a second, of the largest state; what of the energy is missing."""
    closed = loop.closed_loop
    machine, motion, x = closed.machine, closed.motion(), closed.start.copy()
    assert motion is not None
    y, held = x.copy(), np.full(machine.n_inputs, u)
    assert motion.advance(0, 500, x, held)
    machine.advancer("rk4")(0, 500, 1_000_000, y, held, machine.c)
    missing = machine.energy(0.0, closed.start) + x[-1] - machine.energy(0.0, x)
    assert (closed.launch.section("plant.mujoco", Contact) or Contact()).substeps == substeps
    return float(np.abs(x - y)[:-1].max() / np.abs(y).max()), abs(missing)


@pytest.mark.parametrize(("text", "name", "start"), [(ARM, "arm.urdf", START), (BALL, "ball.xml", FREE)])
def test_mujoco_converges_to_the_equations_of_its_file(tmp_path: Path, text: str, name: str, start: Any) -> None:
    found = []
    for n in (2, 4):
        values = {f"plant.initial.{key}": value for key, value in start.items()}
        values |= {"plant.step": 0.001, "plant.mujoco.substeps": n}
        found.append(away(loop(tmp_path, text.replace("SHAPE", ""), name, values=values), n, u=0.05))
    (coarse, lost), (fine, less) = found
    assert 1e-6 < fine < 5e-3
    assert coarse / fine == pytest.approx(2.0, rel=0.05)
    assert lost / less == pytest.approx(2.0, rel=0.1)


def test_changed_parameters_hold_on_both_sides(tmp_path: Path) -> None:
    changed = {
        "fore_mass": 2.5, "fore_centre_x": 0.05, "fore_inertia_xx": 0.05, "upper_inertia_xy": -0.004,
        "shoulder_damping": 1.5, "g": 3.7,
    }  # fmt: skip
    values = {f"plant.parameters.{key}": value for key, value in changed.items()}
    values |= {f"plant.initial.{key}": value for key, value in START.items()}
    values |= {"plant.step": 0.001, "plant.mujoco.substeps": 8}
    assert away(loop(tmp_path, ARM.replace("SHAPE", ""), values=values), 8)[0] < 2e-3


def test_law_holds_a_joint_goal_against_the_physics_engine(tmp_path: Path) -> None:
    goal = '[controller]\nperiod = 0.005\nresiduals = { a = "shoulder - 0.5*sin(t)", b = "elbow_joint - 0.2" }\n'
    made = loop(tmp_path, ARM.replace("SHAPE", ""), more=goal, values={"plant.step": 0.001, "run.duration": 2.0})
    first, again = made.simulate(), made.simulate()
    assert not first.faults
    assert max(abs(float(values[-1])) for values in first.residual.values()) < 1e-4
    for name, values in first.state.items():
        np.testing.assert_array_equal(values, again.state[name])


def test_shapes_touch_as_the_file_says(tmp_path: Path) -> None:
    box = '<mujoco><worldbody><geom type="plane" size="1 1 1"/><body name="box" pos="0 0 1"><freejoint name="root"/>'
    box += '<geom type="sphere" size="0.1" mass="1"/></body></worldbody></mujoco>'
    run = loop(tmp_path, box, "box.xml", values={"run.duration": 3.0, "plant.step": 0.001}).simulate()
    assert run.state["z"][0] == 1.0
    assert run.state["z"][-1] == pytest.approx(0.1, abs=2e-3)


def stl(file: Path) -> None:
    """A tetrahedron of 5 cm."""
    corners = 0.05 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    faces = corners[[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]].astype("<f4")
    rows = [struct.pack("<3f", 0, 0, 0) + face.tobytes() + b"\0\0" for face in faces]
    file.write_bytes(b" " * 80 + struct.pack("<I", len(rows)) + b"".join(rows))


def shape(name: str) -> str:
    return f'<collision><geometry><mesh filename="{name}"/></geometry></collision>'


def test_meshes_are_found_in_folder_and_package_only(tmp_path: Path) -> None:
    folder = tmp_path / "my_arm" / "urdf"
    (folder.parent / "meshes").mkdir(parents=True)
    folder.mkdir()
    stl(folder.parent / "meshes" / "part.stl")
    stl(tmp_path / "part.stl")
    (folder / "part.dae").write_text("<COLLADA/>")
    for name, text in {
        "package://my_arm/meshes/part.stl": "",
        "../meshes/part.stl": "is outside of",
        "package://my_arm/../part.stl": "is outside of",
        "package://other/meshes/part.stl": "is not there",
        "part.dae": "is none of .stl, .obj, .msh",
    }.items():
        made = loop(folder, ARM.replace("SHAPE", shape(name)))
        notes = made.closed_loop.motion_notes()
        assert bool(notes) == bool(text), (name, notes)
        assert text in " ".join(notes)
    assert made.simulate().t[-1] == pytest.approx(0.5)


def test_parts_that_overlap_at_the_start_of_a_urdf_do_not_push(tmp_path: Path) -> None:
    ball = '<collision><geometry><sphere radius="0.6"/></geometry></collision>'
    text = ARM.replace("SHAPE", ball).replace('<link name="stand"/>', f'<link name="stand">{ball}</link>')
    made = loop(tmp_path, text)
    assert made.closed_loop.motion_notes() == ["contact of stand and upper: left out, for they overlap at the start"]
    assert servonode.check(tmp_path / "run.toml").findings


def test_a_base_in_the_plane_stands_on_a_floor(tmp_path: Path) -> None:
    text = """<robot name="cart"><link name="base"><inertial><origin xyz="0 0 0.3"/><mass value="5"/>
      <inertia ixx="0.2" iyy="0.2" izz="0.3" ixy="0" ixz="0" iyz="0"/></inertial>
      FEET</link>
      <link name="mast"><inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/>
      </inertial></link><joint name="lean" type="continuous"><parent link="base"/><child link="mast"/>
      <origin xyz="0 0 0.5"/><axis xyz="0 0 1"/></joint></robot>"""
    foot = '<collision><origin xyz="{} {} 0.05"/><geometry><sphere radius="0.1"/></geometry></collision>'
    text = text.replace("FEET", "".join(foot.format(x, y) for x in (-0.3, 0.3) for y in (-0.3, 0.3)))
    more = '[plant.robot]\nbase = "planar"\n[plant.initial]\nx_dot = 1.0\n[plant.mujoco]\nfriction = 0.2\n'
    made = loop(tmp_path, text, "cart.urdf", more, values={"plant.step": 0.001})
    motion = made.closed_loop.motion()
    assert motion is not None
    x = made.closed_loop.start.copy()
    assert motion.extra()["height"] == pytest.approx(0.05, abs=1e-3)
    assert motion.advance(0, 300, x, np.zeros(made.closed_loop.machine.n_inputs))
    speed = x[made.closed_loop.machine.description.state_names.index("x_dot")]
    assert speed == pytest.approx(1.0 - 0.2 * 9.81 * 0.3, abs=0.01)


@pytest.mark.slow
def test_a_cart_stands_and_drives_on_its_wheels_and_caster(tmp_path: Path) -> None:
    inertial = """<inertial><origin xyz="{} 0 0"/><mass value="{}"/>
      <inertia ixx="{i}" iyy="{i}" izz="{i}" ixy="0" ixz="0" iyz="0"/></inertial>"""
    shape = '<collision><origin rpy="1.5707963 0 0"/><geometry>{}</geometry></collision>'
    joint = """<joint name="{0}" type="continuous"><parent link="{1}"/><child link="{0}"/><origin xyz="{2}"/>
      <axis xyz="{3}"/></joint>"""
    link = '<link name="{}">{}{}</link>'
    wheel, ball = shape.format('<sphere radius="0.1"/>'), shape.format('<sphere radius="0.04"/>')
    parts = [
        link.format("base", inertial.format(0.05, 5, i=0.08), ""),
        link.format("left", inertial.format(0, 0.5, i=0.002), wheel),
        link.format("right", inertial.format(0, 0.5, i=0.002), wheel),
        link.format("swivel", inertial.format(0, 0.1, i=1e-4), ""),
        link.format("caster", inertial.format(0, 0.1, i=6e-5), ball),
        joint.format("left", "base", "0 0.15 0", "0 1 0"),
        joint.format("right", "base", "0 -0.15 0", "0 1 0"),
        joint.format("swivel", "base", "0.2 0 0", "0 0 1"),
        joint.format("caster", "swivel", "-0.02 0 -0.06", "0 1 0"),
    ]
    more = """step = 0.001
[plant.robot]
wheels = { left = "left", right = "right" }
casters = ["swivel", "caster"]
motors = ["left", "right"]
[controller]
period = 0.01
gains = { lambda = 4.0 }
residuals = { speed = "V - 0.3", turn = "Omega - 0.2" }
"""
    made = loop(tmp_path, f'<robot name="cart">{"".join(parts)}</robot>', "cart.urdf", more)
    motion = made.closed_loop.motion()
    assert motion is not None
    assert motion.extra()["pitch"] == pytest.approx(0.0, abs=3e-3)  # the contact of the caster gives way by 0.3 mm
    assert not motion.advance(0, 50, made.closed_loop.start.copy(), np.array([9e9, -9e9]))
    run = servonode.load(tmp_path / "run.toml", run__duration=3.0).simulate()
    assert not run.faults
    assert abs(run.residual["speed"][-1]) < 0.02
    assert abs(run.residual["turn"][-1]) < 0.02
    with pytest.raises(LaunchError, match=r"base_mass: 0.1 kg is not more than the casters on it, 0.2 kg"):
        servonode.load(tmp_path / "run.toml", plant__parameters={"base_mass": 0.1})


def test_a_file_that_mujoco_cannot_simulate_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "part.stl").write_bytes(b"solid nothing")
    with pytest.raises(LaunchError) as refused:
        loop(tmp_path, ARM.replace("SHAPE", shape("part.stl")))
    assert "MuJoCo cannot simulate arm.urdf" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_loops_are_closed_by_mujocos_own_constraints(tmp_path: Path) -> None:
    """To what these give way. A free body in a loop has angles in the machine, which count turns."""
    for text in (FOUR_BAR, WELDED.replace("<weld ", '<weld solref="0.001 1" ')):
        made = loop(tmp_path, text, "robot.xml", values={"plant.step": 0.001, "plant.initial.a_dot": 0.5})
        assert away(made, 2, u=0.3)[0] < 1e-3
    machine, source = made.closed_loop.machine, made.closed_loop.source
    assert source is not None
    robot = robot_of(source)
    assert robot is not None
    states = JointStates(robot, machine)
    joints = {"a": (np.zeros(1), np.zeros(1)), "two_joint": (np.zeros(7), np.zeros(6))}
    stated = dict.fromkeys(machine.description.state_names, 0.3) | {"yaw": 8.0, "roll": -4.0}
    states.place(joints, stated, machine.parameters)
    found = states.state(joints, machine.parameters)
    rates = machine.derivatives(0.0, machine.state(stated), np.zeros(machine.n_inputs))
    for name, rate in zip(machine.description.coordinates, rates, strict=False):
        assert found[name] == pytest.approx(stated[name], abs=1e-12)
        assert found[f"{name}_dot"] == pytest.approx(rate, abs=1e-12)
