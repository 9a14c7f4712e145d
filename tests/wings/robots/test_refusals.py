"""Robots' files that cannot be: one line with the file and the element, and nothing moves."""

from pathlib import Path

import pytest

from servonode.wings.robots import file_text
from servonode.wings.robots.file_text import RobotError
from servonode.wings.robots.read import read
from tests.helpers.extras import needs_mujoco
from tests.helpers.refusals import refusal, refused_command
from tests.helpers.robots import ARM, INERTIAL, joint, link, urdf

needs_mujoco()
CHAIN = (link("a"), link("b"), joint("j", "a", "b"))


def changed(old: str, new: str) -> str:
    """A chain of two links, the inertia of the last one changed."""
    assert old in INERTIAL
    return urdf(link("a"), link("b", INERTIAL.replace(old, new)), joint("j", "a", "b"))


def mjcf(body: str, more: str = "", option: str = "") -> str:
    text = f'<body name="b"><joint name="j"/><geom name="g" size=".1"/>{body}</body>'
    return f"<mujoco><option {option}/><worldbody>{text}</worldbody>{more}</mujoco>"


AROUND = '<tendon><spatial name="w" {}><site site="s"/><geom geom="g"/><site site="s2"/></spatial></tendon>'
PINS = '<site name="s" pos=".2 0 0"/></body><body><site name="s2" pos="-.2 0 0"/>'


def motor(text: str) -> str:
    return mjcf("", f"<actuator>{text}</actuator>")


