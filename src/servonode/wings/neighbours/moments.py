"""One run as all other tools are told it: what stays the same, and the machine at one instant.

Frames, points and lines are in the ground's axes ("world"); SI units and radians.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from servonode.arrays import Array
from servonode.bus.topology import PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.mechanics.machine import Machine
from servonode.plants.machine_files import FileParts, Solid
from servonode.views.frames import GROUND, Frames, placed_solids
from servonode.views.shapes import Instant, Shapes

STATES, SEED, EXACT = 6, 1, 1e-9  # random states by which it is found on which joint an input acts; relative
NS = 1_000_000_000
STEP = 1e-6  # s, of the central difference that gives the twist of the base

Values = Mapping[str, float]


@dataclass(frozen=True)
class Layout:
    """What stays the same in a run. It has a field for each group of names that a tool shows.

    joints: coordinates of one number each, of a robot's file its hinges and slides by the file's names. frames: those
    below "world". inputs, residuals, margins, outputs, goals: unit by name. pointed: goals that are a place, by the
    names of their targets. base: the frame that travels, if one does.
    """

    run: str
    machine: str
    joints: tuple[str, ...]
    frames: tuple[str, ...]
    solids: tuple[Solid, ...]
    inputs: Mapping[str, str]
    residuals: Mapping[str, str]
    margins: Mapping[str, str]
    outputs: Mapping[str, str]
    goals: Mapping[str, str]
    pointed: Mapping[str, tuple[str, ...]]
    base: str | None = None

    @classmethod
    def of(cls, closed_loop: ClosedLoop) -> Self:
        """The layout of what a launch file describes."""
        frames, parts = Frames(closed_loop), _parts(closed_loop)
        called = {name: parts.frames.get(name, name) for name in (*frames.names, GROUND)}
        described, goals = closed_loop.machine.description, closed_loop.targets.names
        law = closed_loop.control.law.description if closed_loop.control else None
        units = law.target_units if law and law.target_units else [""] * len(goals)
        pointed = {each.goal for each in closed_loop.views if each.goal and set(each.goal) <= set(goals)}
        return cls(
            run=closed_loop.launch.name,
            machine=described.name,
            joints=tuple(_joints(closed_loop, parts)),
            frames=tuple(called[name] for name in frames.names),
            solids=tuple(replace(each, frame=called[each.frame]) for each in placed_solids(closed_loop, frames)[0]),
            inputs={each.name: each.unit for each in described.inputs},
            residuals={each.name: each.unit for each in closed_loop.residuals},
            margins={each.name: each.unit for each in closed_loop.keeps},
            outputs={each.name: each.unit for each in described.outputs},
            goals=dict(zip(goals, units, strict=True)),
            pointed={"_".join(names): tuple(names) for names in sorted(pointed)},
            base=called[frames.names[0]] if frames.travels else None,
        )


@dataclass(frozen=True)
class Base:
    """The frame that travels: its pose (3, 4) and its twist (6,) [m/s, rad/s] in its own axes."""

    frame: str
    pose: Array
    twist: Array


@dataclass(frozen=True)
class Event:
    """Something that happened in a run. level: "info", "warning" or "error"."""

    level: str
    text: str


@dataclass(frozen=True)
class Arrow:
    """A vector (3,) [unit] at its foot (3,) [m]."""

    foot: Array
    vector: Array
    unit: str


@dataclass(frozen=True)
class Moment:
    """A run at one instant. It has a field for each group of values that a tool shows.

    stamp_ns: since 1970. t: plant time [s]. positions, velocities, efforts: of the layout's joints; an effort is NaN
    if no input acts on that joint alone. poses: of its frames, rotation and place (n, 3, 4). inputs, residuals,
    margins, outputs, goals: by name, NaN if not known. points: of its pointed goals, (3,). lines: (n, 3), outline and
    guides of the machine's view; arrows: those of the view. events: what happened since the moment before.
    """

    stamp_ns: int
    t: float
    positions: Array
    velocities: Array
    efforts: Array
    poses: Array
    base: Base | None
    inputs: dict[str, float]
    residuals: dict[str, float]
    margins: dict[str, float]
    outputs: dict[str, float]
    goals: dict[str, float]
    points: dict[str, Array]
    lines: list[Array]
    arrows: dict[str, Arrow]
    lifecycle: str
    fault: str
    events: tuple[Event, ...] = field(default=())


class Moments:
    """Makes moments of a run of `closed_loop` from its rows."""

    def __init__(self, closed_loop: ClosedLoop, layout: Layout | None = None) -> None:
        self.layout = layout or Layout.of(closed_loop)
        self._closed_loop, self._machine = closed_loop, closed_loop.machine
        self._frames = Frames(closed_loop)
        described = self._machine.description
        coordinates = _joints(closed_loop, _parts(closed_loop)).values()
        self._joints = [described.state_names.index(name) for name in coordinates]
        self._gears = gears(self._machine, self._joints)
        views = closed_loop.views
        self._view = next((each for each in views if not each.strip), views[0] if views else None)

    def moment(
        self, row: Values, stamp_ns: int, lifecycle: str = "", fault: str = "", events: Sequence[Event] = ()
    ) -> Moment:
        """The moment of a row: `t`, states, inputs by name, `residual_NAME`, `margin_NAME`, `target_NAME`."""
        machine, layout, t = self._machine, self.layout, row["t"]
        x = np.array([*(row[name] for name in machine.description.state_names), 0.0])
        u = np.array([row[name] for name in layout.inputs])
        rates = machine.derivatives(t, x, np.nan_to_num(u))
        values = self._values(t, x, u)
        goals = {name: row.get(f"target_{name}", np.nan) for name in layout.goals}
        lines, arrows = self._drawn(t, values)
        return Moment(
            stamp_ns=stamp_ns,
            t=t,
            positions=x[self._joints],
            velocities=rates[self._joints],
            efforts=self._efforts(u),
            poses=self._frames.poses(t, values),
            base=self._base(t, x, u, rates),
            inputs={name: row[name] for name in layout.inputs},
            residuals={name: row.get(f"residual_{name}", np.nan) for name in layout.residuals},
            margins={name: row.get(f"margin_{name}", np.nan) for name in layout.margins},
            outputs={name: values[name] for name in layout.outputs},
            goals=goals,
            points=self._points(goals),
            lines=lines,
            arrows=arrows,
            lifecycle=lifecycle,
            fault=fault,
            events=tuple(events),
        )

    def _values(self, t: float, x: Array, u: Array) -> dict[str, float]:
        """States, inputs and outputs by name."""
        described = self._machine.description
        named_states = zip(described.state_names, x.tolist(), strict=False)
        return (
            dict(named_states) | dict(zip(self.layout.inputs, u.tolist(), strict=True)) | self._machine.outputs(t, x, u)
        )

    def _efforts(self, u: Array) -> Array:
        """The generalized force [N m, N] on each joint that has an input of its own."""
        found = np.full(len(self._joints), np.nan)
        for joint, i, gear in self._gears:
            found[joint] = np.nan_to_num(found[joint]) + gear * u[i]
        return found

    def _base(self, t: float, x: Array, u: Array, rates: Array) -> Base | None:
        if self.layout.base is None:
            return None
        before, now, after = (
            self._frames.poses(t + h, self._values(t + h, x + h * rates, u))[0] for h in (-STEP, 0.0, STEP)
        )
        moved = now[:, :3].T @ (after - before) / (2 * STEP)
        spin = (moved[:, :3] - moved[:, :3].T) / 2
        return Base(self.layout.base, now, np.array([*moved[:, 3], spin[2, 1], spin[0, 2], spin[1, 0]]))

    def _points(self, goals: Values) -> dict[str, Array]:
        """The pointed goals in space."""
        found = {}
        for view in self._closed_loop.views:
            name = "_".join(view.goal or ())
            if name in self.layout.pointed and name not in found:
                found[name] = view.in_space(np.array([[goals[each] for each in self.layout.pointed[name]]]))[0]
        return found

    def _drawn(self, t: float, values: Values) -> tuple[list[Array], dict[str, Arrow]]:
        """Lines and arrows of the machine's first view that is no strip, of a strip if there is no other."""
        view = self._view
        if view is None:
            return [], {}
        shapes = Shapes.in_space(view, Instant.of(self._closed_loop.source, self._machine, t, values))
        lines = [view.in_space(each) for each in (*shapes.lines, *shapes.guides)]
        ends = {name: view.in_space(each) for name, each in shapes.arrows.items()}
        return lines, {name: Arrow(foot, vector, view.arrow_unit) for name, (foot, vector) in ends.items()}


