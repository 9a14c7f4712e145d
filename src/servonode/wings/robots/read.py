"""Reading a robot's file by MuJoCo: a description in numbers.

What is only seen or touched is removed before MuJoCo compiles the file, so absent meshes do no harm. Inertias are taken
as they are stated and judged where parts are joined: a camera's may be wrong where it is alone, and do no harm.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from servonode.arrays import Array
from servonode.errors import NotInstalled, installing
from servonode.wings.robots.file_text import FileText, RobotError, scan
from servonode.wings.robots.numbers import described
from servonode.wings.robots.robot import DEGREES, Joint, Robot
from servonode.wings.robots.spec_inertias import take_inertias
from servonode.wings.robots.unsupported import acts, leave_out

POSES = 3  # random ones
SINGULAR = 1e-9  # smallest eigenvalue of a mass matrix, each velocity scaled to a unit inertia of its own


def read(
    file: Path,
    base: str = "fixed",
    ignore: Collection[str] = (),
    casters: Collection[str] = (),
    rolling: Collection[str] = (),
    held: bool = False,
) -> Robot:
    """The robot of a URDF or MJCF file.

    base: how the root link of a URDF moves, "fixed", "free" or "planar". ignore: kinds of elements, of `Ignored` of
    plants, that are left out although they change the motion. casters: joints that are left out, so that their links
    are fixed. rolling: joints of wheels whose rollers are fixed to them. held: whether contacts hold the robot, so that
    links alone need no mass.

    Raises:
        RobotError: the file cannot be read, has something without a counterpart, or no regular mass matrix.
        NotInstalled: MuJoCo is missing.
    """
    mujoco = import_mujoco()
    warnings: list[str] = []
    mujoco.set_mju_user_warning(warnings.append)  # else it writes a file where the process runs
    try:
        text, spec = opened(mujoco, file, base)
        files = {each.name: each.file for each in spec.meshes}
        meshes = tuple((each.parent.name, files[each.meshname]) for each in spec.geoms if files.get(each.meshname))
        radii, joints = dict(_radii(mujoco, spec)), {each.name for each in spec.joints}
        lines = [f'joint "{name}": {word}="0" is taken for no limit' for name, word in text.unlimited if name in joints]
        lines += leave_out(mujoco, spec, file.name, ignore)
        lines += fix_casters(mujoco, spec, casters, file.name)
        rollers = fix_rollers(mujoco, spec, rolling)
        for name, own in rollers.items():
            lines.append(f'joint "{name}": its wheel carries {len(own)} rollers, whose mass stays')
        inertias = take_inertias(mujoco, spec, file.name, text.format == "mjcf")
        compiled = spec.compile()
    except ValueError as error:
        if isinstance(error, RobotError):
            raise
        raise RobotError(f"{file.name}: {in_one_line(str(error))}") from None
    finally:
        mujoco.set_mju_user_warning(lambda _: None)
    lines += [in_one_line(each) for each in warnings]
    robot = described(file, text, compiled, inertias)
    hidden = {body for own in rollers.values() for body in own}  # no places for goals: they turn
    frames = tuple(each for each in robot.frames if each.name not in hidden)
    robot = replace(robot, frames=frames, meshes=meshes, radii=radii, dropped=(*lines, *robot.dropped))
    if not (held or robot.loops):
        check_mass_matrix(robot)
    return robot


def opened(mujoco: ModuleType, file: Path, base: str) -> tuple[FileText, Any]:
    """The spec of a robot's file, all of it with names, on its base; raises RobotError, ValueError."""
    text, spec = scan(file), mujoco.MjSpec.from_file(str(file))
    _name_all(spec)
    if text.format == "urdf":
        _free_links(mujoco, spec)
        _set_ranges(mujoco, spec, file.name)
    _set_base(mujoco, spec, text, base, file)
    return text, spec


def import_mujoco() -> ModuleType:
    """MuJoCo; raises NotInstalled."""
    try:
        return import_module("mujoco")
    except ImportError:
        text = "a robot's file is read by the package mujoco, which is not installed"
        raise NotInstalled(f"{text}: {installing('mujoco')}") from None


def in_one_line(text: str) -> str:
    """What MuJoCo says, in one line and without its own numbers of elements."""
    lines = [each.strip().rstrip(":") for each in text.splitlines() if each.strip()]
    return "; ".join(each.removeprefix("XML Error: ").removeprefix("Error: ") for each in lines)


