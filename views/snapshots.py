"""Which instants of a run are shown: spread over time, with a fault, and outlines that do not cover each other."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.plants.view import View
from servonode.views.scene import Scene

Array = npt.NDArray[np.float64]
SIDE_BY_SIDE = (7, 8, 6)  # snapshots of strips; the first number of which most are apart in a plane
MOST, FEWEST = 9, 4  # of a plane without strips


def spread(scene: Scene, count: int) -> Scene:
    """The scene at `count` instants that are spread evenly over time, both ends included; a fault is one too."""
    instants = {int(i) for i in np.linspace(0, len(scene.run.t) - 1, count)}
    return replace(scene, instants=sorted(instants | scene.fault))


def side_by_side(scene: Scene, planes: Sequence[View]) -> Scene:
    """The scene at the instants of its strips: not at the same place of a motion that comes again and again."""
    tried = [spread(scene, count) for count in SIDE_BY_SIDE]
    return max(tried, key=lambda each: sum(len(apart(each, view)) for view in planes[:1]))


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
        bodies = _bodies(scene.lines(i, view.outline))
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
