"""A recording for other tools: as files of ROS 2, Foxglove and rerun, and drawn in it for viewers."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.record.bag import Bag
from servonode.record.files import new_file, replaced_file
from servonode.record.write import Drawn
from servonode.version import VERSION
from servonode.views.frames import GROUND
from servonode.wings.neighbours.foxglove_messages import (
    SCENE,
    SOLIDS,
    TF,
    TYPES,
    Channels,
    Content,
    drawn,
    solids,
    transforms,
)
from servonode.wings.neighbours.libraries import library
from servonode.wings.neighbours.moments import Layout, Moment, Scene
from servonode.wings.neighbours.recorded import moments_of_bag
from servonode.wings.neighbours.ros2_messages import messages

RATE, MOST = 10.0, 500  # of drawings: Hz of the wall clock, instants of a run
DIGITS = 5  # decimal places of all their numbers but times


def drawings(bag: Bag, closed_loop: ClosedLoop) -> Iterator[Drawn]:
    """Frames and drawings of a recording's last run, in Foxglove's types as JSON.

    Raises BagError where it holds no rows and no states.
    """
    run, layout = closed_loop.launch.run, Layout.of(closed_loop)
    rate = min(MOST / run.duration, RATE / run.speed if run.mode == "realtime" else RATE)
    largest: dict[str, float] = {}
    for i, moment in enumerate(moments_of_bag(bag, closed_loop, rate, paced=False)):
        contents: dict[str, Content] = {TF: transforms(layout, moment)} if layout.frames else {}
        contents |= {SOLIDS: solids(layout, moment)} if layout.solids and not i else {}
        for topic, content in (contents | {SCENE: drawn(moment, largest)}).items():
            yield Drawn(topic, f"foxglove.{TYPES[topic]}", moment.stamp_ns, _rounded(content))


def _rounded(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _rounded(each) for name, each in content.items()}
    if isinstance(content, list):
        return [_rounded(each) for each in content]
    return round(content, DIGITS) if isinstance(content, float) else content


def write_foxglove_bag(layout: Layout, moments: Iterable[Moment], file: Path) -> int:
    """Write moments to a new file; how many there are.

    Raises:
        NotInstalled: foxglove-sdk is missing; OSError: the file cannot be written.
    """
    foxglove = library("foxglove")
    context, count = foxglove.Context(), 0
    channels = Channels(layout, context)
    with replaced_file(file) as draft, foxglove.open_mcap(draft, allow_overwrite=True, context=context):
        for moment in moments:
            if not count:
                channels.log_solids(moment)
            channels.log(moment)
            count += 1
    return count


ARRAYS = {"float64": np.float64}


class Types:
    """The types of ROS 2, as the library rosbags has their definitions."""

    def __init__(self) -> None:
        typesys = library("rosbags.typesys")
        self._store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
        self._kinds = library("rosbags.interfaces").Nodetype

    def definition(self, name: str) -> bytes:
        """The .msg text of a type, with those of the types in it."""
        text: str = self._store.generate_msgdef(name, ros_version=2)[0]
        return text.encode()

    def serialized(self, name: str, values: dict[str, Any]) -> bytes:
        """A message in CDR."""
        return bytes(self._store.serialize_cdr(self._made(name, values), name))

    def _made(self, name: str, values: dict[str, Any]) -> Any:
        """The message of nested values, which give each of its fields."""
        fields = {field: self._field(kind, values[field]) for field, kind in self._store.fielddefs[name][1]}
        return self._store.types[name](**fields)

    def _field(self, kind: Any, value: Any) -> Any:
        word, inner = kind
        if word == self._kinds.NAME:
            return self._made(inner, value)
        if word == self._kinds.BASE:
            return value
        each = inner[0]
        if each[0] == self._kinds.BASE and each[1][0] in ARRAYS:
            return np.array(value, ARRAYS[each[1][0]])
        return [self._field(each, one) for one in value]


def write_ros2_bag(layout: Layout, moments: Iterable[Moment], file: Path) -> int:
    """Write the messages of moments to a new file; how many there are.

    Raises:
        NotInstalled: rosbags is missing; OSError: the file cannot be written.
    """
    from mcap.writer import Writer

    types, channels, count = Types(), dict[str, int](), 0
    with new_file(file) as stream:
        writer = Writer(stream)
        writer.start(profile="ros2", library=f"servonode {VERSION}")
        before = None
        for moment in moments:
            for topic, name, values in messages(layout, moment, before):
                if topic not in channels:
                    schema = writer.register_schema(name, "ros2msg", types.definition(name))
                    channels[topic] = writer.register_channel(topic, "cdr", schema)
                data = types.serialized(name, values)
                writer.add_message(channels[topic], moment.stamp_ns, data, moment.stamp_ns)
                count += 1
            before = moment
        writer.finish()
    return count


INK, GOAL, ARROW, BODY = (25, 25, 40), (215, 80, 25), (25, 115, 205), (155, 160, 172)
PAPER = (246, 247, 249)
THICK = 1.5  # points of the screen
LEVELS = {"info": "INFO", "warning": "WARN", "error": "ERROR"}


def write_rerun_file(layout: Layout, moments: Iterable[Moment], file: Path) -> int:
    """Write moments to a new file; how many there are. Timelines: `wall`, and `plant` from the start of the run.

    Raises:
        NotInstalled: rerun-sdk is missing; OSError: the file cannot be written.
    """
    rr, count = library("rerun"), 0
    recording = rr.RecordingStream(f"servonode {layout.machine}", recording_id=uuid4())
    with replaced_file(file) as draft:
        recording.save(draft, default_blueprint=_blueprint(layout))
        writer = _Writer(rr, recording, layout)
        for moment in moments:
            if not count:
                writer.begin()
            writer.log(moment)
            count += 1
        recording.flush()
        recording.disconnect()
    return count


def _blueprint(layout: Layout) -> Any:
    """The machine in space, beside it what the layout has of residuals, margins, inputs and goals."""
    blueprint = library("rerun.blueprint")
    groups = {"residual": layout.residuals, "margin": layout.margins, "input": layout.inputs, "goal": layout.goals}
    plots = [blueprint.TimeSeriesView(origin=f"/{word}", name=word) for word, names in groups.items() if names]
    log = blueprint.TextLogView(origin="/log", name="log")
    space = blueprint.Spatial3DView(origin=f"/{GROUND}", name=layout.run, background=PAPER)
    return blueprint.Blueprint(
        blueprint.Horizontal(space, blueprint.Vertical(*plots, log), column_shares=[3, 2]), collapse_panels=True
    )


class _Writer:
    """Logs the moments of one run."""

    def __init__(self, rr: Any, recording: Any, layout: Layout) -> None:
        self._rr, self._recording, self._layout = rr, recording, layout
        self._largest: dict[str, float] = {}

    def begin(self) -> None:
        """Log what stays: the direction upwards, and the shapes of a robot's file."""
        self._recording.log(GROUND, self._rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        for i, solid in enumerate(self._layout.solids):
            path = f"{self._place(solid.frame)}/solid_{i}"
            corners = solid.points[solid.triangles]
            normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
            size = np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), np.finfo(float).tiny)
            mesh = self._rr.Mesh3D(
                vertex_positions=corners.reshape(-1, 3),
                vertex_normals=np.repeat(normals / size, 3, axis=0),
                albedo_factor=BODY,
            )
            self._recording.log(path, mesh, static=True)

    def log(self, moment: Moment) -> None:
        """Log a moment."""
        self._recording.set_time("wall", timestamp=np.datetime64(moment.stamp_ns, "ns"))
        self._recording.set_time("plant", duration=moment.t)
        self._log_scene(moment)
        joints = dict(zip(self._layout.joints, moment.positions, strict=True))
        rates = dict(zip(self._layout.joints, moment.velocities, strict=True))
        groups = {"joint": joints, "rate": rates, "input": moment.inputs, "residual": moment.residuals}
        for word, values in (
            groups | {"margin": moment.margins, "output": moment.outputs, "goal": moment.goals}
        ).items():
            self._log_numbers(word, values)
        for event in moment.events:
            self._recording.log("log", self._rr.TextLog(event.text, level=LEVELS[event.level]))

    def _place(self, frame: str) -> str:
        """The path of a frame's entity."""
        return GROUND if frame == GROUND else f"{GROUND}/{self._rr.escape_entity_path_part(frame)}"

    def _log_scene(self, moment: Moment) -> None:
        rr, log, scene = self._rr, self._recording.log, Scene.of(moment, self._largest)
        for frame, pose in zip(self._layout.frames, moment.poses, strict=True):
            log(self._place(frame), rr.Transform3D(translation=pose[:, 3], mat3x3=pose[:, :3]))
        log(f"{GROUND}/outline", rr.LineStrips3D(scene.lines, colors=INK, radii=rr.Radius.ui_points(THICK)))
        log(f"{GROUND}/dots", rr.Points3D(scene.dots, colors=INK, radii=scene.radius))
        feet, vectors = ([pair[i] for pair in scene.arrows.values()] for i in (0, 1))
        labels = list(scene.arrows)
        arrows = rr.Arrows3D(origins=feet, vectors=vectors, labels=labels, show_labels=False, colors=ARROW)
        log(f"{GROUND}/arrows", arrows)
        goals = [each for each in moment.points.values() if np.isfinite(each).all()]
        log(f"{GROUND}/goals", rr.Points3D(goals, colors=GOAL, radii=2 * scene.radius))

    def _log_numbers(self, word: str, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if np.isfinite(value):
                path = f"{word}/{self._rr.escape_entity_path_part(name)}"
                self._recording.log(path, self._rr.Scalars(float(value)))


WRITERS = {"ros2": write_ros2_bag, "foxglove": write_foxglove_bag, "rerun": write_rerun_file}


def export(bag: Bag, closed_loop: ClosedLoop, tool: str, file: Path) -> int:
    """Write a recording's last run to a new file for a tool of WRITERS; how many messages or moments it has.

    Raises:
        NotInstalled: the tool's library is missing; BagError: the recording holds no states; OSError: the file cannot
        be written.
    """
    return WRITERS[tool](Layout.of(closed_loop), moments_of_bag(bag, closed_loop), file)
