"""A moment as messages of ROS 2: topic, type, and the message as nested dicts, lists and numbers.

| topic | type |
|---|---|
| /joint_states | sensor_msgs/msg/JointState |
| /tf | tf2_msgs/msg/TFMessage |
| /odom | nav_msgs/msg/Odometry, if the machine travels |
| /input/NAME, /residual/NAME, /margin/NAME, /output/NAME | std_msgs/msg/Float64 |
| /goal/NAME | geometry_msgs/msg/PointStamped if it is a place, else std_msgs/msg/Float64 |
| /diagnostics | diagnostic_msgs/msg/DiagnosticArray, once a second and when the run's lifecycle or fault changes |
| /rosout | rcl_interfaces/msg/Log, of each event |

What is not known is left out; an effort that is not known is NaN.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from servonode.views.frames import GROUND
from servonode.wings.neighbours.moments import NS, Event, Layout, Moment, quaternion, quaternions, xyz

Sent = tuple[str, str, dict[str, Any]]  # topic, type, message
OK, ERROR = 0, 2  # of diagnostic_msgs/msg/DiagnosticStatus
SEVERITIES = {"info": 20, "warning": 30, "error": 40}  # of rcl_interfaces/msg/Log
FLOAT64 = "std_msgs/msg/Float64"


def messages(layout: Layout, moment: Moment, before: Moment | None = None) -> Iterator[Sent]:
    """The messages of a moment. before: the moment before it, which decides whether diagnostics are due."""
    header = _header(moment, GROUND)
    if layout.joints:
        yield "/joint_states", "sensor_msgs/msg/JointState", _joint_states(layout, moment)
    if layout.frames:
        yield "/tf", "tf2_msgs/msg/TFMessage", {"transforms": _transforms(layout, moment)}
    if moment.base:
        yield "/odom", "nav_msgs/msg/Odometry", _odometry(moment, header)
    for word, values in (("input", moment.inputs), ("residual", moment.residuals), ("margin", moment.margins)):
        yield from _numbers(word, values)
    yield from _numbers("output", moment.outputs)
    for name, point in moment.points.items():
        if np.isfinite(point).all():
            yield topic("goal", name), "geometry_msgs/msg/PointStamped", {"header": header, "point": xyz(point)}
    placed = {target for names in layout.pointed.values() for target in names}
    yield from _numbers("goal", {name: value for name, value in moment.goals.items() if name not in placed})
    if before is None or _diagnosed(moment) != _diagnosed(before):
        yield "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", _diagnostics(layout, moment, header)
    for event in moment.events:
        yield "/rosout", "rcl_interfaces/msg/Log", _log(layout, moment, event)


def topic(word: str, name: str) -> str:
    """The topic of a quantity: /input/U1. A name of ROS has letters, digits and single underscores."""
    token = re.sub(r"[^A-Za-z0-9]+", "_", name)
    return f"/{word}/{f'n{token}' if token[:1].isdigit() else token}"


def _stamp(moment: Moment) -> dict[str, int]:
    sec, nanosec = divmod(moment.stamp_ns, NS)
    return {"sec": sec, "nanosec": nanosec}


def _header(moment: Moment, frame: str) -> dict[str, Any]:
    return {"stamp": _stamp(moment), "frame_id": frame}


def _joint_states(layout: Layout, moment: Moment) -> dict[str, Any]:
    return {
        "header": _header(moment, ""),
        "name": list(layout.joints),
        "position": moment.positions.tolist(),
        "velocity": moment.velocities.tolist(),
        "effort": moment.efforts.tolist(),
    }


def _transforms(layout: Layout, moment: Moment) -> list[dict[str, Any]]:
    turns = quaternions(moment.poses)
    return [
        {
            "header": _header(moment, GROUND),
            "child_frame_id": frame,
            "transform": {"translation": xyz(pose[:, 3]), "rotation": quaternion(turn)},
        }
        for frame, pose, turn in zip(layout.frames, moment.poses, turns, strict=True)
    ]


def _odometry(moment: Moment, header: Mapping[str, Any]) -> dict[str, Any]:
    base, zero = moment.base, [0.0] * 36
    assert base is not None
    pose = {"position": xyz(base.pose[:, 3]), "orientation": quaternion(quaternions(base.pose[None])[0])}
    twist = {"linear": xyz(base.twist[:3]), "angular": xyz(base.twist[3:])}
    return {
        "header": header,
        "child_frame_id": base.frame,
        "pose": {"pose": pose, "covariance": zero},
        "twist": {"twist": twist, "covariance": zero},
    }


def _numbers(word: str, values: Mapping[str, float]) -> Iterator[Sent]:
    for name, value in values.items():
        if np.isfinite(value):
            yield topic(word, name), FLOAT64, {"data": float(value)}


def _diagnosed(moment: Moment) -> tuple[int, str, str]:
    return moment.stamp_ns // NS, moment.lifecycle, moment.fault


def _diagnostics(layout: Layout, moment: Moment, header: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in moment.residuals.items() if np.isfinite(value)}
    largest = max(known, key=lambda name: abs(known[name]), default="")
    values = {"lifecycle": moment.lifecycle, "t": f"{moment.t:.9g} s"}
    values |= {f"residual {largest}": f"{known[largest]:.6g} {layout.residuals[largest]}"} if largest else {}
    status = {
        "level": ERROR if moment.fault else OK,
        "name": f"servonode: {layout.run}",
        "message": moment.fault or moment.lifecycle,
        "hardware_id": layout.machine,
        "values": [{"key": key, "value": value} for key, value in values.items()],
    }
    return {"header": header, "status": [status]}


def _log(layout: Layout, moment: Moment, event: Event) -> dict[str, Any]:
    return {
        "stamp": _stamp(moment),
        "level": SEVERITIES[event.level],
        "name": layout.run,
        "msg": event.text,
        "file": "",
        "function": "",
        "line": 0,
    }
