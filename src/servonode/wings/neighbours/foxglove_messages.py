"""A run in Foxglove's own types: as nested dicts and numbers, and logged on channels of its SDK, to files and servers.

| topic | type |
|---|---|
| /tf | foxglove.FrameTransforms |
| /scene | foxglove.SceneUpdate: outline, arrows and pointed goals |
| /solids | foxglove.SceneUpdate: the shapes of a robot's file, each in its frame; once |
| /log | foxglove.Log, of each event |
| /values | JSON: plant time, lifecycle, fault, joints, inputs, residuals, margins, outputs and goals by name |
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.plants.machine_files import Solid
from servonode.views.frames import GROUND
from servonode.wings.neighbours.libraries import library
from servonode.wings.neighbours.moments import NS, Event, Layout, Moment, Scene, quaternion, quaternions, xyz

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


FIELDS = {  # the type of each field that is no number or text
    "transforms": "FrameTransform", "translation": "Vector3", "rotation": "Quaternion", "timestamp": "Timestamp",
    "entities": "SceneEntity", "lines": "LinePrimitive", "spheres": "SpherePrimitive", "arrows": "ArrowPrimitive",
    "triangles": "TriangleListPrimitive", "points": "Point3", "pose": "Pose", "position": "Vector3",
    "orientation": "Quaternion", "size": "Vector3", "color": "Color",
}  # fmt: skip
LEVELS = {"info": "Info", "warning": "Warning", "error": "Error"}


class Channels:
    """The channels of one run in a context of the SDK.

    Raises:
        NotInstalled: the SDK is missing.
    """

    def __init__(self, layout: Layout, context: Any) -> None:
        self._layout, self._largest = layout, dict[str, float]()
        self._messages, channels = library("foxglove.messages"), library("foxglove.channels")
        topics = [SCENE] + [TF] * bool(layout.frames) + [SOLIDS] * bool(layout.solids)
        self._drawn = {each: getattr(channels, f"{TYPES[each]}Channel")(each, context=context) for each in topics}
        self._log = channels.LogChannel("/log", context=context)
        self._values = library("foxglove").Channel("/values", schema=values_schema(layout), context=context)

    def log(self, moment: Moment) -> None:
        """Log all of a moment that changes."""
        at = moment.stamp_ns
        if TF in self._drawn:
            self._log_drawn(TF, transforms(self._layout, moment), at)
        self._log_drawn(SCENE, drawn(moment, self._largest), at)
        for event in moment.events:
            self._log.log(self._line(moment, event), log_time=at)
        self._values.log(values(self._layout, moment), log_time=at)

    def log_solids(self, moment: Moment, sink_id: int | None = None) -> None:
        """Log the shapes of a robot's file, which stay where their frames are; sink_id: to this sink alone."""
        if SOLIDS in self._drawn:
            self._log_drawn(SOLIDS, solids(self._layout, moment), moment.stamp_ns, sink_id)

    def _log_drawn(self, topic: str, content: Mapping[str, Any], at: int, sink_id: int | None = None) -> None:
        self._drawn[topic].log(self._typed(TYPES[topic], content), log_time=at, sink_id=sink_id)

    def _typed(self, name: str, content: Mapping[str, Any]) -> Any:
        """The SDK's message of nested values."""
        if name == "Timestamp":
            return self._messages.Timestamp(content["sec"], content["nsec"])
        fields = {field: self._field(field, value) for field, value in content.items()}
        return getattr(self._messages, name)(**fields)

    def _field(self, name: str, value: Any) -> Any:
        if name not in FIELDS:
            return value
        if isinstance(value, list):
            return [self._typed(FIELDS[name], each) for each in value]
        return self._typed(FIELDS[name], value)

    def _line(self, moment: Moment, event: Event) -> Any:
        made = self._messages
        at, level = self._typed("Timestamp", stamp(moment)), getattr(made.LogLevel, LEVELS[event.level])
        return made.Log(timestamp=at, level=level, message=event.text, name=self._layout.run)


def values(layout: Layout, moment: Moment) -> dict[str, Any]:
    """The numbers of a moment by group and name; those that are not known are left out."""
    joints = zip(layout.joints, moment.positions, moment.velocities, strict=True)
    groups = {"input": moment.inputs, "residual": moment.residuals, "output": moment.outputs, "goal": moment.goals}
    groups |= {"margin": moment.margins} if moment.margins else {}
    known = {word: _known(group) for word, group in groups.items()}
    states = {name: {"position": float(q), "velocity": float(v)} for name, q, v in joints}
    return {"t": moment.t, "lifecycle": moment.lifecycle, "fault": moment.fault, "joint": states, **known}


def _known(group: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in group.items() if np.isfinite(value)}


def values_schema(layout: Layout) -> dict[str, Any]:
    """The JSON Schema of `values`, with units."""
    text = {"type": "string"}
    number = {"type": "number"}
    joint = {"type": "object", "properties": {"position": number, "velocity": number}}
    units = {"input": layout.inputs, "residual": layout.residuals, "output": layout.outputs, "goal": layout.goals}
    units |= {"margin": layout.margins} if layout.margins else {}
    groups = {word: {name: {**number, "description": unit} for name, unit in of.items()} for word, of in units.items()}
    return {
        "title": "servonode.Values",
        "type": "object",
        "properties": {
            "t": {**number, "description": "s"},
            "lifecycle": text,
            "fault": text,
            "joint": {"type": "object", "properties": dict.fromkeys(layout.joints, joint)},
            **{word: {"type": "object", "properties": properties} for word, properties in groups.items()},
        },
    }
