"""Where the goals of a launch file want frames to be: their paths over the run, for views."""

from typing import TYPE_CHECKING

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.launch_keys import FrameGoal
from servonode.plants.skeleton import places

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.closed_loop.controller_section import Control

STEP, POINTS = 0.01, 10_000  # s, and at most so many; the path of a longer run is that of its beginning
FINE, STEPS = 1 / 250, 1.5  # of the extent of a path, of the way from one point to the next: what counts as one place
NEAR = 4.0  # places, over which a path is drawn on


def wanted_targets(closed_loop: "ClosedLoop") -> tuple[str, ...] | None:
    """The three targets that are the wanted position of a frame, such as those from outside; None without them."""
    controller = closed_loop.launch.controller
    for goal in controller.goal.values() if controller else ():
        if names := _targets(closed_loop, goal):
            return names
    return None


def wanted_positions(closed_loop: "ClosedLoop") -> dict[str, Array]:
    """Legend name -> path (n, 3) [m] of the wanted positions of each frame that has a goal in the ground's axes.

    What is free or known already is not a number. None where goals come from outside, and none of targets alone.
    """
    control, controller = closed_loop.control, closed_loop.launch.controller
    goals = controller.goal if control and not control.live and controller else {}
    if control is None or not goals:
        return {}
    t = np.arange(0.0, closed_loop.launch.run.duration, STEP)[:POINTS]
    residuals = _residuals(control, closed_loop.start, t)
    found = {}
    for frame, goal in goals.items():
        rows = [residuals.get(f"{frame}_{axis}") for axis in "xyz"]
        if goal.relative_to is None and any(row is not None for row in rows) and not _targets(closed_loop, goal):
            (here,) = places(closed_loop.machine, [frame], 0.0, closed_loop.start)
            free = np.full(len(t), np.nan)
            path = [free if row is None else at - row for at, row in zip(here, rows, strict=True)]
            found[f"{frame} wanted"] = each_place_once(np.column_stack(path))
    return found


def _targets(closed_loop: "ClosedLoop", goal: FrameGoal) -> tuple[str, ...]:
    """The targets that are a goal's position by themselves; empty without them."""
    names = tuple(map(str, goal.position or ()))
    return names if goal.relative_to is None and set(names) <= set(closed_loop.targets.names) else ()


def _residuals(control: "Control", x: Array, t: Array) -> dict[str, Array]:
    """The residuals by name at these times, of a machine that rests where it starts."""
    names = [each.name for each in control.law.description.residuals]
    values = np.array([control.law.terms(at, x, control.goal(at))["f"].copy() for at in t.tolist()])
    return dict(zip(names, values.reshape(len(t), len(names)).T, strict=True))


def each_place_once(path: Array) -> Array:
    """A path (n, 3) without what it passes again, where it has a gap: dashes would fill each other's gaps."""
    known = np.nan_to_num(path)
    ways = np.linalg.norm(np.diff(known, axis=0), axis=1)
    size = max(FINE * float(np.ptp(known, axis=0).max(initial=0.0)), STEPS * float(np.median(ways)) if len(ways) else 0)
    if size == 0.0:
        return path[:1]
    _, first = np.unique(np.floor(known / size), axis=0, return_index=True)
    kept = np.sort(first)
    jumps = (np.diff(kept) > 1) & (np.linalg.norm(np.diff(known[kept], axis=0), axis=1) > NEAR * size)
    return np.insert(path[kept], np.flatnonzero(jumps) + 1, np.nan, axis=0)
