"""A run in Foxglove's own types, logged on channels of its SDK, whose sinks are files and servers.

| topic | type |
|---|---|
| /tf | foxglove.FrameTransforms |
| /scene | foxglove.SceneUpdate: outline, arrows and pointed goals |
| /solids | foxglove.SceneUpdate: the shapes of a robot's file, each in its frame; once |
| /log | foxglove.Log, of each event |
| /values | JSON: plant time, lifecycle, fault, joints, inputs, residuals, outputs and goals by name |
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.neighbours.libraries import library
from servonode.neighbours.moments import Layout, Moment, Solid, quaternions
from servonode.neighbours.scene import Scene
from servonode.views.frames import GROUND

NS = 1_000_000_000
# to be seen on a dark and on a light ground
INK, GOAL, ARROW, BODY = (0.35, 0.5, 0.75, 1.0), (0.85, 0.3, 0.1, 1.0), (0.1, 0.65, 0.5, 1.0), (0.6, 0.63, 0.68, 1.0)
THICK = 2.0  # pixels
SLENDER = 0.05  # of an arrow's shaft to its length
LEVELS = {"info": "Info", "warning": "Warning", "error": "Error"}


class Channels:
    """The channels of one run in a context of the SDK.

    Raises:
        NotInstalled: the SDK is missing.
    """

    def __init__(self, layout: Layout, context: Any) -> None:
        self._layout, self._largest = layout, dict[str, float]()
        self._messages, channels = library("foxglove.messages"), library("foxglove.channels")
        self._tf = channels.FrameTransformsChannel("/tf", context=context)
        self._scene = channels.SceneUpdateChannel("/scene", context=context)
        self._solids = channels.SceneUpdateChannel("/solids", context=context) if layout.solids else None
        self._log = channels.LogChannel("/log", context=context)
        self._values = library("foxglove").Channel("/values", schema=values_schema(layout), context=context)

    def log(self, moment: Moment) -> None:
        """Log all of a moment that changes."""
        at = moment.stamp_ns
        if self._layout.frames:
            self._tf.log(self._transforms(moment), log_time=at)
        self._scene.log(self._drawn(moment), log_time=at)
        for event in moment.events:
            self._log.log(self._line(moment, event.level, event.text), log_time=at)
        self._values.log(values(self._layout, moment), log_time=at)

    def log_solids(self, moment: Moment, sink_id: int | None = None) -> None:
        """Log the shapes of a robot's file, which stay where their frames are; sink_id: to this sink alone."""
        if self._solids is None:
            return
        made, stamp = self._messages, self._stamp(moment)
        entities = [
            made.SceneEntity(
                timestamp=stamp,
                frame_id=each.frame,
                id=f"solid {i}",
                frame_locked=True,
                triangles=[self._surface(each)],
            )
            for i, each in enumerate(self._layout.solids)
        ]
        self._solids.log(made.SceneUpdate(entities=entities), log_time=moment.stamp_ns, sink_id=sink_id)

    def _stamp(self, moment: Moment) -> Any:
        return self._messages.Timestamp(*divmod(moment.stamp_ns, NS))

    def _point(self, kind: str, point: Array) -> Any:
        x, y, z = map(float, point)
        return getattr(self._messages, kind)(x=x, y=y, z=z)

    def _turn(self, turn: Array) -> Any:
        x, y, z, w = map(float, turn)
        return self._messages.Quaternion(x=x, y=y, z=z, w=w)

    def _color(self, color: tuple[float, float, float, float]) -> Any:
        r, g, b, a = color
        return self._messages.Color(r=r, g=g, b=b, a=a)

    def _transforms(self, moment: Moment) -> Any:
        made, stamp = self._messages, self._stamp(moment)
        turns = quaternions(moment.poses)
        transforms = [
            made.FrameTransform(
                timestamp=stamp,
                parent_frame_id=GROUND,
                child_frame_id=frame,
                translation=self._point("Vector3", pose[:, 3]),
                rotation=self._turn(turn),
            )
            for frame, pose, turn in zip(self._layout.frames, moment.poses, turns, strict=True)
        ]
        return made.FrameTransforms(transforms=transforms)

    def _drawn(self, moment: Moment) -> Any:
        """The outline, arrows and goals as one entity each, which replace those before."""
        made, scene = self._messages, Scene.of(moment, self._largest)
        lines = [
            made.LinePrimitive(
                points=[self._point("Point3", each) for each in line],
                thickness=THICK,
                scale_invariant=True,
                color=self._color(INK),
            )
            for line in scene.lines
        ]
        goals = [each for each in moment.points.values() if np.isfinite(each).all()]
        arrows = [self._arrow(foot, vector) for foot, vector in scene.arrows.values()]
        parts: dict[str, dict[str, Any]] = {
            "machine": {"lines": lines, "spheres": [self._ball(each, scene.radius, INK) for each in scene.dots]},
            "arrows": {"arrows": arrows},
            "goals": {"spheres": [self._ball(each, 2 * scene.radius, GOAL) for each in goals]},
        }
        stamp = self._stamp(moment)
        entities = [made.SceneEntity(timestamp=stamp, frame_id=GROUND, id=id, **part) for id, part in parts.items()]
        return made.SceneUpdate(entities=entities)

    def _ball(self, centre: Array, radius: float, color: tuple[float, float, float, float]) -> Any:
        made = self._messages
        size = self._point("Vector3", np.full(3, 2 * radius))
        return made.SpherePrimitive(
            pose=made.Pose(position=self._point("Vector3", centre), orientation=made.Quaternion(w=1.0)),
            size=size,
            color=self._color(color),
        )

    def _arrow(self, foot: Array, vector: Array) -> Any:
        made, length = self._messages, float(np.linalg.norm(vector))
        return made.ArrowPrimitive(
            pose=made.Pose(position=self._point("Vector3", foot), orientation=self._turn(_along(vector / length))),
            shaft_length=0.8 * length,
            shaft_diameter=SLENDER * length,
            head_length=0.2 * length,
            head_diameter=2 * SLENDER * length,
            color=self._color(ARROW),
        )

    def _surface(self, solid: Solid) -> Any:
        return self._messages.TriangleListPrimitive(
            points=[self._point("Point3", each) for each in solid.points],
            indices=solid.triangles.ravel().tolist(),
            color=self._color(BODY),
        )

    def _line(self, moment: Moment, level: str, text: str) -> Any:
        made = self._messages
        severity = getattr(made.LogLevel, LEVELS[level])
        return made.Log(timestamp=self._stamp(moment), level=severity, message=text, name=self._layout.run)


def _along(direction: Array) -> Array:
    """The quaternion (x, y, z, w) that turns the x axis into a direction of length 1."""
    x, y, z = direction
    turn = np.array([0.0, -z, y, 1 + x]) if x > -1 + 1e-9 else np.array([0.0, 0.0, 1.0, 0.0])
    found: Array = turn / np.linalg.norm(turn)
    return found


def values(layout: Layout, moment: Moment) -> dict[str, Any]:
    """The numbers of a moment by group and name; those that are not known are left out."""
    joints = zip(layout.joints, moment.positions, moment.velocities, strict=True)
    groups = {"input": moment.inputs, "residual": moment.residuals, "output": moment.outputs, "goal": moment.goals}
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