def _name_all(spec: Any) -> None:
    """Give every body, joint, actuator, site, tendon and equality a name."""
    kinds = {"bodies": "body", "joints": "joint", "actuators": "actuator", "sites": "site", "equalities": "loop"}
    kinds["tendons"] = "tendon"
    for word, kind in kinds.items():
        elements = list(getattr(spec, word))
        taken = {each.name for each in elements}
        for i, each in enumerate(elements):
            if not each.name:
                owner = each.parent.name if word in ("joints", "sites") else ""
                owner = each.name1 if word == "equalities" else owner
                names = [f"{owner}_{kind}" if owner else f"{kind}{i}", *(f"{owner}_{kind}{k}" for k in range(2, 999))]
                each.name = next(name for name in names if name not in taken)
                taken.add(each.name)


def _free_links(mujoco: ModuleType, spec: Any) -> None:
    """Give the links of a URDF that float on others three slides and a ball: MuJoCo has free joints on the ground."""
    kinds = mujoco.mjtJoint
    for joint in [each for each in spec.joints if each.type == kinds.mjJNT_FREE]:
        body, name = joint.parent, joint.name
        if body.parent.name != "world":
            spec.delete(joint)
            for i, axis in enumerate("xyz"):
                body.add_joint(name=f"{name}_{axis}", type=kinds.mjJNT_SLIDE, axis=np.eye(3)[i])
            body.add_joint(name=name, type=kinds.mjJNT_BALL)


def _set_ranges(mujoco: ModuleType, spec: Any, name: str) -> None:
    """Let the ranges of a URDF act of which one end is absent, and so zero.

    Raises:
        RobotError: a lower end is above the upper one.
    """
    for each in [joint for joint in spec.joints if joint.range[0] != joint.range[1]]:
        low, high = each.range
        if low > high:
            text = f"its range begins at {low:g} and ends at {high:g} (absent: 0); swap lower and upper in its <limit>"
            raise RobotError(f'{name}: joint "{each.name}": {text}')
        each.limited = mujoco.mjtLimited.mjLIMITED_TRUE


def _set_base(mujoco: ModuleType, spec: Any, text: FileText, base: str, file: Path) -> None:
    """Give the root link of a URDF its joints.

    Raises:
        RobotError: there is not one root that could have them.
    """
    if base == "fixed":
        return
    roots, reason = list(spec.worldbody.bodies), ""
    free = [joint for root in roots for joint in root.joints if str(joint.type).endswith("FREE")]
    if base == "planar" and len(free) == 1 and len(free[0].parent.joints) == 1:
        roots = [free[0].parent]
        spec.delete(free[0])
    elif text.format != "urdf":
        reason = "an MJCF file states the joints of its bodies itself"
    elif len(roots) != 1 or roots[0].joints:
        reason = f"{len(roots)} links stand on the ground, which is the file's own root"
    if reason:
        raise RobotError(f'{file.name}: {reason}, so base = "{base}" cannot be; remove it')
    if base == "free":
        roots[0].add_freejoint(name="base")
        return
    for name, axis in (("x", [1, 0, 0]), ("y", [0, 1, 0])):
        roots[0].add_joint(name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axis)
    roots[0].add_joint(name="psi", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 0, 1])


def fix_casters(mujoco: ModuleType, spec: Any, casters: Collection[str], name: str) -> list[str]:
    """Remove the joints of casters with what drives them; a line for each.

    Raises:
        RobotError: one is no joint, or part of a tendon that pulls.
    """
    joints = {each.name: each for each in spec.joints}
    for each in casters:
        if each not in joints:
            text = f"casters: {each!r} is no joint of the file; choose from {', '.join(joints)}"
            raise RobotError(f"{name}: [plant.robot] {text}")
        for tendon in [tendon for tendon in spec.tendons if _goes_by(mujoco, tendon, each)]:
            if acts(tendon) or _is_used(mujoco, spec, tendon.name):
                text = f'casters: {each!r} is part of the tendon "{tendon.name}"; remove it from one of them'
                raise RobotError(f"{name}: [plant.robot] {text}")
            spec.delete(tendon)
        _fix(mujoco, spec, joints[each])
    return [f'joint "{each}": a caster does not move, its mass stays' for each in casters]


def _goes_by(mujoco: ModuleType, tendon: Any, joint: str) -> bool:
    """Whether a joint is part of a tendon."""
    joints = [each.target for each in tendon.path if each.type == mujoco.mjtWrap.mjWRAP_JOINT]
    return any(each.name == joint for each in joints)


def _is_used(mujoco: ModuleType, spec: Any, tendon: str) -> bool:
    """Whether a motor or an equality is of a tendon."""
    motors = [each.target for each in spec.actuators if each.trntype == mujoco.mjtTrn.mjTRN_TENDON]
    loops = [(each.name1, each.name2) for each in spec.equalities if each.type == mujoco.mjtEq.mjEQ_TENDON]
    return tendon in (*motors, *(name for names in loops for name in names))


