"""From a compiled MuJoCo model to a robot in numbers: bodies without joints are merged, origins stand at the joints."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from servonode.arrays import Array
from servonode.plants.servos import Servo
from servonode.wings.robots.file_text import FileText, RobotError
from servonode.wings.robots.inertia import Inertia, check, rotation_of, total
from servonode.wings.robots.robot import DEGREES, Actuator, Body, Frame, Joint, Loop, Range, Robot, Tendon, identifier

FREE, BALL, SLIDE, HINGE = range(4)  # MuJoCo's numbers
KINDS = ("free", "ball", "slide", "hinge")
LOOPS = ("connect", "weld", "joint", "tendon")
TARGETS = {0: "joint", 1: "parent", 2: "crank", 3: "tendon", 4: "site"}
JOINT, PULLEY = 1, 2  # MuJoCo's parts of a tendon
SITE = 6  # MuJoCo's mjOBJ_SITE
AFFINE = 1  # MuJoCo's mjBIAS_AFFINE
NO_GRAVITY = 1 << 7  # MuJoCo's mjDSBL_GRAVITY
FRICTION, LIMITED = ("dof_frictionloss", "tendon_frictionloss"), ("jnt_limited", "tendon_limited")
SWITCHED_OFF = {  # flags of <option>, with MuJoCo's bits, and what of a compiled model they make zero
    "constraint": (1 << 0, ("eq_active0", *FRICTION, *LIMITED)),
    "equality": (1 << 1, ("eq_active0",)),
    "frictionloss": (1 << 2, FRICTION),
    "limit": (1 << 3, LIMITED),
    "spring": (1 << 5, ("jnt_stiffness", "jnt_stiffnesspoly", "tendon_stiffness", "tendon_stiffnesspoly")),
    "damper": (1 << 6, tuple(f"{of}_damping{more}" for of in ("dof", "tendon", "actuator") for more in ("", "poly"))),
    "clampctrl": (1 << 8, ("actuator_ctrllimited",)),
}
NO_ACTUATION = 1 << 11
GROUND = ""
Place = tuple[str, Array, Array]  # a body, and where other axes stand in its own


def described(file: Path, text: FileText, model: Any, inertias: dict[str, Inertia]) -> Robot:
    """The robot of a compiled model, whose inertias are given apart; what its shapes say is left to the caller.

    Raises:
        RobotError: an inertia that no body has, a singular mass matrix.
    """
    lines = tuple(_switched_off(model))
    reading = _Reading(model, text, inertias)
    for each in reading.bodies:
        check(Inertia(each.mass, each.centre, each.inertia), f'{file.name}: body "{each.name}"')
    gravity = np.zeros(3) if model.opt.disableflags & NO_GRAVITY else np.array(model.opt.gravity)
    name = model.names[: model.names.index(b"\0")].decode() or file.stem
    robot = Robot(
        name=name,
        file=file,
        gravity=gravity,
        bodies=tuple(reading.bodies),
        actuators=tuple(_of_each_joint(reading.bodies) if text.format == "urdf" else _actuators(model)),
        motorless=text.format == "urdf",
        tendons=tuple(_tendons(model, file.name)),
        loops=tuple(_loops(model, reading)),
        frames=tuple(reading.frames),
        dropped=lines,
    )
    if not robot.bodies:
        raise RobotError(f"{file.name}: it has no joint, so nothing moves; give it one")
    return robot


class _Reading:
    """Bodies and frames of a model. places: where each of its bodies stands, by number."""

    def __init__(self, model: Any, text: FileText, inertias: dict[str, Inertia]) -> None:
        self.model, self.speeds = model, text.speeds
        self.bodies: list[Body] = []
        self.frames: list[Frame] = []
        self.places: list[Place] = [(GROUND, np.zeros(3), np.eye(3))]
        self._parts: dict[str, list[Inertia]] = {GROUND: []}
        for number in range(1, model.nbody):
            self._add(number, inertias[model.body(number).name])
        whole = ((each, total(self._parts.get(each.name, ()))) for each in self.bodies)
        self.bodies = [replace(each, mass=own.mass, centre=own.centre, inertia=own.inertia) for each, own in whole]
        self.frames += [self._site(model.site(number)) for number in range(model.nsite)]

    def _add(self, number: int, inertia: Inertia) -> None:
        model, name = self.model, self.model.body(number).name
        owner, position, rotation = self.places[model.body_parentid[number]]
        position = position + rotation @ model.body_pos[number]
        rotation = rotation @ rotation_of(model.body_quat[number])
        first = model.body_jntadr[number]
        joints = range(first, first + model.body_jntnum[number])
        if not joints:
            self.places.append((owner, position, rotation))
            self.frames.append(Frame(name, owner, position, rotation))
        else:
            origin = self._add_links(name, owner, position, rotation, joints)
            self.places.append((name, -origin, np.eye(3)))
            if origin.any():
                self.frames.append(Frame(f"{name}_origin", name, -origin, np.eye(3)))
        owner, position, rotation = self.places[number]
        self._parts.setdefault(owner, []).append(inertia.placed(position, rotation))

    def _add_links(self, name: str, owner: str, position: Array, rotation: Array, joints: range) -> Array:
        """Add a body for each group of joints that act at one point; where the last stands in the file's axes (3,)."""
        groups = list(self._groups(joints))
        before = np.zeros(3)
        for number, (anchor, group) in enumerate(groups):
            first, model = group[0], self.model
            axis, start = np.array(model.jnt_axis[first]), float(model.qpos0[model.jnt_qposadr[first]])
            if model.jnt_type[first] == FREE:
                position, rotation = np.zeros(3), np.eye(3)
            position = position + rotation @ (anchor - before)
            if model.jnt_type[first] == SLIDE:
                position = position - rotation @ axis * start
            elif model.jnt_type[first] == HINGE and start:
                rotation = rotation @ Rotation.from_rotvec(-start * axis).as_matrix()
            last = number == len(groups) - 1
            link = name if last else f"{name}_{model.joint(first).name}"
            stated = tuple(self._joint(each) for each in group)
            self.bodies.append(Body(link, owner, position, rotation, stated, 0.0, np.zeros(3), np.zeros((3, 3))))
            owner, position, rotation, before = link, np.zeros(3), np.eye(3), anchor
        return before

    def _groups(self, joints: range) -> Iterator[tuple[Array, list[int]]]:
        """Joints that follow one another through one point, with the point in the body's axes; slides have none."""
        model = self.model
        anchor: Array | None = None
        group: list[int] = []
        for each in joints:
            kind, own = model.jnt_type[each], np.array(model.jnt_pos[each])
            moved = kind in (SLIDE, HINGE) and model.qpos0[model.jnt_qposadr[each]] != 0
            elsewhere = kind != SLIDE and anchor is not None and not np.allclose(anchor, own, rtol=0, atol=1e-12)
            if group and (moved or elsewhere):
                yield (np.zeros(3) if anchor is None else anchor), group
                group, anchor = [], None
            group.append(each)
            anchor = own if kind in (BALL, HINGE) and anchor is None else anchor
        yield (np.zeros(3) if anchor is None else anchor), group

    def _joint(self, number: int) -> Joint:
        model, stated = self.model, self.model.joint(number)
        kind, dof, at = model.jnt_type[number], model.jnt_dofadr[number], model.jnt_qposadr[number]
        limits = _range(model.jnt_range[number]) if model.jnt_limited[number] else None
        size = (7, 4, 1, 1)[kind]
        start = tuple(model.qpos0[at : at + size].tolist())
        if limits and size == 1 and not limits[0] < start[0] < limits[1]:  # where a run could not stay
            start = (sum(limits) / 2,)
        own = [model.actuator_trntype[i] < 2 and model.actuator_trnid[i, 0] == number for i in range(model.nactuator)]
        effort = float(max(abs(model.jnt_actfrcrange[number]))) if model.jnt_actfrclimited[number] else 0.0
        return Joint(
            name=stated.name,
            kind=KINDS[kind],
            axis=np.array(model.jnt_axis[number]),
            start=start,
            armature=float(model.dof_armature[dof] + _reflected(model, own, model.actuator_armature)),
            damping=float(model.dof_damping[dof] + _reflected(model, own, model.actuator_damping)),
            friction=float(model.dof_frictionloss[dof]),
            stiffness=float(model.jnt_stiffness[number]),
            rest=float(model.qpos_spring[at]),
            range=limits,
            effort=effort or None,
            speed=self.speeds.get(stated.name) or None,
            more_damping=_range(model.dof_dampingpoly[dof] + _reflected(model, own, model.actuator_dampingpoly)),
            more_stiffness=_range(model.jnt_stiffnesspoly[number]),
        )

    def _site(self, site: Any) -> Frame:
        owner, position, rotation = self.places[int(np.ravel(site.bodyid)[0])]
        return Frame(site.name, owner, position + rotation @ site.pos, rotation @ rotation_of(site.quat))


