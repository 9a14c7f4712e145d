"""The shapes of a robot's file as triangles for a drawing: bounded in number, whatever the file has.

MuJoCo reads the file and its meshes. Of a body that has shapes which are only seen, these are taken, else those that
touch; of a link of a URDF <visual> only where it has no <collision>. Planes and height
fields are no part of a robot.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np

from servonode.arrays import Array
from servonode.plants.machine_files import Solid, Triangles
from servonode.wings.robots.inertia import rotation_of
from servonode.wings.robots.mesh_files import find_meshes
from servonode.wings.robots.read import import_mujoco, opened
from servonode.wings.robots.robot import identifier
from servonode.wings.robots.spec_inertias import make_units
from servonode.wings.robots.unsupported import keep_shapes

MOST = 6000  # triangles of a robot
MOST_SHAPES = MOST // 16  # of 16 triangles a box has
MOST_BYTES = 100_000_000  # of all mesh files together
AROUND, ARC = 16, 8  # corners of a circle, of the half of one
FINEST, COARSER = 4.0, 0.8  # cells along a side per root of the triangles there may be; from one try to the next
LETTERS = 200  # of what MuJoCo says of a mesh


def solids(file: Path) -> tuple[list[Solid], list[str]]:
    """The bodies of a robot's file that have shapes, and a line for each mesh that is left out.

    Raises:
        RobotError, ValueError: MuJoCo cannot read the file.
        NotInstalled: MuJoCo is missing.
    """
    mujoco = import_mujoco()
    mujoco.set_mju_user_warning(lambda _: None)  # else it writes a file where the process runs
    text, spec = opened(mujoco, file, "fixed")
    spec = _with_visuals(mujoco, file) if text.format == "urdf" else spec
    lines = find_meshes(spec, file)
    meshes = dict(_read_meshes(mujoco, spec, lines))
    found = [each for body in spec.bodies for each in _drawn(mujoco, body, meshes)]
    if len(found) > MOST_SHAPES:
        lines.append(f"{len(found) - MOST_SHAPES} shapes: left out, {MOST_SHAPES} are drawn")
    return _joined(_placed(mujoco, spec, found[:MOST_SHAPES], meshes)), lines


def _with_visuals(mujoco: ModuleType, file: Path) -> Any:
    """The spec of a URDF, without joints, with <visual> where a link has no <collision>.

    MuJoCo leaves out <visual> unless the file asks for it. The file is one, for it has been read before.
    """
    root = compiler = ElementTree.parse(file).getroot()
    for tag in ("mujoco", "compiler"):
        found = compiler.find(tag)
        compiler = ElementTree.SubElement(compiler, tag) if found is None else found
    compiler.set("discardvisual", "false")
    spec = mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode"))
    touched = {each.parent.name for each in spec.geoms if each.contype}
    hidden = [each for each in spec.geoms if not each.contype and each.parent.name in touched]
    drawn = {each.meshname for each in spec.geoms if each not in hidden}
    unseen = [each for each in spec.meshes if each.name not in drawn]
    for each in (*spec.equalities, *spec.joints, *hidden, *unseen):
        spec.delete(each)
    return spec


def _read_meshes(mujoco: ModuleType, spec: Any, lines: list[str]) -> Iterator[tuple[str, Solid]]:
    """The meshes by name; a line is added for each that cannot be read."""
    left = MOST_BYTES
    for each in spec.meshes:
        left -= Path(each.file).stat().st_size if each.file else 0
        if left < 0:
            lines.append(f'mesh "{each.name}": left out, all meshes together have more than {MOST_BYTES} bytes')
            continue
        try:
            yield each.name, _read_mesh(mujoco, each)
        except ValueError as error:
            lines.append(f'mesh "{each.name}": left out, {" ".join(str(error).split())[:LETTERS]}')


def _read_mesh(mujoco: ModuleType, stated: Any) -> Solid:
    """A mesh as its geoms have it; raises ValueError."""
    alone = mujoco.MjSpec()
    mesh = alone.add_mesh(name="mesh", inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL)
    for word in ("file", "scale", "refpos", "refquat", "uservert", "userface"):
        setattr(mesh, word, getattr(stated, word))
    alone.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="mesh", contype=0, conaffinity=0)
    model = alone.compile()
    points = model.geom_pos[0] + model.mesh_vert @ rotation_of(model.geom_quat[0]).T
    if not np.isfinite(points).all():
        raise ValueError("a corner is not finite")
    return Solid("", points, np.array(model.mesh_face, np.intp))


def _drawn(mujoco: ModuleType, body: Any, meshes: Mapping[str, Solid]) -> list[Any]:
    """The geoms of a body that are drawn."""
    kinds = (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD, mujoco.mjtGeom.mjGEOM_SDF)
    known = [each for each in body.geoms if (each.meshname in meshes if each.meshname else each.type not in kinds)]
    seen = [each for each in known if not (each.contype or each.conaffinity)]
    return seen or known


def _placed(mujoco: ModuleType, spec: Any, geoms: Sequence[Any], meshes: Mapping[str, Solid]) -> list[Solid]:
    """The shapes of geoms in the axes of their bodies, with few enough triangles.

    MuJoCo is asked where they stand with balls in place of meshes, which it would turn.
    """
    named = {f"shape {i}": each for i, each in enumerate(geoms)}
    of = {name: meshes[each.meshname] for name, each in named.items() if each.meshname}
    for name, each in named.items():
        each.name = name
        if name in of:
            each.type, each.size, each.meshname = mujoco.mjtGeom.mjGEOM_SPHERE, [1, 0, 0], ""
    keep_shapes(spec, named)
    make_units(mujoco, spec, spec.bodies[1:])
    model = spec.compile()
    compiled = [model.geom(name) for name in named]
    shapes = [of.get(name) or _primitive(mujoco, each) for name, each in zip(named, compiled, strict=True)]
    shares = _shares([len(each.triangles) for each in shapes])
    found = []
    for geom, shape, most in zip(compiled, shapes, shares, strict=True):
        points, triangles = fewer(shape.points, shape.triangles, most)
        points = geom.pos + points @ rotation_of(geom.quat).T
        found.append(Solid(identifier(model.body(int(geom.bodyid[0])).name), points, triangles))
    return found


def _primitive(mujoco: ModuleType, geom: Any) -> Solid:
    """A compiled geom that is no mesh, as a body of revolution that is stretched."""
    kinds, (a, b, c) = mujoco.mjtGeom, geom.size
    arc = np.linspace(-np.pi / 2, np.pi / 2, ARC)
    ball, disc = np.column_stack([np.cos(arc), np.sin(arc)]), np.array([[0, -1], [1, -1], [1, 1], [0, 1]], float)
    match int(geom.type[0]):
        case kinds.mjGEOM_BOX:
            return _revolved(disc * [np.sqrt(2), 1], 4, (a, b, c))
        case kinds.mjGEOM_CYLINDER:
            return _revolved(disc, AROUND, (a, a, b))
        case kinds.mjGEOM_CAPSULE:
            return _revolved(a * ball + np.column_stack([0 * arc, b * np.sign(arc)]), AROUND, (1, 1, 1))
        case kinds.mjGEOM_ELLIPSOID:
            return _revolved(ball, AROUND, (a, b, c))
    return _revolved(ball, AROUND, (a, a, a))


def _revolved(profile: Array, around: int, scale: Sequence[float]) -> Solid:
    """A profile (n, 2) of radius and height, turned about the z axis."""
    turn = (np.arange(around) + 0.5) * 2 * np.pi / around
    n = len(profile)
    ring = np.column_stack([np.cos(turn), np.sin(turn)])
    points = np.array([[*(r * each), z] for r, z in profile for each in ring]) * scale
    i, k = np.arange(n - 1)[:, None] * around, np.arange(around)
    here, beside = i + k, i + (k + 1) % around
    corners = [(here, beside, beside + around), (here, beside + around, here + around)]
    triangles = np.concatenate([np.stack(each, axis=-1).reshape(-1, 3) for each in corners])
    _, first, of = np.unique(np.round(points, 12), axis=0, return_index=True, return_inverse=True)
    return Solid("", points[first], _without_lines(of.ravel()[triangles]))


def _shares(counts: Sequence[int]) -> list[int]:
    """How many triangles each shape may have: all of its own where these are few, else as many as others."""
    shares, left = [0] * len(counts), MOST
    for place, i in enumerate(np.argsort(counts)):
        shares[i] = min(counts[i], left // (len(counts) - place))
        left -= shares[i]
    return shares


def fewer(points: Array, triangles: Triangles, most: int) -> tuple[Array, Triangles]:
    """The same surface with at most so many triangles: the points in each cell of a grid become one, their mean."""
    low, extent = points.min(axis=0), float(np.ptp(points, axis=0).max()) or 1.0
    cells, found = FINEST * np.sqrt(most), (points, triangles)
    while len(found[1]) > most:
        cells *= COARSER
        grid = np.floor((points - low) * (cells / extent)).astype(np.int64)
        _, of, count = np.unique(grid @ [1, 1 << 20, 1 << 40], return_inverse=True, return_counts=True)
        means = np.column_stack([np.bincount(of, axis) / count for axis in points.T])
        found = means, _without_lines(of[triangles])
    used, of = np.unique(found[1], return_inverse=True)
    return found[0][used], of.reshape(-1, 3)


def _without_lines(triangles: Triangles) -> Triangles:
    """Those with three corners, each once."""
    a, b, c = triangles.T
    triangles = triangles[(a != b) & (b != c) & (c != a)]
    _, first = np.unique(np.sort(triangles, axis=1), axis=0, return_index=True)
    return triangles[first]


def _joined(shapes: Sequence[Solid]) -> list[Solid]:
    """One solid of each body, whose shapes follow one another."""
    found = []
    for body, group in groupby(shapes, lambda each: each.frame):
        parts = list(group)
        ends = np.cumsum([0, *(len(each.points) for each in parts)])
        triangles = [each.triangles + end for each, end in zip(parts, ends, strict=False)]
        found.append(Solid(body, np.concatenate([each.points for each in parts]), np.concatenate(triangles)))
    return found