BAD = {
    "no inertia": (urdf(link("a"), link("b", ""), joint("j", "a", "b")), 'joint "j" moves no inertia; give its body'),
    "a massless leaf behind a fixed joint": (
        urdf(link("a"), link("b", ""), link("c", ""), joint("j", "a", "b"), joint("k", "b", "c", "fixed")),
        'joint "j" moves no inertia',
    ),
    "a singular mass matrix": (
        urdf(link("a"), link("b", ""), link("c"), joint("j", "a", "b"),
             joint("k", "b", "c").replace('<origin xyz="0.2 0.1 0" rpy="0 0.4 0"/>', "")),
        "the mass matrix is singular: the joints j, k can move together without any inertia",
    ),
    "moments of no body": (changed('ixx="0.03"', 'ixx="0.3"'), 'body "b": no body has the principal moments'),
    "a negative moment": (changed('ixx="0.03"', 'ixx="-0.03"'), 'body "b": a principal moment of inertia is -0.03'),
    "a negative mass": (changed('value="2"', 'value="-2"'), 'body "b": the mass -2 kg is negative'),
    "a mass that is no number": (changed('value="2"', 'value="nan"'), '<mass> "" has value="nan"; give finite numbers'),
    "a mass in words": (changed('value="2"', 'value="two"'), "bad format in attribute 'value'; Element 'mass', line 1"),
    "two joints of one name": (urdf(*CHAIN, link("c"), joint("j", "b", "c")), "<joint name='j'>: the name is"),
    "two links of one name": (urdf(*CHAIN, link("b")), "<link name='b'>: the name is used twice"),
    "a loop in a URDF": (
        urdf(*CHAIN, link("c"), joint("k", "b", "c"), joint("l", "a", "c")),
        "URDF body has multiple parents; Element 'joint', line 1",
    ),
    "a circle in a URDF": (urdf(*CHAIN, joint("k", "b", "a")), "URDF body"),
    "names that become equal": (
        urdf(*CHAIN, link("c"), joint("l-1", "b", "c"), link("d"), joint("l_1", "c", "d")),
        'joint "l-1" and joint "l_1" would both be called l_1; rename one of them',
    ),
    "nothing that moves": (urdf(link("a")), "it has no joint, so nothing moves"),
    "an unknown joint": (urdf(link("a"), link("b"), joint("j", "a", "b", "screw")), "invalid joint type"),
    "no XML": ("hello", "line 1: is no XML (syntax error)"),
    "an empty file": ("", "is no XML (no element found)"),
    "XML that ends early": ("<robot name='a'><link", "is no XML (unclosed token)"),
    "another kind of XML": ("<sdf/>", "begins with <sdf>; a URDF begins with <robot>, an MJCF file with <mujoco>"),
    "entities": ('<!DOCTYPE a [<!ENTITY x "y">]><robot name="&x;"/>', "has a document type (<!DOCTYPE>)"),
    "10 000 bodies": ("<mujoco><worldbody>" + "<body/>" * 10_000, "has more than 1000 bodies"),
    "bodies by repetition": (
        '<mujoco><worldbody><replicate count="100000"><body/></replicate></worldbody></mujoco>',
        "has more than 1000 bodies",
    ),
    "deep nesting": ("<mujoco><worldbody>" + "<frame>" * 300, "stands within 200 elements"),
    "an include outside": ('<mujoco><include file="../../etc/passwd"/></mujoco>', "which is outside of the folder"),
    "an include that is absent": ('<mujoco><include file="x.xml"/></mujoco>', "includes x.xml: No such file"),
    "an unknown element": (mjcf("<jiont/>"), "unrecognized element; Element 'jiont', line 1"),
    "a fluid": (mjcf("", option='density="1.2"'), 'fluid of density 1.2 kg/m^3 and viscosity 0 Pa s, which has no'),
    "a damper": (
        motor('<damper name="p" joint="j" kv="3" ctrlrange="0 1"/>'),
        'actuator "p" is a servo whose command does not follow from its force',
    ),
    "a servo without gain": (
        motor('<general name="p" joint="j" gainprm="0" biastype="affine" biasprm="0 -3 0"/>'),
        'actuator "p" is a servo',
    ),
    "a servo without feedback": (
        motor('<general name="p" joint="j" biastype="affine" biasprm="3 0 0"/>'),
        'actuator "p" is a servo that holds neither place nor speed (ignored, it is a motor)',
    ),
    "a servo that pushes": (
        motor('<general name="p" joint="j" gainprm="9" biastype="affine" biasprm="0 3 -1"/>'),
        'actuator "p" is a servo that pushes away from its place',
    ),
    "a place servo of negative gain": (
        motor('<position name="p" joint="j" kp="-9"/>'), 'actuator "p" is a servo that pushes away from its place',
    ),
    "a speed servo that is driven on": (
        motor('<general name="p" joint="j" gainprm="9" biastype="affine" biasprm="0 0 2"/>'),
        'actuator "p" is a servo that pushes away from its place',
    ),
    "a speed servo without rest": (
        motor('<velocity name="p" joint="j" kv="9" ctrlrange="1 5"/>'),
        'actuator "p": it holds a speed, and its ctrlrange has none at which it rests; give it one that has zero',
    ),
    "a motor at a site that stands still": (
        mjcf("", '<actuator><motor name="p" site="still" gear="1 0 0 0 0 0"/></actuator>').replace(
            "</worldbody>", '<site name="still"/></worldbody>'
        ),
        'actuator "p" moves nothing: its gear is zero, or still stands still',
    ),
    "a muscle": (motor('<muscle name="p" joint="j" lengthrange="0 1"/>'), 'actuator "p" is a muscle'),
    "states of an actuator": (
        motor('<general name="p" joint="j" dyntype="integrator" actlimited="false"/>'),
        'actuator "p" has states of its own',
    ),
    "an actuator of a body": (
        motor('<adhesion name="p" body="b" ctrlrange="0 1"/>'), 'actuator "p" lets body "b" adhere where it touches',
    ),
    "a tendon around a shape": (
        mjcf(PINS, AROUND.format('stiffness="2"')),
        'tendon "w" that runs around shapes',
    ),
    "a motor of a tendon around a shape": (
        mjcf(PINS, AROUND.format("")
             + '<actuator><motor name="p" tendon="w"/></actuator>'),
        'actuator "p" acts on tendon "w", which runs around shapes',
    ),
    "a tendon that yields": (
        mjcf("", '<tendon><fixed name="w" stiffness="2" springyield="1"><joint joint="j" coef="1"/></fixed></tendon>'),
        'tendon "w" that yields',
    ),
    "an armature between branches": (
        mjcf('</body><body><joint name="k"/><geom size=".1"/>', '<tendon><fixed name="w" armature="1"><joint joint="j" '
             'coef="1"/><joint joint="k" coef="1"/></fixed></tendon>'),
        'tendon "w" has an armature, its own or of a motor, and joins branches',
    ),
    "a body without weight": (
        mjcf('<body name="c" gravcomp="1"><joint name="k"/><geom size=".1"/></body>'), 'gravcomp of body "c"',
    ),
    "an inertial that is lost where bodies are fused": (
        '<mujoco><compiler fusestatic="true" inertiafromgeom="true"/><worldbody><body name="b"><joint/>'
        '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><body name="c"><geom size=".1"/></body>'
        "</body></worldbody></mujoco>",
        'body "b": fusestatic with inertiafromgeom="true" drops its <inertial>',
    ),
    "a mesh that would give the inertia": (
        '<mujoco><asset><mesh name="m" file="m.stl"/></asset><worldbody><body name="b"><joint/>'
        '<geom type="mesh" mesh="m"/></body></worldbody></mujoco>',
        'body "b" has its inertia from a mesh, and meshes are not read; give it an <inertial>',
    ),
}  # fmt: skip