def xyz(point: Array) -> dict[str, float]:
    """A point or vector (3,) by its axes."""
    return dict(zip("xyz", map(float, point), strict=True))


def quaternion(turn: Array) -> dict[str, float]:
    """A quaternion (4,) by its entries."""
    return dict(zip("xyzw", map(float, turn), strict=True))


def quaternions(poses: Array) -> Array:
    """The rotations of poses (n, 3, 4) as quaternions (x, y, z, w), (n, 4)."""
    from scipy.spatial.transform import Rotation

    if not len(poses):
        return np.zeros((0, 4))
    found: Array = Rotation.from_matrix(poses[:, :, :3]).as_quat()
    return found


def _parts(closed_loop: ClosedLoop) -> FileParts:
    """The names of a machine's file, none if it has gone since."""
    try:
        return closed_loop.source.parts()
    except (OSError, ServonodeError, ValueError):
        return FileParts()


def _joints(closed_loop: ClosedLoop, parts: FileParts) -> dict[str, str]:
    """The coordinate of each joint, by its name; of a robot's file those of its hinges and slides."""
    described = closed_loop.machine.description
    if parts.frames:
        return {joint: name for joint, name in parts.joints.items() if name in described.coordinates}
    entries = {entry for names in described.vectors.values() for entry in names}
    return {name: name for name in described.coordinates if name not in entries}


