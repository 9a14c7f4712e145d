"""Frames and drawings of a moment in Foxglove's types, as nested dicts, lists and numbers.

| topic | type |
|---|---|
| /tf | foxglove.FrameTransforms |
| /scene | foxglove.SceneUpdate: outline, arrows and pointed goals |
| /solids | foxglove.SceneUpdate: the shapes of a robot's file, each in its frame; once |
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.neighbours.moments import NS, Layout, Moment, Scene, Solid, quaternion, quaternions, xyz
from servonode.views.frames import GROUND

TF, SCENE, SOLIDS = "/tf", "/scene", "/solids"
TYPES = {TF: "FrameTransforms", SCENE: "SceneUpdate", SOLIDS: "SceneUpdate"}
# to be seen on a dark and on a light ground
INK, GOAL, ARROW, BODY = (0.35, 0.5, 0.75, 1.0), (0.85, 0.3, 0.1, 1.0), (0.1, 0.65, 0.5, 1.0), (0.6, 0.63, 0.68, 1.0)
THICK = 2.0  # pixels
SLENDER = 0.05  # of an arrow's shaft to its length
STILL = {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0}

Color = tuple[float, float, float, float]
Content = dict[str, Any]


def transforms(layout: Layout, moment: Moment) -> Content:
    """The FrameTransforms of a moment."""
    turns = quaternions(moment.poses)
    return {
        "transforms": [
            {
                "timestamp": stamp(moment),
                "parent_frame_id": GROUND,
                "child_frame_id": frame,
                "translation": xyz(pose[:, 3]),
                "rotation": quaternion(turn),
            }
            for frame, pose, turn in zip(layout.frames, moment.poses, turns, strict=True)
        ]
    }


def drawn(moment: Moment, largest: dict[str, float]) -> Content:
    """The SceneUpdate of outline, arrows and goals, an entity each, which replace those before.

    largest: the longest arrow of each unit so far, which this keeps.
    """
    scene = Scene.of(moment, largest)
    goals = [each for each in moment.points.values() if np.isfinite(each).all()]
    parts: Mapping[str, Content] = {
        "machine": {
            "lines": [_line(each) for each in scene.lines],
            "spheres": [_ball(each, scene.radius, INK) for each in scene.dots],
        },
        "arrows": {"arrows": [_arrow(foot, vector) for foot, vector in scene.arrows.values()]},
        "goals": {"spheres": [_ball(each, 2 * scene.radius, GOAL) for each in goals]},
    }
    return {
        "entities": [{"timestamp": stamp(moment), "frame_id": GROUND, "id": id, **part} for id, part in parts.items()]
    }


def solids(layout: Layout, moment: Moment) -> Content:
    """The SceneUpdate of the shapes of a robot's file, which move with their frames."""
    return {
        "entities": [
            {
                "timestamp": stamp(moment),
                "frame_id": each.frame,
                "id": f"solid {i}",
                "frame_locked": True,
                "triangles": [_surface(each)],
            }
            for i, each in enumerate(layout.solids)
        ]
    }


def stamp(moment: Moment) -> Content:
    """The time of a moment."""
    sec, nsec = divmod(moment.stamp_ns, NS)
    return {"sec": sec, "nsec": nsec}


def _color(color: Color) -> Content:
    return dict(zip("rgba", color, strict=True))


def _line(points: Array) -> Content:
    shape = {"pose": _pose(np.zeros(3)), "thickness": THICK, "scale_invariant": True}
    return {**shape, "points": list(map(xyz, points)), "color": _color(INK)}


def _pose(place: Array, turn: Content = STILL) -> Content:
    return {"position": xyz(place), "orientation": turn}


def _ball(centre: Array, radius: float, color: Color) -> Content:
    return {"pose": _pose(centre), "size": xyz(np.full(3, 2 * radius)), "color": _color(color)}


def _arrow(foot: Array, vector: Array) -> Content:
    length = float(np.linalg.norm(vector))
    return {
        "pose": _pose(foot, quaternion(_along(vector / length))),
        "shaft_length": 0.8 * length,
        "shaft_diameter": SLENDER * length,
        "head_length": 0.2 * length,
        "head_diameter": 2 * SLENDER * length,
        "color": _color(ARROW),
    }


def _along(direction: Array) -> Array:
    """The quaternion (x, y, z, w) that turns the x axis into a direction of length 1."""
    x, y, z = direction
    turn = np.array([0.0, -z, y, 1 + x]) if x > -1 + 1e-9 else np.array([0.0, 0.0, 1.0, 0.0])
    found: Array = turn / np.linalg.norm(turn)
    return found


def _surface(solid: Solid) -> Content:
    corners = solid.triangles.ravel().tolist()
    points = list(map(xyz, solid.points))
    return {"pose": _pose(np.zeros(3)), "points": points, "indices": corners, "color": _color(BODY)}
