"""A robot's own file as a MuJoCo model: contacts, shapes and tendons as it has them, inertias as a machine has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from servonode.plants.servos import input_of
from servonode.wings.robots.inertia import Inertia, total
from servonode.wings.robots.mesh_files import find_meshes
from servonode.wings.robots.read import opened
from servonode.wings.robots.robot import WRENCH, Body, Joint, Robot, Tendon, identifier
from servonode.wings.robots.spec_inertias import take_inertias

Values = Mapping[str, float]
LEAST = 1e-12  # kg, kg m^2; of a body that has none of its own, which MuJoCo does not take
TILT = (("height", "slide", (0, 0, 1)), ("pitch", "hinge", (0, 1, 0)), ("roll", "hinge", (1, 0, 0)))  # of a planar base
ENTRIES = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


@dataclass(frozen=True)
class Settings:
    """How a robot is simulated: base as in [plant.robot], the step of the physics [s].

    floor: whether a floor at height 0 is added; None: to a file without any whose robot moves about. friction: its
    coefficient of sliding friction. contact_time [s]: of all contacts; None: as the file says. inputs: the machine's.
    """

    base: str
    step: float
    friction: float
    floor: bool | None = None
    contact_time: float | None = None
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Loose:
    """A body that moves by joints which the machine does not have, as a caster, and the link that carries it.

    own: its inertia in its own axes. lacking: what the carrier has less without it, in the carrier's axes.
    """

    carrier: str
    own: Inertia
    lacking: Inertia


def simulated(mujoco: ModuleType, robot: Robot, values: Values, settings: Settings) -> tuple[Any, list[str]]:
    """The MuJoCo spec of a robot with these parameters, and a line for each mesh that is left out.

    Raises:
        RobotError, ValueError: MuJoCo cannot read it.
    """
    _, spec = opened(mujoco, robot.file, settings.base)
    lines = find_meshes(spec, robot.file)
    _set_options(mujoco, spec, settings.step)
    if (g := values.get("g", values.get("gravity"))) is not None:
        spec.option.gravity = g * robot.gravity / np.linalg.norm(robot.gravity)
    if settings.base == "planar":
        for name, kind, axis in TILT:
            joint = getattr(mujoco.mjtJoint, f"mjJNT_{kind.upper()}")
            spec.worldbody.first_body().add_joint(name=name, type=joint, axis=axis)
    _set_bodies(spec, robot, values, _loose(mujoco, robot, settings.base))
    _set_joints(spec, robot, values)
    _set_tendons(spec, robot, values)
    _set_motors(mujoco, spec, robot, values, settings.inputs)
    shapes = mujoco.mjtGeom
    grounds = (shapes.mjGEOM_PLANE, shapes.mjGEOM_HFIELD)
    lacks_floor = settings.base != "fixed" and not any(each.type in grounds for each in spec.geoms)
    if settings.floor or (settings.floor is None and lacks_floor):
        floor = spec.worldbody.add_geom(name="floor", type=shapes.mjGEOM_PLANE, size=[0, 0, 1], priority=1)
        floor.friction[0], floor.condim = settings.friction, 3 if settings.friction else 1
    for each in spec.geoms if settings.contact_time is not None else ():
        each.solref = [settings.contact_time, 1.0]
    return spec, lines


def _set_options(mujoco: ModuleType, spec: Any, step: float) -> None:
    """The step, an integrator whose positions advance with the new rates, and inertias that are taken as they are."""
    integrators = mujoco.mjtIntegrator
    spec.option.timestep = step
    if spec.option.integrator != integrators.mjINT_IMPLICIT:
        spec.option.integrator = integrators.mjINT_IMPLICITFAST
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    compiler = spec.compiler
    compiler.fusestatic, compiler.alignfree, compiler.settotalmass = False, False, -1
    for each in (body.compiler for body in spec.bodies):  # of files that are attached, too
        each.balanceinertia, each.boundmass, each.boundinertia = False, 0.0, 0.0
        each.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO


def _set_bodies(spec: Any, robot: Robot, values: Values, loose: Mapping[str, Loose]) -> None:
    """Give each body with joints the inertia of all that is fixed to it, and what is fixed none.

    Bodies that are loose keep their own, and the link that carries them loses it.
    """
    links = {each.name: each for each in robot.bodies}
    origins = {each.name: -each.position for each in robot.frames}
    for body in spec.bodies[1:]:
        link, least = links.get(body.name), LEAST if body.joints else 0.0
        found = Inertia(0.0, np.zeros(3), np.zeros((3, 3)))
        if body.name in loose:
            found = loose[body.name].own
        elif link:
            whole = _inertia(link, values).placed(origins.get(f"{body.name}_origin", np.zeros(3)), np.eye(3))
            found = total([whole, *(each.lacking for each in loose.values() if each.carrier == body.name)])
            if whole.mass and not found.mass > 0:
                text = f"{whole.mass:g} kg is not more than the casters on it, {whole.mass - found.mass:g} kg"
                raise ValueError(f"{identifier(body.name)}_mass: {text}; give more")
        moments, axes = np.linalg.eigh(found.inertia)
        axes[:, 0] *= np.sign(np.linalg.det(axes))
        body.explicitinertial, body.mass, body.fullinertia = True, max(found.mass, least), [np.nan, 0, 0, 0, 0, 0]
        body.ipos = found.centre
        body.inertia, body.iquat = np.maximum(moments, least), Rotation.from_matrix(axes).as_quat(scalar_first=True)
        body.ialt.type = type(body.ialt.type)(0)  # a quaternion


def _loose(mujoco: ModuleType, robot: Robot, base: str) -> dict[str, Loose]:
    """The bodies of a robot's file that are loose, by name."""
    text, spec = opened(mujoco, robot.file, base)
    links, carriers = {each.name for each in robot.bodies}, dict[str, str]()
    for body in spec.bodies[1:]:  # parents first
        above = carriers.get(body.parent.name) or body.parent.name
        if body.name not in links and (body.parent.name in carriers or body.joints):
            while above not in links and above != "world":
                above = spec.body(above).parent.name
            carriers[body.name] = above
    if not carriers:
        return {}
    inertias = take_inertias(mujoco, spec, robot.file.name, text.format == "mjcf")
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    found = {}
    for name, carrier in carriers.items():
        own, at, under = inertias[name], data.body(name), data.body(carrier)
        axes = under.xmat.reshape(3, 3).T
        placed = own.placed(axes @ (at.xpos - under.xpos), axes @ at.xmat.reshape(3, 3))
        found[name] = Loose(carrier, own, Inertia(-placed.mass, placed.centre, -placed.inertia))
    return found