def written(folder: Path, text: str) -> Path:
    file = folder / "robot.xml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_cannot_be_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    text, said = BAD[case]
    written(tmp_path, text)
    launch = tmp_path / "launch.toml"
    launch.write_text('run.duration = 1.0\nplant.machine = "robot.xml"\n')
    line = refused_command("check", str(launch))
    assert line.startswith(f"{launch} [plant] machine: robot.xml")
    assert said in line


def test_a_file_that_is_absent_is_named(tmp_path: Path) -> None:
    launch = tmp_path / "launch.toml"
    launch.write_text('run.duration = 1.0\nplant.machine = "panda.urdf"\n')
    assert f"there is no file {tmp_path / 'panda.urdf'}" in refused_command("check", str(launch))


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "large.urdf"
    with file.open("wb") as stream:
        stream.truncate(200_000_000)
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it was read"))
    assert "large.urdf: has 200000000 bytes; at most 20000000" in refusal(RobotError, file_text.scan, file)


def test_what_is_ignored_is_left_out_with_a_line(tmp_path: Path) -> None:
    file = written(tmp_path, motor('<position name="p" joint="j" kp="3"/>'))
    robot = read(file, ignore=["servo"])
    assert [(each.name, each.gear, each.range) for each in robot.actuators] == [("p", (1.0,), None)]
    assert robot.dropped[0].startswith('actuator "p" is a servo')
    assert robot.dropped[0].endswith("left out")


def test_loops_are_left_out_where_equalities_are_ignored(tmp_path: Path) -> None:
    text = urdf(*CHAIN, link("c"), joint("k", "b", "c", more='<mimic joint="j" multiplier="2"/>'))
    assert [each.kind for each in read(written(tmp_path, text)).loops] == ["joint"]
    robot = read(written(tmp_path, text), ignore=["equality"])
    assert robot.loops == ()
    assert "equality" in robot.dropped[0]


def test_contacts_and_tendons_that_pull_nothing_are_no_reason_to_refuse(tmp_path: Path) -> None:
    tendon = '<tendon><fixed name="w"><joint joint="j" coef="1"/></fixed></tendon>'
    robot = read(written(tmp_path, mjcf("", tendon)))
    assert robot.dropped == ('contacts: left out; driver = "mujoco" has them',)


def test_a_caster_leaves_tendons_that_pull_and_what_only_shares_its_name(tmp_path: Path) -> None:
    body = '<site name="k"/><body name="k"><joint name="k"/><geom size=".1"/></body>'
    tendon = '<tendon><fixed name="w"><joint joint="j" coef="1"/><joint joint="k" coef="1"/></fixed></tendon>'
    thrust = '<actuator><motor name="thrust" site="k" gear="1 0 0 0 0 0"/>{}</actuator>'
    robot = read(written(tmp_path, mjcf(body, tendon + thrust.format(""))), casters=["k"])
    assert [each.name for each in robot.actuators] == ["thrust"]
    path = written(tmp_path, mjcf(body, tendon + thrust.format('<motor tendon="w"/>')))
    with pytest.raises(RobotError, match="casters: 'k' is part of the tendon \"w\"; remove it from one of them"):
        read(path, casters=["k"])


def test_without_mujoco_the_remedy_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "arm.urdf").write_text(ARM.replace("0.1 0 0.02", "0.11 0 0.02"))  # in no cache
    launch = tmp_path / "launch.toml"
    launch.write_text('run.duration = 1.0\nplant.machine = "arm.urdf"\n')
    monkeypatch.setitem(__import__("sys").modules, "mujoco", None)
    assert 'pip install "servonode[mujoco]"' in refused_command("check", str(launch))