def gears(machine: Machine, joints: Sequence[int]) -> list[tuple[int, int, float]]:
    """The inputs that act on one joint alone: joint, input, and force on the joint per unit of the input.

    An input acts on a joint alone if its power is at all states the same multiple of the joint's rate.
    """
    rng, n_tau = np.random.default_rng(SEED), machine.n_inputs
    powers, rates = [], []
    for _ in range(STATES):
        x = np.append(rng.uniform(-1, 1, machine.n_state), 0.0)
        free = machine.derivatives(0.0, x, np.zeros(n_tau))
        powers.append([machine.derivatives(0.0, x, unit)[-1] - free[-1] for unit in np.eye(n_tau)])
        rates.append(free[list(joints)])
    power, rate = np.array(powers).reshape(STATES, n_tau), np.array(rates).reshape(STATES, len(joints))
    return list(_proportional(power, rate))


def _proportional(power: Array, rate: Array) -> Iterable[tuple[int, int, float]]:
    for i, of_input in enumerate(power.T):
        for joint, of_joint in enumerate(rate.T):
            size = float(of_joint @ of_joint)
            gear = float(of_input @ of_joint) / size if size else 0.0
            if gear and np.abs(of_input - gear * of_joint).max() < EXACT * np.abs(of_input).max():
                yield joint, i, gear


LONGEST = 0.5  # of the longest arrow so far to the extent of the machine's lines
DOT = 0.02  # of the radius of a dot to that extent
SHORTEST = 1e-3  # of an arrow to the longest so far, below which it is not drawn


@dataclass(frozen=True)
class Scene:
    """Polylines (n, 3) and dots (3,) of a machine, arrows by name as foot and vector (3,), radius of a dot [m]."""

    lines: list[Array]
    dots: list[Array]
    arrows: dict[str, tuple[Array, Array]]
    radius: float

    @classmethod
    def of(cls, moment: Moment, largest: dict[str, float]) -> Self:
        """The scene of a moment. largest: the longest arrow of each unit so far, which this keeps."""
        known = [line for line in moment.lines if np.isfinite(line).all()]
        extent = float(np.ptp(np.concatenate(known), axis=0).max()) if known else 0.0
        size = extent or 1.0
        arrows = {}
        for name, arrow in moment.arrows.items():
            length = float(np.linalg.norm(arrow.vector))
            if not np.isfinite(length):
                continue
            most = largest[arrow.unit] = max(length, largest.get(arrow.unit, 0.0))
            if length > SHORTEST * most:
                arrows[name] = arrow.foot, LONGEST * size / most * arrow.vector
        dots = [line[0] for line in known if len(line) == 1]
        return cls([line for line in known if len(line) > 1], dots, arrows, DOT * size)


LEVELS = {"fault": "error", "safe_state": "warning", "restart": "warning", "injected": "warning"}  # else info


class Happened:
    """How a run stands by the events so far: lifecycle of its plant, its first fault, log lines not yet taken."""

    def __init__(self) -> None:
        self.lifecycle = self.fault = ""
        self._lines: list[Event] = []

    def take(self, event: Mapping[str, Any]) -> None:
        """Take one event of a recording, see `record.events`."""
        word, text = event["event"], event["text"]
        cleared = text in ("none", "nominal")
        if word == "lifecycle" and event["node"] == PLANT:
            self.lifecycle = text
        if word == "fault":
            self.fault = "" if cleared else self.fault or text
        level = "info" if cleared else LEVELS.get(word, "info")
        self._lines.append(Event(level, f"{event['node']}: {word.replace('_', ' ')} {text}"))

    def lines(self) -> list[Event]:
        """The log lines since the last call."""
        found, self._lines = self._lines, []
        return found
