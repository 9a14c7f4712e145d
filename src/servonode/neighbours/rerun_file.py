"""A recording as a file of rerun, with the machine in space beside its inputs and residuals."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from servonode.neighbours.libraries import library
from servonode.neighbours.moments import Layout, Moment
from servonode.neighbours.scene import Scene
from servonode.record.files import replaced_file
from servonode.views.frames import GROUND

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
    """The machine in space, beside it what the layout has of residuals, inputs and goals."""
    blueprint = library("rerun.blueprint")
    groups = {"residual": layout.residuals, "input": layout.inputs, "goal": layout.goals}
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
        for word, values in (groups | {"output": moment.outputs, "goal": moment.goals}).items():
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
