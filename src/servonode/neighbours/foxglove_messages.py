"""A run in Foxglove's own types, logged on channels of its SDK, whose sinks are files and servers.

Beside the topics of `foxglove_scene`:

| topic | type |
|---|---|
| /log | foxglove.Log, of each event |
| /values | JSON: plant time, lifecycle, fault, joints, inputs, residuals, outputs and goals by name |
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.neighbours import foxglove_scene
from servonode.neighbours.foxglove_scene import SCENE, SOLIDS, TF, TYPES
from servonode.neighbours.libraries import library
from servonode.neighbours.moments import Event, Layout, Moment

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
            self._log_drawn(TF, foxglove_scene.transforms(self._layout, moment), at)
        self._log_drawn(SCENE, foxglove_scene.drawn(moment, self._largest), at)
        for event in moment.events:
            self._log.log(self._line(moment, event), log_time=at)
        self._values.log(values(self._layout, moment), log_time=at)

    def log_solids(self, moment: Moment, sink_id: int | None = None) -> None:
        """Log the shapes of a robot's file, which stay where their frames are; sink_id: to this sink alone."""
        if SOLIDS in self._drawn:
            self._log_drawn(SOLIDS, foxglove_scene.solids(self._layout, moment), moment.stamp_ns, sink_id)

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
        stamp = self._typed("Timestamp", foxglove_scene.stamp(moment))
        severity = getattr(made.LogLevel, LEVELS[event.level])
        return made.Log(timestamp=stamp, level=severity, message=event.text, name=self._layout.run)


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
