"""Where the goals of a launch file want frames to be: their paths over the run, for views."""

from collections.abc import Collection

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.launch_keys import Controller, FrameGoal, LaunchFile
from servonode.mechanics.machine import Machine
from servonode.plants.skeleton import places

STEP, POINTS = 0.01, 10_000  # s, and at most so many; the path of a longer run is that of its beginning
FINE, STEPS = 1 / 250, 1.5  # of the extent of a path, of the way from one point to the next: what counts as one place
NEAR = 4.0  # places, over which a path is drawn on


def wanted_targets(controller: Controller | None, targets: Collection[str]) -> tuple[str, ...] | None:
    """The three targets that are the wanted position of a frame, such as those from outside; None without them."""
    found = (_targets(goal, targets) for goal in (controller.goal.values() if controller else ()))
    return next(filter(None, found), None)


def wanted_positions(launch: LaunchFile, control: Control | None, machine: Machine, start: Array) -> dict[str, Array]:
    """Legend name -> path (n, 3) [m] of the wanted positions of each frame that has a goal in the ground's axes.

    A free coordinate is not a number. {} if goals come from outside; targets alone are drawn as such. start: the state.
    """
    goals = launch.controller.goal if launch.controller else {}
    if control is None or control.live or not goals:
        return {}
    t = np.arange(0.0, launch.run.duration, STEP)[:POINTS]
    residuals = _residuals(control, start, t)
    found = {}
    for frame, goal in goals.items():
        rows = [residuals.get(f"{frame}_{axis}") for axis in "xyz"]
        stated = goal.relative_to is None and any(row is not None for row in rows)
        if stated and not _targets(goal, control.targets.names):
            (here,) = places(machine, [frame], 0.0, start)
            free = np.full(len(t), np.nan)
            path = [free if row is None else at - row for at, row in zip(here, rows, strict=True)]
            found[f"{frame} wanted"] = each_place_once(np.column_stack(path))
    return found


def _targets(goal: FrameGoal, targets: Collection[str]) -> tuple[str, ...]:
    """The targets that are a goal's position by themselves; empty without them."""
    names = tuple(map(str, goal.position or ()))
    return names if goal.relative_to is None and set(names) <= set(targets) else ()


def _residuals(control: Control, x: Array, t: Array) -> dict[str, Array]:
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
