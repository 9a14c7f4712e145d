"""The inertias of a MuJoCo spec's bodies, as the file states them; the spec is left with unit ones and no shapes.

MuJoCo refuses or rounds what may be right once parts that are fixed to one another are joined, so it is asked for the
inertias of shapes alone.
"""

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from servonode.wings.robots.file_text import RobotError
from servonode.wings.robots.inertia import Inertia, rotation_of
from servonode.wings.robots.unsupported import SHAPES, remove


def take_inertias(mujoco: ModuleType, spec: Any, name: str, by_shapes: bool) -> dict[str, Inertia]:
    """The inertia of each body of a spec in its own axes. name: of the file.

    by_shapes: whether shapes give the inertia of a body that states none, as in MJCF. Of a URDF only <inertial>
    counts, as its definition says.

    Raises:
        RobotError: the shape of a body that moves is a mesh, which is not read; the file's <inertial> would not count.
    """
    if by_shapes and spec.compiler.fusestatic:
        _check_fused(mujoco, spec, name)
    found = {each.name: _stated(spec, each, by_shapes) for each in spec.bodies[1:]}
    if by_shapes:
        found |= _of_shapes(mujoco, spec, name)
    mass, wanted = sum(each.mass for each in found.values()), spec.compiler.settotalmass
    scale = wanted / mass if wanted > 0 and mass > 0 else 1.0
    remove(spec, SHAPES)
    make_units(mujoco, spec, spec.bodies[1:])
    found = {key: Inertia(scale * each.mass, each.centre, scale * each.inertia) for key, each in found.items()}
    _set_springs(spec, found)
    return found


def make_units(mujoco: ModuleType, spec: Any, bodies: Iterable[Any]) -> None:
    """Give bodies an inertia that MuJoCo compiles, and take from compilers what changes frames and inertias."""
    compiler = spec.compiler
    compiler.fusestatic, compiler.discardvisual, compiler.alignfree, compiler.settotalmass = False, False, False, -1
    for each in spec.bodies:
        each.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO
    for each in bodies:
        each.explicitinertial, each.mass, each.ipos, each.iquat = True, 1.0, np.zeros(3), [1, 0, 0, 0]
        each.inertia, each.fullinertia = np.ones(3), [np.nan, 0, 0, 0, 0, 0]
        each.ialt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT


def _set_springs(spec: Any, inertias: dict[str, Inertia]) -> None:
    """Springs and dampers that are stated by a time constant and a damping ratio, as MuJoCo finds them by inertias.

    Servos are, too: a ratio in the place of their damping is above zero.
    """
    timed = [each for each in spec.joints if each.springdamper.any()]
    servos = [each for each in spec.actuators if each.biasprm[2] > 0]
    if not timed and not servos:
        return
    heavy = spec.copy()
    for each in heavy.bodies[1:]:
        own = inertias[each.name]
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = own.inertia
        each.mass, each.ipos, each.inertia = own.mass, own.centre, np.zeros(3)
        each.fullinertia = [xx, yy, zz, xy, xz, yz] if own.inertia.any() else [np.nan, 0, 0, 0, 0, 0]
    found = heavy.compile()
    for each in timed:
        joint = found.joint(each.name)
        each.stiffness[0], each.damping[0] = joint.stiffness[0], joint.damping[0]
        each.springdamper = [0, 0]
    for each in servos:
        each.biasprm[2] = found.actuator(each.name).biasprm[2]


