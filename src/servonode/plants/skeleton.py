"""The views of a machine that is a tree of links: its skeleton, its inertias, the paths of its frames."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.description import IN_SPACE, Skeleton
from servonode.mechanics.machine import Machine
from servonode.plants.view import Points, Values, View

STATES, SEED = 8, 1  # random states by which it is found what moves
STILL = 1e-9  # of the size of the machine, below which it does not move
TRIPOD, GROUND = 0.06, 0.3  # of the machine's size: axes of a frame, half a side of the ground
GROUND_LINES = (  # a square with the x axis, which is long, and the y axis
    np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0], [-1, -1, 0]], float),
    np.array([[1, 0, 0], [0, 0, 0], [0, 0.5, 0]], float),
)
RING = 21  # points of a ring around an inertia
TIPS = 4  # ends of a tree whose paths are drawn, where no goal names others
FLAT = {  # the axis along which nothing moves -> across, up
    1: ((1, 0, 0), (0, 0, 1), "from the side"),
    2: ((1, 0, 0), (0, 1, 0), "from above"),
    0: ((0, 1, 0), (0, 0, 1), "from the front"),
}


Wanted = Callable[[], Mapping[str, Array]]


def skeleton_views(
    machine: Machine, traced: Sequence[str], goal: tuple[str, ...] | None = None, wanted: Wanted = dict
) -> tuple[View, ...]:
    """How a machine with a tree is drawn: in the plane in which it moves, else in space, and from above if it travels.

    traced: frames and links whose paths are drawn. goal: the targets that are the wanted position of one of them.
    wanted: gives by legend name other paths (n, 3) [m]; a view that would show what is not a number does without.
    """
    skeleton = machine.description.skeleton
    if skeleton is None:
        return ()
    origins = _origins(machine)
    spread, size = np.ptp(origins, axis=0), float(np.ptp(origins, axis=1).max()) or 1.0
    still = [axis for axis in FLAT if (spread[:, axis] < STILL * size).all()]
    drawing = partial(_view, machine, traced, size, bool((spread[0] < STILL * size).all()), goal, wanted)
    if still:
        across, up, title = FLAT[still[0]]
        return (drawing(np.array([across, up], float), title, (_label(across), _label(up))),)
    in_space = drawing(np.array(IN_SPACE), "in space", ("[m]", "[m]"))
    if (spread[0, :2] < STILL * size).any():
        return (in_space,)
    return in_space, drawing(np.array([FLAT[2][0], FLAT[2][1]], float), "from above", ("x [m]", "y [m]"))


def tips(machine: Machine) -> tuple[str, ...]:
    """The ends of a machine's tree: what moves and has nothing on it, one name for each place; none if too many."""
    skeleton = machine.description.skeleton
    if skeleton is None:
        return ()
    origins = _origins(machine)
    found: dict[bytes, str] = {}
    for i, name in enumerate(skeleton.names):
        if i not in skeleton.parents and np.ptp(origins[:, i], axis=0).any():
            found.setdefault(np.round(origins[:, i], 9).tobytes(), name)
    return tuple(found.values()) if len(found) <= TIPS else ()


def columns_of_traces(names: Sequence[str]) -> list[str]:
    """The columns of the paths of frames and links: NAME.x, NAME.y, NAME.z [m]."""
    return [f"{name}.{axis}" for name in names for axis in "xyz"]


def places(machine: Machine, names: Sequence[str], t: float, x: Array) -> Array:
    """The places (n, 3) [m] of frames and links at a kernel state."""
    skeleton = machine.description.skeleton
    rows = [skeleton.names.index(name) for name in names] if skeleton else []
    return machine.poses(t, x)[rows, :3] if rows else np.zeros((0, 3))


def poses(machine: Machine, values: Values) -> Array:
    """Where links and frames stand, with their inertias, by the values of the states; see `Machine.poses`."""
    return machine.poses(0.0, np.array([*(values[name] for name in machine.description.state_names), 0.0]))