def _range(values: Any) -> Range:
    return float(values[0]), float(values[1])


def _reflected(model: Any, motors: Sequence[bool], losses: Array) -> Any:
    """What some motors have, as their targets feel it."""
    return np.asarray(motors, dtype=float) * model.actuator_gear[:, 0] ** 2 @ losses


def _switched_off(model: Any) -> Iterator[str]:
    """Make zero what flags of <option> switch off; a line for each, and for each actuator that does not act."""
    for flag, (bit, words) in SWITCHED_OFF.items():
        if model.opt.disableflags & bit:
            found = [getattr(model, word) for word in words]
            if any(each.any() for each in found):
                yield f'what <flag {flag}="disable"/> switches off: left out'
            for each in found:
                each[:] = 0
    for number in range(model.nactuator):
        if not _acts(model, number):
            yield f'actuator "{model.actuator(number).name}", which <option> switches off: left out'


def _acts(model: Any, number: int) -> bool:
    """Whether an actuator acts: neither a flag of <option> nor its group switches it off."""
    group = max(int(model.actuator_group[number]), 0)
    return not (model.opt.disableflags & NO_ACTUATION or model.opt.disableactuator >> group & 1)


def _actuators(model: Any) -> Iterator[Actuator]:
    """The motors, their input the command of the file; its range is that of command, force and target together.

    Of servos it is the force, whatever their commands.
    """
    for number in (each for each in range(model.nactuator) if _acts(model, each)):
        kind, (target, other) = TARGETS[model.actuator_trntype[number]], model.actuator_trnid[number]
        factors = _joint_factors(model, kind, target)
        servo = _servo(model, number, factors)
        gain = 1.0 if servo else float(model.actuator_gainprm[number, 0])
        gear = model.actuator_gear[number] * gain
        joint = model.joint(target) if kind in ("joint", "parent") else None
        ranges = [model.actuator_ctrlrange[number]] if model.actuator_ctrllimited[number] and not servo else []
        if model.actuator_forcelimited[number] and gain:
            ranges.append(np.sort(model.actuator_forcerange[number] / gain))
        if kind == "tendon" and model.tendon_actfrclimited[target] and gain:
            ranges.append(np.sort(model.tendon_actfrcrange[target] / gain))
        for limited, factor in factors:
            if model.jnt_actfrclimited[limited] and gear[0] * factor:
                ranges.append(np.sort(model.jnt_actfrcrange[limited] / (gear[0] * factor)))
        limits = _range((max(each[0] for each in ranges), min(each[1] for each in ranges))) if ranges else None
        size = 6 if kind == "site" else 1 if joint is None else DEGREES[KINDS[joint.type[0]]]
        yield Actuator(
            name=model.actuator(number).name,
            target=(joint or (model.tendon if kind == "tendon" else model.site)(target)).name,
            gear=tuple(gear[:size].tolist()),
            range=limits,
            kind=kind,
            reference=model.site(other).name if kind in ("site", "crank") and other >= 0 else "",
            rod=float(model.actuator_cranklength[number]),
            servo=servo,
        )


