"""What of a robot's file has no counterpart in equations of motion: refused where it changes the motion, else named."""

from collections.abc import Collection, Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from servonode.wings.robots.file_text import RobotError

Finding = tuple[str, str]  # kind, one of `Ignored` of plants; element with what it does
_SEEN = ("sensors", "keys", "tuples", "pairs", "excludes", "skins", "numerics", "texts", "lights", "cameras")
_ACTING = ("actuators", "equalities", "tendons", "flexes")
SHAPES = ("geoms", "meshes", "hfields", "materials", "textures")


def leave_out(mujoco: ModuleType, spec: Any, name: str, ignore: Collection[str]) -> list[str]:
    """Remove from a spec what has no counterpart; a line for each. name: of the file.

    Raises:
        RobotError: something would change the motion, and `ignore` does not list its kind.
    """
    lines = []
    for kind, text in _findings(mujoco, spec, ignore):
        if kind not in ignore:
            remedy = f'[plant.robot] ignore = ["{kind}"] leaves it out'
            raise RobotError(f"{name}: {text}, which has no counterpart in the equations; {remedy}")
        lines.append(f"{text}: left out")
    if any(each.contype and each.conaffinity for each in spec.geoms):
        lines.append('contacts: left out; driver = "mujoco" has them')
    if any(each.mocap for each in spec.bodies):
        lines.append("mocap bodies: they stand still")
    remove(spec, _SEEN)
    return lines


def remove(spec: Any, words: Iterable[str]) -> None:
    """Remove the elements of these lists; what is left loses its material."""
    for each in (*spec.geoms, *spec.sites):
        each.material = ""
    for word in words:
        for each in list(getattr(spec, word)):
            spec.delete(each)


def keep_shapes(spec: Any, names: Collection[str]) -> None:
    """Remove all but the bodies and the geoms of these names, which lose their materials."""
    remove(spec, (*_SEEN, *_ACTING, *SHAPES[1:]))
    for each in [each for each in spec.geoms if each.name not in names]:
        spec.delete(each)


def _findings(mujoco: ModuleType, spec: Any, ignore: Collection[str]) -> Iterator[Finding]:
    """What changes the motion; it is removed, or made a plain motor, once it has been named."""
    yield from _of_surroundings(spec)
    round_ones = (mujoco.mjtWrap.mjWRAP_SPHERE, mujoco.mjtWrap.mjWRAP_CYLINDER)
    around = {each.name for each in spec.tendons if any(part.type in round_ones for part in each.path)}
    for each in list(spec.actuators):
        yield from _of_actuator(mujoco, spec, each, around, ignore)
    kinds = mujoco.mjtEq
    closing = (kinds.mjEQ_CONNECT, kinds.mjEQ_WELD, kinds.mjEQ_JOINT, kinds.mjEQ_TENDON)
    for each in list(spec.equalities):
        led = each.type == kinds.mjEQ_TENDON and around & {each.name1, each.name2}
        if each.type not in closing or led or "equality" in ignore:
            yield "equality", f'equality "{each.name}" of {str(each.type).rpartition("_")[2].lower()}s'
            spec.delete(each)
    for each in list(spec.tendons):
        yield from _of_tendon(spec, each, around, ignore)
    for each in spec.joints:
        yield from _of_joint(mujoco, each)


def _of_tendon(spec: Any, tendon: Any, around: Collection[str], ignore: Collection[str]) -> Iterator[Finding]:
    """What a tendon does that has no counterpart; one that runs around shapes is removed."""
    ignored = "tendon" in ignore
    if acts(tendon) and (ignored or tendon.name in around or tendon.springyield):
        reasons = {tendon.name in around: " that runs around shapes", bool(tendon.springyield): " that yields"}
        yield "tendon", f'tendon "{tendon.name}"{"" if ignored else reasons[True]}'
        tendon.stiffness, tendon.damping = 0 * tendon.stiffness, 0 * tendon.damping
        tendon.frictionloss, tendon.armature, tendon.limited = 0, 0, 0
    if tendon.name in around:
        spec.delete(tendon)


