"""Wheels that roll without slipping: the trailer robot of a URDF is the packaged one, and what no wheels can do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.errors import ServonodeError
from servonode.mechanics.machine import Machine, load_machine
from tests.helpers.extras import needs_mujoco
from tests.helpers.packaged import machine_key, model_factory
from tests.helpers.rolling_robots import WHEELS, car, joint, link, robot_machine, trailer_robot, urdf, wheel

needs_mujoco()
MOTORS = {"motors": ["theta1", "theta2"]}
STATES = {
    "X": "x",
    "Y": "y",
    "psi": "psi",
    "phi": "phi",
    "V": "V",
    "Omega": "Omega",
    "theta1": "theta1",
    "theta2": "theta2",
}
FORCES = {
    "Lambda1": "left_side",
    "Lambda2": "behind_left_side",
    "Lambda3": "left_traction",
    "Lambda4": "right_traction",
}


@pytest.fixture(scope="module")
def packaged() -> Machine:
    return load_machine(machine_key("diff_drive_trailer", {}), model_factory("diff_drive_trailer"), {})


def test_the_trailer_robot_of_a_urdf_has_the_equations_of_the_packaged_one(
    tmp_path: Path, packaged: Machine, rng: np.random.Generator
) -> None:
    """Its parameters are those of the sheet: I1 = 0.34 + m1 d1^2, I_ky and I_kz; wheels of a trailer without mass."""
    found = robot_machine(tmp_path, trailer_robot(), wheels=WHEELS, **MOTORS)
    names, others = found.description.state_names, packaged.description.state_names
    assert set(names) == {*STATES.values(), "theta3", "theta4"}
    for _ in range(50):
        stated = dict(zip(others, rng.normal(size=8), strict=True))
        x = np.append([next((stated[a] for a, b in STATES.items() if b == name), 0.3) for name in names], 0.0)
        wanted_x, u = np.append(list(stated.values()), 0.0), rng.normal(size=2)
        wanted = packaged.derivatives(0.0, wanted_x, u)
        rates = dict(zip((*names, "work"), found.derivatives(0.0, x, u), strict=True))
        assert_allclose([rates[STATES[a]] for a in others] + [rates["work"]], wanted, rtol=1e-11, atol=1e-11)
        assert found.energies(0.0, x)[0] == pytest.approx(packaged.energy(0.0, wanted_x), rel=1e-12)
        forces = dict(zip(found.description.constraints, found.full(0.0, x, u)[1], strict=True))
        others_forces = packaged.full(0.0, wanted_x, u)[1]
        assert_allclose([forces[FORCES[a]] for a in packaged.description.constraints], others_forces, atol=1e-10)


def test_a_goal_of_the_packaged_robot_moves_the_imported_one_alike(tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_text(trailer_robot())
    own = {"residuals": {"phi": "phi - pi/4*sin(0.1*t)", "speed": "V - 0.4"}, "gains": {"lambda": 2.0}, "period": 0.01}
    plant = {"machine": str(tmp_path / "robot.urdf"), "robot": {"wheels": WHEELS, **MOTORS}, "initial": {"V": 0.4}}
    run = servonode.simulate({"run": {"duration": 5.0}, "plant": plant, "controller": own})
    packaged = {"program": "hitch_angle", "settings": {"completion": "speed"}, "period": 0.01}
    plant = {"machine": "diff_drive_trailer", "initial": {"V": 0.4}}
    wanted = servonode.simulate({"run": {"duration": 5.0}, "plant": plant, "controller": packaged})
    for theirs, ours in STATES.items():
        assert_allclose(run.state[ours], wanted.state[theirs], atol=1e-12)
    assert abs(wanted.state["phi"][-1]) > 0.3


def test_places_of_wheels_are_numbers_that_no_unit_contradicts(tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_text(trailer_robot())
    plant = {"machine": str(tmp_path / "robot.urdf"), "robot": {"wheels": WHEELS, **MOTORS}}
    judged = servonode.load({"run": {"duration": 0.1}, "plant": plant}).check()
    assert judged.verdict == "yes"
    assert "units" not in str(judged)


def test_passive_wheels_with_a_mass_spin_with_the_trailer(tmp_path: Path) -> None:
    """A robot that coasts straight on: all momentum is that of masses and of wheels, m + I / r^2."""
    found = robot_machine(tmp_path, trailer_robot(massless=False), wheels=WHEELS, **MOTORS)
    x = np.zeros(len(found.description.state_names) + 1)
    x[found.description.state_names.index("V")] = 0.7
    inertia = 4 + 2 + 2 * 1.0 + 2 * 0.2 + 4 * 0.00028 / 0.075**2
    assert found.energies(0.0, x)[0] == pytest.approx(inertia * 0.7**2 / 2, rel=1e-12)


def test_a_steered_wheel_leaves_speed_and_steering_rate(tmp_path: Path) -> None:
    """The yaw rate of a bicycle is V tan(steer) / L; at a right angle its wheel would have to slip."""
    found = robot_machine(tmp_path, car(), wheels={"rear": "rear", "front": "front"}, motors=["rear", "steer"])
    names = found.description.state_names
    assert names[-2:] == ("V", "steer_dot")
    x = np.zeros(len(names) + 1)
    x[names.index("V")], x[names.index("steer")] = 0.8, 0.4
    rates = dict(zip(names, found.derivatives(0.0, x, np.zeros(2)), strict=False))
    assert rates["psi"] == pytest.approx(0.8 * np.tan(0.4) / 0.5, rel=1e-12)
    assert rates["front"] == pytest.approx(0.8 / np.cos(0.4) / 0.1, rel=1e-12)
    x[names.index("steer")] = np.pi / 2 - 0.01
    assert "dead point" in str(found.fault(0.0, x))


def test_a_fork_with_trail_follows_like_a_trailer(tmp_path: Path) -> None:
    found = robot_machine(tmp_path, car("-0.1 0 0.1"), wheels={"rear": "rear", "front": "front"}, motors=["rear"])
    assert found.description.state_names[-2:] == ("V", "Omega")


def test_wheels_of_a_robot_that_looks_to_the_side_and_turns_them_backwards_drive_forward(tmp_path: Path) -> None:
    """The base's origin is ahead of the axle, which lies along x; one joint's axis points right."""
    robot = urdf(
        link("base", 3.0, (0.1, 0.1, 0.1)),
        wheel("a", "base", "0.2 -0.3 0.1", 0.1, axis="1 0 0"),
        wheel("b", "base", "-0.2 -0.3 0.1", 0.1, axis="-1 0 0"),
    )
    found = robot_machine(tmp_path, robot, wheels={"a": "a", "b": "b"})
    names = found.description.state_names
    x = np.zeros(len(names) + 1)
    x[names.index("V")], x[names.index("Omega")] = 0.5, 0.2
    rates = dict(zip(names, found.derivatives(0.0, x, np.zeros(2)), strict=False))
    assert_allclose([rates["x"], rates["y"]], [-0.3 * 0.2, 0.5] if rates["y"] > 0 else [-0.3 * 0.2, -0.5], atol=1e-12)
    turned = np.array([rates["a"], rates["b"]]) * 0.1
    assert_allclose(np.abs(turned), [0.5 + np.sign(rates["y"]) * 0.2 * 0.2, 0.5 - np.sign(rates["y"]) * 0.2 * 0.2])
    assert turned[0] * turned[1] < 0


def refusal(folder: Path, text: str, **settings: Any) -> str:
    with pytest.raises(ServonodeError) as caught:
        robot_machine(folder, text, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_wheels_that_cannot_be_are_refused_with_the_remedy(tmp_path: Path) -> None:
    two = {"left": "theta1", "right": "theta2"}

    def said(text: str = trailer_robot(), **settings: Any) -> str:
        return refusal(tmp_path, text, **settings)

    assert "left = 'thetal' is not a joint of the file; choose from theta1" in said(wheels={"left": "thetal"})
    assert "left = 'phi' has the axis (0, 0, 1); the axis of a wheel is horizontal" in said(wheels={"left": "phi"})
    assert "casters: 'ball' is no joint of the file" in said(wheels=two, casters=["ball"])
    assert "motors: 'm' is not a joint" in said(wheels=two, motors=["m"])
    assert "radius: middle is no wheel; choose from left, right" in said(wheels=two, radius={"middle": 0.1})
    assert "rollers: middle is no wheel; choose from left, right" in said(wheels=two, rollers={"middle": 0.8})
    in_degrees = "those of left are at 45 rad to the axle; give radians between -pi/2 and pi/2, such as pi/4"
    assert in_degrees in said(wheels=two, rollers=45.0)
    assert "and not 0, which drives nothing" in said(wheels=two, rollers={"right": 0.0})
    assert "at nan rad" in said(wheels=two, rollers=float("nan"))
    assert "rollers: wheels names none" in said(trailer_robot(massless=False), rollers=0.8)
    assert "the wheel right does not touch the ground: it ends 0.025 m above" in said(
        wheels=two, radius={"right": 0.05}
    )
    assert "radius: that of left is -1 m; give one above 0" in said(wheels=two, radius=-1.0)
    assert "'theta1' stands there twice; name each joint once" in said(wheels={"a": "theta1", "b": "theta1"})
    assert "radius: wheels names none" in said(trailer_robot(massless=False), radius=0.1)
    assert 'state base = "planar"' in said(wheels=two, base="free")
    assert "independent: 'q' is no joint" in said(wheels=two, independent=["q"])


def test_wheels_of_other_shapes_need_a_radius_and_bad_ones_are_refused(tmp_path: Path) -> None:
    flat = urdf(
        link("base", 3.0, (0.1, 0.1, 0.1)), link("w", 1.0, (1e-4, 2e-4, 1e-4)), joint("a", "base", "w", "0 0.2 0"),
    )  # fmt: skip
    assert "has no cylinder or sphere as its shape" in refusal(tmp_path, flat, wheels={"a": "a"})
    oval = flat.replace('ixx="0.0001"', 'ixx="0.00015"')
    assert "is not round" in refusal(tmp_path, oval, wheels={"a": "a"}, radius=0.1)
    beside = flat.replace('centre="0 0 0"', "").replace('<origin xyz="0 0 0"/><mass value="1.0"/>',
                                                        '<origin xyz="0.02 0 0"/><mass value="1.0"/>')  # fmt: skip
    assert "centre of mass 0.02 m off its axis" in refusal(tmp_path, beside, wheels={"a": "a"}, radius=0.1)
    tilted = urdf(
        link("base", 3.0, (0.1, 0.1, 0.1)), link("arm", 1.0, (0.1, 0.1, 0.1)), joint("lift", "base", "arm", "0 0 0"),
        wheel("a", "arm", "0 0.2 0.1", 0.1),
    )  # fmt: skip
    assert "hangs on a joint that tilts or lifts it" in refusal(tmp_path, tilted, wheels={"a": "a"})


def four_wheels(places: dict[str, str], axes: dict[str, str]) -> str:
    parts = (wheel(name, "base", place, 0.1, axis=axes.get(name, "0 1 0")) for name, place in places.items())
    return urdf(link("base", 3.0, (0.1, 0.1, 0.1)), *parts)


def test_drives_whose_wheels_slip_or_roll_sideways_are_refused(tmp_path: Path) -> None:
    corners = {"fl": "0.3 0.2 0.1", "fr": "0.3 -0.2 0.1", "rl": "-0.3 0.2 0.1", "rr": "-0.3 -0.2 0.1"}
    said = refusal(tmp_path, four_wheels(corners, {}), wheels={name: name for name in corners})
    assert (
        "fl and rl are not steered and stand on different axes, so that the base cannot turn without slipping" in said
    )
    assert "name those of one axis and put the joints of others into casters, or state the rollers" in said
    around = {"a": "0.2 0 0.1", "b": "-0.1 0.1732 0.1", "c": "-0.1 -0.1732 0.1"}
    axes = {"a": "1 0 0", "b": "-0.5 0.866 0", "c": "-0.5 -0.866 0"}
    assert "the base cannot drive" in refusal(
        tmp_path, four_wheels(around, axes), wheels={name: name for name in around}
    )
    rear = {"rl": "rl", "rr": "rr"}
    found = robot_machine(tmp_path, four_wheels(corners, {}), wheels=rear, casters=["fl", "fr"])
    assert found.description.state_names == ("x", "y", "psi", "rl", "rr", "V", "Omega")
    assert found.description.input_names == ("rl_torque", "rr_torque")


CART = """<mujoco model="cart"><worldbody><geom type="plane" size="5 5 1"/>
 <body name="base" pos="0 0 0.1"><freejoint/><inertial pos="0 0 0" mass="3" diaginertia="0.1 0.1 0.1"/>
  <body name="l" pos="0 0.2 0"><joint name="left" axis="0 1 0" damping="0.01"/>
   <geom type="cylinder" size="0.1 0.02" euler="90 0 0" mass="0.5"/></body>
  <body name="r" pos="0 -0.2 0"><joint name="right" axis="0 1 0"/>
   <geom type="cylinder" size="0.1 0.02" euler="90 0 0" mass="0.5"/></body>
  <body name="ball" pos="-0.3 0 -0.05"><joint name="castor" type="ball"/><geom size="0.05" mass="0.2"/></body></body>
 </worldbody><actuator><motor name="L" joint="left" gear="2"/><motor name="R" joint="right"/></actuator></mujoco>"""


def test_a_free_base_of_mjcf_with_wheels_moves_in_the_plane(tmp_path: Path) -> None:
    """Pushed by both motors alike it speeds up by 2 tau / r over its mass with that of the spinning wheels."""
    found = robot_machine(tmp_path, CART, wheels={"left": "left", "right": "right"}, casters=["castor"])
    assert found.description.state_names == ("x", "y", "psi", "left", "right", "V", "Omega")
    rates = found.derivatives(0.0, np.zeros(8), np.array([0.1, 0.2]))
    assert rates[5] == pytest.approx(2 * 0.2 / 0.1 / (3 + 2 * 0.5 + 0.2 + 2 * 0.5 / 2), rel=1e-9)
    assert found.description.constraints == ("left_traction", "left_side", "right_traction")