def _servo(model: Any, number: int, joints: list[tuple[int, float]]) -> Servo | None:
    """The servo that an actuator is, whose length is a sum of joints; None: it is a motor."""
    if model.actuator_biastype[number] != AFFINE:
        return None
    constant, stiffness, damping = model.actuator_biasprm[number, :3].tolist()
    return Servo(
        gain=float(model.actuator_gainprm[number, 0]),
        bias=(constant, stiffness, damping),
        range=_range(model.actuator_ctrlrange[number]) if model.actuator_ctrllimited[number] else None,
        lengths=tuple((identifier(model.joint(each).name), float(factor)) for each, factor in joints),
        gear=float(model.actuator_gear[number, 0]),
    )


def _joint_factors(model: Any, kind: str, target: int) -> list[tuple[int, float]]:
    """The joints that a motor moves in a fixed ratio, each with its force for a force of 1 on the target."""
    if kind in ("joint", "parent"):
        return [(target, 1.0)]
    return _parts(model, target) if kind == "tendon" and model.wrap_type[model.tendon_adr[target]] == JOINT else []


def _parts(model: Any, tendon: int) -> list[tuple[int, float]]:
    """The parts of a tendon: joints with coefficients; sites, and pulleys with divisors."""
    first = model.tendon_adr[tendon]
    path = range(first, first + model.tendon_num[tendon])
    return [(int(model.wrap_objid[each]), float(model.wrap_prm[each])) for each in path]