def fix_rollers(mujoco: ModuleType, spec: Any, rolling: Collection[str]) -> dict[str, list[str]]:
    """Remove the joints of what is on wheels with rollers; by the wheels' joints, the bodies that were on joints."""
    found: dict[str, list[str]] = {}
    for wheel in [each for each in spec.joints if each.name in rolling]:
        rollers = [each for each in wheel.parent.find_all(mujoco.mjtObj.mjOBJ_JOINT) if each.parent != wheel.parent]
        found |= {wheel.name: [each.parent.name for each in rollers]} if rollers else {}
        for each in rollers:
            _fix(mujoco, spec, each)
    return found


def _fix(mujoco: ModuleType, spec: Any, joint: Any) -> None:
    """Remove a joint with what drives it."""
    on_joints = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
    loops = [each for each in spec.equalities if each.type == mujoco.mjtEq.mjEQ_JOINT]
    follows = [each for each in loops if each.name1 == joint.name]  # by <mimic>, or a gear
    motors = [each for each in spec.actuators if each.trntype in on_joints and each.target == joint.name]
    for leads in [each for each in loops if each.name2 == joint.name and each not in follows]:
        leads.name2 = ""  # it stays where it is
    for also in (*follows, *motors):
        spec.delete(also)
    spec.delete(joint)


def _radii(mujoco: ModuleType, spec: Any) -> Iterator[tuple[str, float]]:
    """The radius of each body that has a cylinder or a sphere: of what it touches with, if that is one."""
    round_ones = (mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CAPSULE)
    for body in spec.bodies[1:]:
        found = [geom for geom in body.geoms if geom.type in round_ones]
        touching = [geom for geom in found if geom.contype and geom.conaffinity]
        if found:
            yield body.name, max(float(geom.size[0]) for geom in touching or found)


# the mass matrix in numbers


def check_mass_matrix(robot: Robot) -> None:
    """Refuse a robot some of whose joints move no inertia, before anything is derived.

    Raises:
        RobotError: the mass matrix is singular; the text names the joints.
    """
    rng = np.random.default_rng(0)
    names = [each.name for each in robot.joints for _ in range(DEGREES[each.kind])]
    found = [mass_matrix(robot, rng) for _ in range(POSES)]
    massless = [name for name, *own in zip(names, *map(np.diag, found), strict=True) if not max(own) > 0]
    if massless:
        text = f'joint "{massless[0]}" moves no inertia; give its body an <inertial>, or the joint an armature'
        raise RobotError(f"{robot.file.name}: {text}")
    for M in found:
        scale = np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
        values, vectors = np.linalg.eigh(M / np.outer(scale, scale))
        if values[0] < SINGULAR:
            moved = dict.fromkeys(name for name, part in zip(names, vectors[:, 0], strict=True) if abs(part) > 0.1)
            text = f"the mass matrix is singular: the joints {', '.join(moved)} can move together without any inertia"
            raise RobotError(f"{robot.file.name}: {text}; give the bodies between them an <inertial>")


def mass_matrix(robot: Robot, rng: np.random.Generator) -> Array:
    """The mass matrix (n, n) at a random pose, in the velocities of the joints.

    It is the sum of J^T N J over the bodies, J their motions by the joints' velocities.
    """
    n = sum(DEGREES[each.kind] for each in robot.joints)
    poses = {"": (np.zeros(3), np.eye(3), np.zeros((6, n)))}  # position, rotation, J (turn, shift of the origin)
    M, at = np.zeros((n, n)), 0
    for body in robot.bodies:
        origin, R, J = poses[body.parent]
        position = origin + R @ body.position
        R, J = R @ body.rotation, J.copy()
        J[3:] += np.cross(J[:3].T, position - origin).T
        for joint in body.joints:
            size = DEGREES[joint.kind]
            M[range(at, at + size), range(at, at + size)] += joint.armature
            position, R = _move(joint, position, R, J, J[:, at : at + size], rng)
            at += size
        poses[body.name] = position, R, J
        arm = R @ body.centre
        shift = J[3:] + np.cross(J[:3].T, arm).T
        M += body.mass * shift.T @ shift + J[:3].T @ (R @ body.inertia @ R.T) @ J[:3]
    return M


def _move(
    joint: Joint, position: Array, R: Array, J: Array, own: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Move a joint at random and write its own columns of J; position and rotation behind it."""
    if joint.kind in ("hinge", "slide"):
        axis, value = R @ joint.axis, rng.uniform(-1, 1)
        if joint.kind == "hinge":
            own[:3, 0] = axis
            return position, R @ Rotation.from_rotvec(value * joint.axis).as_matrix()
        J[3:] += np.cross(J[:3].T, value * axis).T
        own[3:, 0] = axis
        return position + value * axis, R
    turned = R @ Rotation.from_quat(rng.normal(size=4)).as_matrix()
    own[:3, -3:] = turned
    if joint.kind == "free":
        own[3:, :3] = np.eye(3)
    return position, turned
