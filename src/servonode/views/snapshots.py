"""Which instants of a run are shown: spread over time, with a fault, and outlines that do not cover each other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.plants.view import View
from servonode.views.scene import NEARLY, STRAIGHT, Scene

SIDE_BY_SIDE, MOSTLY = (7, 6, 8), 0.75  # snapshots of strips: the first number of which this part is apart in a plane
MOST, FEWEST = 9, 4  # of a plane without strips
PIECES, ROWS = 24, 5  # of the time, in which a machine moves or not; rows of each that are looked at
RESTING = 1 / 3  # of the pieces, from which fewer snapshots are spent on them,
RARE = 1 / 4  # in this part
NEAR = 0.7  # of the largest lean, from which one that is shown will do


def spread(scene: Scene, count: int, moves: npt.NDArray[np.bool_] | None = None) -> Scene:
    """The scene at `count` instants that are spread evenly over time, both ends included; a fault is one too.

    moves: for each of equal pieces of the time, whether the machine moves; it is shown rarely where it rests.
    """
    rows = np.linspace(0, scene.last, count)
    if moves is not None and np.mean(~moves) > RESTING:
        passed = np.append(0.0, np.cumsum(np.where(moves, 1.0, RARE)))
        shown = np.interp(np.linspace(0, passed[-1], count), passed, np.linspace(0, 1, len(passed)))
        rows = shown * scene.last
    return replace(scene, instants=sorted({int(i) for i in rows} | scene.fault))


@dataclass(frozen=True)
class Motion:
    """What a machine does at rows that are spread evenly: sizes (leans, rows) of the leans that its views show [rad],
    and its paths (2 paths, rows).
    """

    rows: npt.NDArray[np.intp]
    leans: Array
    paths: Array

    @classmethod
    def of(cls, scene: Scene, views: Sequence[View]) -> "Motion | None":
        """That of a run; None where no view shows a lean."""
        leans = [view.lean for view in views if view.lean]
        if not leans or scene.last < PIECES * ROWS:
            return None
        rows = np.linspace(0, scene.last, PIECES * ROWS + 1).astype(int)
        seen = [scene.instant(int(i)) for i in rows]
        sizes = np.abs([[each.given(lean) for each in seen] for lean in leans])
        paths = [scene.path(view, pair)[:, rows] for view in views for pair in view.trails.values()]
        places = np.nan_to_num(np.concatenate(paths or [np.zeros((0, len(rows)))]), posinf=0.0, neginf=0.0)
        return cls(rows, np.minimum(np.nan_to_num(sizes), np.pi / 2), places)

    def moves(self) -> npt.NDArray[np.bool_]:
        """For each of equal pieces of the time whether a lean or a path changes by a visible part."""
        least = np.full(len(self.leans), max(STRAIGHT, NEARLY * float(self.leans.max())))
        least = np.append(least, NEARLY * np.ptp(self.paths, axis=1))
        values = np.concatenate([self.leans, self.paths])
        parts = [values[:, i : i + ROWS + 1] for i in range(0, PIECES * ROWS, ROWS)]
        return np.array([bool((np.ptp(part, axis=1) > least).any()) for part in parts])

    def with_largest(self, scene: Scene) -> Scene:
        """The scene with the largest lean in place of the instant next to it, where it shows none almost as large."""
        largest = self.leans.max(axis=0)
        shown = largest[np.searchsorted(self.rows, scene.instants).clip(max=len(self.rows) - 1)]
        if shown.max() >= NEAR * largest.max() or largest.max() < STRAIGHT:
            return scene
        at = int(self.rows[np.argmax(largest)])
        kept = scene.fault | {scene.instants[0], scene.instants[-1]}
        others = [i for i in scene.instants if i not in kept]
        moved = min(others, key=lambda i: abs(i - at), default=at)
        return replace(scene, instants=sorted({*scene.instants, at} - {moved} | {at}))


def side_by_side(scene: Scene, views: Sequence[View]) -> Scene:
    """The scene at the instants of its strips: not at the same place of a motion that comes again and again."""
    planes = [view for view in views if not view.strip]
    motion = Motion.of(scene, views)
    tried = [spread(scene, count, motion.moves() if motion else None) for count in SIDE_BY_SIDE]
    tried = [motion.with_largest(each) for each in tried] if motion else tried
    shown = [sum(len(apart(each, view)) for view in planes[:1]) for each in tried]
    good = (each for each, count in zip(tried, shown, strict=True) if count >= MOSTLY * len(each.instants))
    return next(good, tried[0])


def well_spread(scene: Scene, view: View) -> Scene:
    """The scene at as many evenly spread instants as have outlines apart, and of these the ones that have."""
    tried = [spread(scene, count) for count in range(FEWEST, MOST + 1)]
    kept = [(apart(each, view), -len(each.instants), each) for each in tried]
    instants, _, best = max(kept, key=lambda each: (len(each[0]), each[1]))
    return replace(best, instants=instants)


def apart(scene: Scene, view: View) -> list[int]:
    """The instants whose outlines do not cover each other: fault, start and end first, then in the order of time."""
    if not scene.instants:
        return []
    first = [*sorted(scene.fault), scene.instants[0], scene.instants[-1]]
    kept: dict[int, list[Any]] = {}
    for i in dict.fromkeys([*first, *scene.instants]):
        bodies = _bodies(scene.shapes(i, view).lines)
        if not any(one.intersects_path(other) for each in kept.values() for one in bodies for other in each):
            kept[i] = bodies
    return sorted(kept)


def _bodies(lines: Sequence[Array]) -> list[Any]:
    """The areas of an outline: its lines of three points or more; a pole or a dot covers nothing."""
    from matplotlib.path import Path

    return [Path(line) for line in lines if len(line) > 2 and np.isfinite(line).all()]


def digits_of(scene: Scene) -> int:
    """How many digits after the point the times of the instants want."""
    times = scene.run.t[scene.instants]
    if np.allclose(times, np.round(times), rtol=0.0, atol=1e-6):
        return 0
    return 1 if float(times[-1]) >= 20 else 2


def time_text(t: float, digits: int) -> str:
    """A time with its unit."""
    return f"{t:.{digits}f} s"