def _tendons(model: Any, file: str) -> Iterator[Tendon]:
    """The tendons.

    Raises:
        RobotError: one has an armature and joins branches, between which MuJoCo's mass matrix has no entries.
    """
    for number in range(model.ntendon):
        own = [model.actuator_trntype[i] == 3 and model.actuator_trnid[i, 0] == number for i in range(model.nactuator)]
        fixed = model.wrap_type[model.tendon_adr[number]] == JOINT
        armature = float(model.tendon_armature[number] + _reflected(model, own, model.actuator_armature))
        if armature and _joins_branches(model, number):
            text = f'tendon "{model.tendon(number).name}" has an armature, its own or of a motor, and joins branches'
            raise RobotError(f"{file}: {text}, of which MuJoCo leaves out a part; give the joints armatures instead")
        yield Tendon(
            name=model.tendon(number).name,
            coefficients=tuple((model.joint(i).name, c) for i, c in _parts(model, number)) if fixed else (),
            segments=() if fixed else tuple(_segments(model, number)),
            start=float(model.tendon_length0[number]),
            armature=armature,
            damping=float(model.tendon_damping[number] + _reflected(model, own, model.actuator_damping)),
            friction=float(model.tendon_frictionloss[number]),
            stiffness=float(model.tendon_stiffness[number]),
            rest=_range(model.tendon_lengthspring[number]),
            range=_range(model.tendon_range[number]) if model.tendon_limited[number] else None,
            limited=bool(model.tendon_actfrclimited[number]),
            more_damping=_range(model.tendon_dampingpoly[number] + _reflected(model, own, model.actuator_dampingpoly)),
            more_stiffness=_range(model.tendon_stiffnesspoly[number]),
        )


def _joins_branches(model: Any, tendon: int) -> bool:
    """Whether a tendon moves joints of which none carries all others."""
    first = model.ten_J_rowadr[tendon]
    moved = set(model.ten_J_colind[first : first + model.ten_J_rownnz[tendon]].tolist())
    at = max(moved, default=-1)
    while at >= 0:
        moved.discard(at)
        at = model.dof_parentid[at]
    return bool(moved)


def _segments(model: Any, tendon: int) -> Iterator[tuple[float, str, str]]:
    """The straight pieces of a tendon between sites, each with what a pulley divides its length by."""
    divisor, before, first = 1.0, "", model.tendon_adr[tendon]
    for at, (site, factor) in enumerate(_parts(model, tendon), first):
        if model.wrap_type[at] == PULLEY:
            divisor, before = factor, ""
            continue
        name = model.site(site).name
        if before:
            yield divisor, before, name
        before = name


def _of_each_joint(bodies: Sequence[Body]) -> Iterator[Actuator]:
    """A motor for each joint that turns or slides; of the joints that carry the base of a URDF none has one."""
    for joint in (joint for body in bodies if len(body.joints) == 1 for joint in body.joints):
        if joint.kind in ("hinge", "slide"):
            word = "torque" if joint.kind == "hinge" else "force"
            limits = None if joint.effort is None else (-joint.effort, joint.effort)
            yield Actuator(f"{joint.name}_{word}", joint.name, (1.0,), limits)


def _loops(model: Any, reading: _Reading) -> Iterator[Loop]:
    sites = [(each.body, each.position, each.rotation) for each in reading.frames[len(reading.frames) - model.nsite :]]
    for number in range(model.neq):
        if not model.eq_active0[number]:
            continue
        kind, data = LOOPS[model.eq_type[number]], model.eq_data[number].copy()
        name, first, second = model.equality(number).name, model.eq_obj1id[number], model.eq_obj2id[number]
        if kind in ("joint", "tendon"):
            named = model.joint if kind == "joint" else model.tendon
            lengths = model.qpos0[model.jnt_qposadr] if kind == "joint" else model.tendon_length0
            zeros = tuple(float(lengths[each]) for each in (first, max(second, 0)))
            other = named(second).name if second >= 0 else ""
            yield Loop(name, kind, named(first).name, other, (tuple(data[:5].tolist()), zeros))
            continue
        by_sites = model.eq_objtype[number] == SITE
        if by_sites:  # whose origins, of welds also axes, are one
            data[:10] = 0, 0, 0, 0, 0, 0, 1, 0, 0, 0
        ends = [(sites if by_sites else reading.places)[each] for each in (first, second)]
        if kind == "connect" or not data[10]:  # a weld without torques
            points = (data[:3], data[3:6]) if kind == "connect" else (data[3:6], data[:3])
            found = [position + rotation @ point for point, (_, position, rotation) in zip(points, ends, strict=True)]
            yield Loop(name, "connect", ends[0][0], ends[1][0], tuple(tuple(each.tolist()) for each in found))
            continue
        (one, p, R), (two, r, S) = ends
        turned = R @ rotation_of(data[6:10]) @ S.T  # of the second's link in the first's
        quaternion = Rotation.from_matrix(turned).as_quat(scalar_first=True)
        position = p + R @ data[3:6] - turned @ (r + S @ data[:3])
        yield Loop(name, kind, one, two, (tuple(position.tolist()), tuple(quaternion.tolist())))