def _inertia(link: Body, values: Values) -> Inertia:
    """Mass, centre of mass and inertia of a link: the parameters, where there are some, else as its file says."""
    name = identifier(link.name)
    centre = [values.get(f"{name}_centre_{'xyz'[i]}", link.centre[i]) for i in range(3)]
    inertia = np.zeros((3, 3))
    for i, k in ENTRIES:
        inertia[i, k] = inertia[k, i] = values.get(f"{name}_inertia_{'xyz'[i]}{'xyz'[k]}", link.inertia[i, k])
    return Inertia(values.get(f"{name}_mass", link.mass), np.array(centre), inertia)


def _set_joints(spec: Any, robot: Robot, values: Values) -> None:
    """Armature, damping, friction and spring of each joint as the parameters have them."""
    joints = {each.name: each for each in robot.joints}
    for each in spec.joints:
        if each.name not in joints:
            continue
        stated, name = joints[each.name], identifier(each.name)
        for word in ("armature", "damping", "friction"):
            turn, slide = (values.get(f"{name}_{kind}{word}") for kind in ("", "slide_"))
            if slide is not None and slide != turn:
                text = f"{name}_slide_{word} and {name}_{word} differ, and have one number"
                raise ValueError(f"{text}; give both the same")
        each.springdamper = [0, 0]  # whose numbers are those of `robot`
        _set_drives(each, stated, name, values)
        if stated.kind in ("hinge", "slide"):
            rest = values.get(f"{name}_rest", stated.rest)
            each.springref = np.degrees(rest) if stated.kind == "hinge" and each.compiler.degree else rest


def _set_drives(each: Any, stated: Joint | Tendon, name: str, values: Values) -> None:
    """Armature, losses and stiffness of a joint or tendon, to which those of motors belong already."""
    each.armature = values.get(f"{name}_armature", stated.armature)
    each.frictionloss = values.get(f"{name}_friction", stated.friction)
    for word in ("damping", "stiffness"):
        factors = (getattr(stated, word), *getattr(stated, f"more_{word}"))
        powers = zip(("", 2, 3), factors, strict=True)
        setattr(each, word, [values.get(f"{name}_{word}{power}", x) for power, x in powers])


def _set_tendons(spec: Any, robot: Robot, values: Values) -> None:
    """Losses and spring of each tendon as the parameters have them."""
    tendons = {each.name: each for each in robot.tendons}
    for each in spec.tendons:
        if stated := tendons.get(each.name):
            name, each.limited = robot.named(stated), stated.range is not None
            for joint, factor in stated.coefficients:
                if values.get(identifier(f"{name}_{joint}"), factor) != factor:
                    raise ValueError(f"{name}_{joint} is a number of the file in MuJoCo, {factor:g}; change it there")
            _set_drives(each, stated, name, values)
            sides = ("", "") if stated.rest[0] == stated.rest[1] else ("_lower", "_upper")
            ends = zip(sides, stated.rest, strict=True)
            each.springlength = [values.get(f"{name}_rest{side}", end) for side, end in ends]


def _set_motors(mujoco: ModuleType, spec: Any, robot: Robot, values: Values, inputs: tuple[str, ...]) -> None:
    """Motors and servos as the machine has them: what it takes for a motor is one.

    Without any each joint has one.
    """
    motors = {each.name: each for each in robot.actuators}
    for each in spec.actuators:
        each.armature, each.damping = 0, 0 * each.damping  # of its target
        if each.name not in motors:
            continue
        servo = motors[each.name].servo
        if servo:
            each.gainprm[0], each.biasprm[:3] = servo.gain, servo.bias
        elif each.biastype != mujoco.mjtBias.mjBIAS_NONE:
            each.set_to_motor()
            each.ctrllimited, each.ctrlrange = 0, [0, 0]
        name, gear = input_of(identifier(each.name), inputs), motors[each.name].gear
        axes = ("",) if len(gear) == 1 else tuple(f"_{axis}" for axis in WRENCH[-len(gear) :])
        for i, axis in enumerate(axes):
            each.gear[i] = values.get(f"{name}_gear{axis}", gear[i]) / (1.0 if servo else each.gainprm[0])
    for motor in robot.actuators if robot.motorless else ():
        added = spec.add_actuator(name=motor.name, target=motor.target)
        added.trntype = mujoco.mjtTrn.mjTRN_JOINT