def _stated(spec: Any, body: Any, by_shapes: bool) -> Inertia:
    """What <inertial> states, within the bounds of the compiler of the file that the body comes from.

    A fixed link of a URDF without mass has no moments of inertia either, as MuJoCo reads it.
    """
    if not body.explicitinertial or not (by_shapes or body.mass or body.joints):
        return Inertia(0.0, np.zeros(3), np.zeros((3, 3)))
    compiler = body.compiler
    quaternion = spec.resolve_orientation(compiler.degree, compiler.eulerseq, body.ialt)
    is_quaternion = body.ialt.type.value == 0
    rotation = rotation_of(body.iquat if is_quaternion else quaternion)
    full = np.array(body.fullinertia)
    if np.isnan(full[0]):
        moments = np.array(body.inertia)
    else:
        xx, yy, zz, xy, xz, yz = full
        matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        if not (compiler.boundinertia or compiler.balanceinertia):
            return Inertia(body.mass, np.array(body.ipos), rotation @ matrix @ rotation.T)
        moments, axes = np.linalg.eigh(matrix)
        rotation = rotation @ axes
    moments = np.maximum(moments, compiler.boundinertia) if compiler.boundinertia else moments
    if compiler.balanceinertia and 2 * max(moments) > sum(moments):
        moments = np.full(3, np.mean(moments))
    return Inertia(max(body.mass, compiler.boundmass), np.array(body.ipos), rotation @ np.diag(moments) @ rotation.T)


def _of_shapes(mujoco: ModuleType, spec: Any, name: str) -> dict[str, Inertia]:
    """The inertias of those bodies that have them from their shapes, as MuJoCo finds them."""
    names = [body.name for body in spec.bodies[1:] if _by_shapes(mujoco, body, name)]
    if not names:
        return {}
    shaped = spec.copy()
    for each in list(shaped.geoms):
        if each.parent.name not in names or each.meshname or each.hfieldname:  # heavy ones have been refused
            shaped.delete(each)
    remove(shaped, SHAPES[1:])
    make_units(mujoco, shaped, [each for each in shaped.bodies[1:] if each.name not in names])
    for each in shaped.bodies[1:]:
        if each.name in names:
            each.explicitinertial, each.mass, each.ipos = False, 0.0, [np.nan, 0, 0]
            each.inertia, each.fullinertia = np.zeros(3), [np.nan, 0, 0, 0, 0, 0]
    model, found = shaped.compile(), dict[str, Inertia]()
    for each in map(model.body, names):
        own = Inertia(float(each.mass[0]), np.zeros(3), np.diag(each.inertia))
        found[each.name] = own.placed(each.ipos, rotation_of(each.iquat))
    return found


def _by_shapes(mujoco: ModuleType, body: Any, name: str) -> bool:
    """Whether a body that moves has its inertia from its shapes.

    Raises:
        RobotError: one of these is a mesh.
    """
    rule, rules = body.compiler.inertiafromgeom, mujoco.mjtInertiaFromGeom
    least, most = body.compiler.inertiagrouprange
    heavy = [each for each in body.geoms if each.mass != 0 and least <= each.group <= most]
    wanted = rule == rules.mjINERTIAFROMGEOM_TRUE or not body.explicitinertial
    if rule == rules.mjINERTIAFROMGEOM_FALSE or not (heavy and wanted and any(each.joints for each in _carriers(body))):
        return False
    if any(each.type in (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_SDF) for each in heavy):
        text = "has its inertia from a mesh, and meshes are not read; give it an <inertial>"
        raise RobotError(f'{name}: body "{body.name}" {text}')
    return True


def _check_fused(mujoco: ModuleType, spec: Any, name: str) -> None:
    """Refuse an <inertial> that MuJoCo drops for the shapes of bodies with which it fuses its own."""
    fused, by_shapes = dict[str, list[Any]](), mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    for body in spec.bodies[1:]:
        root = next((each.name for each in _carriers(body) if each.joints), "world")
        fused.setdefault(root, []).append(body)
    for root, bodies in fused.items():
        by_rule = any(each.compiler.inertiafromgeom == by_shapes for each in bodies)
        bare = [each.name for each in bodies if each.explicitinertial and not each.geoms]
        if by_rule and bare and root != "world" and any(each.geoms for each in bodies):
            text = f'body "{bare[0]}": fusestatic with inertiafromgeom="true" drops its <inertial> for the shapes of'
            raise RobotError(f'{name}: {text} bodies that are fixed to it; give fusestatic="false"')


def _carriers(body: Any) -> Iterator[Any]:
    """A body and those that carry it, down to the ground."""
    while body.name != "world":
        yield body
        body = body.parent