def _of_surroundings(spec: Any) -> Iterator[Finding]:
    option = spec.option
    if option.density > 0 or option.viscosity > 0:
        yield "fluid", f"fluid of density {option.density:g} kg/m^3 and viscosity {option.viscosity:g} Pa s"
    for flex in list(spec.flexes):
        yield "flex", f'flex "{flex.name}"'
        spec.delete(flex)
    for body in spec.bodies:
        if body.plugin.active:
            yield "plugin", f'plugin of body "{body.name}"'
        if body.gravcomp:
            yield "gravcomp", f'gravcomp of body "{body.name}"'


def _of_joint(mujoco: ModuleType, joint: Any) -> Iterator[Finding]:
    plain = joint.type in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    sprung = np.any(joint.stiffness) or joint.springdamper.any()
    if joint.springyield or (sprung and not plain):
        yield "spring", f'spring of joint "{joint.name}" that yields, or turns in more than one way'
        joint.stiffness, joint.damping, joint.springdamper = 0 * joint.stiffness, 0 * joint.damping, [0, 0]


def _of_actuator(
    mujoco: ModuleType, spec: Any, actuator: Any, around: Collection[str], ignore: Collection[str]
) -> Iterator[Finding]:
    """What an actuator has beyond a force: others are removed. around: tendons with shapes.

    A servo stays one where a force tells its command, unless it is ignored: then it becomes a motor.
    """
    what, kinds = f'actuator "{actuator.name}"', mujoco.mjtTrn
    if actuator.plugin.active:
        yield "plugin", f"plugin of {what}"
    elif mujoco.mjtGain.mjGAIN_MUSCLE == actuator.gaintype or mujoco.mjtDyn.mjDYN_MUSCLE == actuator.dyntype:
        yield "muscle", f"{what} is a muscle"
    elif actuator.trntype == kinds.mjTRN_BODY:
        yield "transmission", f'{what} lets body "{actuator.target}" adhere where it touches'
    elif actuator.trntype == kinds.mjTRN_SO3:
        yield "transmission", f"{what} acts by three torques at once"
    elif actuator.trntype == kinds.mjTRN_TENDON and actuator.target in around:
        yield "transmission", f'{what} acts on tendon "{actuator.target}", which runs around shapes'
    elif actuator.dyntype != mujoco.mjtDyn.mjDYN_NONE or actuator.delay:
        yield "activation", f"{what} has states of its own"
    else:
        fixed, bias = actuator.gaintype == mujoco.mjtGain.mjGAIN_FIXED, actuator.biastype
        told = fixed and actuator.gainprm[0] and bias == mujoco.mjtBias.mjBIAS_AFFINE and "servo" not in ignore
        told = told and _of_joints(mujoco, spec, actuator)
        _, stiffness, damping = actuator.biasprm[:3]  # of a place servo a ratio, above zero, may stand for damping
        away = told and (stiffness > 0 or (damping > 0 and actuator.gainprm[0] != -stiffness))
        idle = told and not stiffness and not damping
        if away or idle or (not told and not (fixed and bias == mujoco.mjtBias.mjBIAS_NONE)):
            why = "that pushes away from its place" if away else "whose command does not follow from its force"
            why = "that holds neither place nor speed" if idle else why
            yield "servo", f"{what} is a servo {why} (ignored, it is a motor)"
            actuator.set_to_motor()
            actuator.ctrllimited, actuator.ctrlrange, actuator.inheritrange = 0, [0, 0], 0  # positions or speeds
        return
    spec.delete(actuator)


def _of_joints(mujoco: ModuleType, spec: Any, actuator: Any) -> bool:
    """Whether the length of an actuator is a sum of hinges and slides."""
    if actuator.trntype == mujoco.mjtTrn.mjTRN_TENDON:
        return all(part.type == mujoco.mjtWrap.mjWRAP_JOINT for part in spec.tendon(actuator.target).path)
    joint = spec.joint(actuator.target)
    return joint is not None and joint.type in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


def acts(tendon: Any) -> bool:
    """Whether a tendon has a force or inertia of its own, or limits a motion."""
    numbers = (tendon.stiffness, tendon.damping, tendon.frictionloss, tendon.armature)
    return any(np.any(each) for each in numbers) or bool(tendon.limited != 0 and np.any(tendon.range))