def _origins(machine: Machine) -> Array:
    """The places (states, n, 3) of links and frames at random states."""
    rng, n = np.random.default_rng(SEED), machine.n_state
    found = [machine.poses(0.0, np.append(rng.uniform(-1, 1, n), 0.0))[:, :3] for _ in range(STATES)]
    return np.array(found)


def _label(axis: tuple[int, ...]) -> str:
    return f"{'xyz'[axis.index(1)]} [m]"


def _view(
    machine: Machine, traced: Sequence[str], size: float, stands: bool, goal: tuple[str, ...] | None, wanted: Wanted,
    projection: Points, title: str, axes: tuple[str, str],
) -> View:  # fmt: skip
    skeleton = machine.description.skeleton
    assert skeleton is not None
    marked = [skeleton.names.index(name) for name in traced]

    def outline(values: Values, _parameters: Values) -> list[Points]:
        at = poses(machine, values)
        lines = _lines(skeleton, at, stands)
        for i in marked:  # the axes of a frame
            place, axes = at[i, :3], TRIPOD * size * at[i, 3:12].reshape(3, 3).T
            lines += [np.array([place, place + axis]) for axis in axes]
        return lines

    def guides(_values: Values, _parameters: Values) -> list[Points]:
        return [GROUND * size * line for line in GROUND_LINES]

    def paths(_wanted: Any) -> dict[str, Points]:
        seen = projection.any(axis=0)
        shown = {name: np.where(seen, path, 0.0) for name, path in wanted().items()}
        return {name: path for name, path in shown.items() if np.isfinite(path).all(axis=1).any()}

    def inertias(values: Values, _parameters: Values) -> list[Points]:
        return _inertias(poses(machine, values))

    return View(
        outline,
        trails={name: tuple(columns_of_traces([name])) for name in traced},
        axes=axes,
        title=title,
        guides=guides,
        projection=projection,
        inertias=inertias,
        goal=goal,
        paths=paths,
    )


def _lines(skeleton: Skeleton, poses: Array, stands: bool) -> list[Points]:
    """A line from each origin to the next one, to the centre of mass at an end, and a dot at each joint."""
    places, lines = poses[:, :3], []
    for i, parent in enumerate(skeleton.parents):
        if parent >= 0 or stands:
            lines.append(np.array([places[parent] if parent >= 0 else np.zeros(3), places[i]]))
        if i not in skeleton.parents and i < skeleton.links:
            lines.append(np.array([places[i], _centre(poses[i])]))
    return [*lines, *(place[None] for place in places[: skeleton.links])]


def _centre(pose: Array) -> Array:
    found: Array = pose[:3] + pose[3:12].reshape(3, 3) @ pose[13:16]
    return found


def _inertias(poses: Array) -> list[Points]:
    """Three rings around each ellipsoid: the body of even density that has the inertia of the link."""
    around = np.linspace(0.0, 2 * np.pi, RING)
    zero = np.zeros(RING)
    rings = [np.roll(np.array([np.cos(around), np.sin(around), zero]), k, axis=0) for k in range(3)]
    found = []
    for pose in poses[poses[:, 12] > 0]:
        shape = pose[3:12].reshape(3, 3) @ _ellipsoid(pose)
        found += [_centre(pose) + (shape @ ring).T for ring in rings]
    return found


def _ellipsoid(pose: Array) -> Array:
    """The matrix (3, 3) that makes a ball of radius 1 the ellipsoid of a link's inertia, in the link's axes."""
    xx, yy, zz, xy, xz, yz = pose[16:22]
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    moments, axes = np.linalg.eigh(np.eye(3) * np.trace(inertia) / 2 - inertia)  # of x x^T dm
    found: Array = axes * np.sqrt(5 * np.maximum(moments, 0.0) / pose[12])
    return found
