"""A machine's motion for the slider of a report: its views at a few hundred instants, and the paths up to each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.plants.view import View
from servonode.views.scene import Scene
from servonode.views.shapes import Shapes, corners, is_seen, longest_arrow
from servonode.web.embedded import numbers
from servonode.web.view_data import decimals, lines_around, path_columns, shapes_data, view_layout

INSTANTS = 300  # at which the machine is drawn
BETWEEN = 4  # points of a path from one to the next


@dataclass(frozen=True)
class Motion:
    """The rows of a run at which its machine is drawn, and those of its paths, which hold them."""

    instants: list[int]
    rows: list[int]

    @classmethod
    def of(cls, t: Array) -> "Motion":
        """Spread evenly over time, both ends included."""
        if not len(t):
            return cls([], [])
        instants = _evenly(t, INSTANTS)
        return cls(instants, sorted({*instants, *_evenly(t, INSTANTS * BETWEEN)}))

    def as_data(self, t: Array) -> dict[str, Any]:
        """Their times, and how many points each path has at each instant."""
        ends = np.searchsorted(self.rows, self.instants, side="right")
        return {"instants": numbers(t[self.instants], "f8"), "ends": ends.tolist()}


def _evenly(t: Array, n: int) -> list[int]:
    found = np.searchsorted(t, np.linspace(t[0], t[-1], min(n, len(t))))
    return sorted({int(i) for i in np.minimum(found, len(t) - 1)} | {0, len(t) - 1})


def recorded_views(scene: Scene, motion: Motion, columns: Mapping[str, Array]) -> list[dict[str, Any]]:
    """Of each view what stays, the limits that hold for the whole run, and what is drawn at each instant.

    columns: states, inputs and outputs, and targets as `target_NAME`, of every row.
    """
    return [_recorded(view, scene, motion.instants, columns) for view in scene.views() if motion.instants]


def _recorded(view: View, scene: Scene, instants: Sequence[int], columns: Mapping[str, Array]) -> dict[str, Any]:
    shapes = [scene.shapes(i, view) for i in instants]
    layout = view_layout(view, list(scene.goals))
    drawn = [view.path(columns, tuple(names)) for names in path_columns(layout)]
    bounding = [line for each in shapes for line in each.bounding(view)]
    low, high = corners([*drawn, *bounding]) or (np.full(2, -1.0), np.full(2, 1.0))
    longest = longest_arrow(shapes)
    digits = decimals(float(max(high - low)))
    return {
        "layout": layout,
        "wanted": lines_around(scene.run.closed_loop, view, low, high),
        "limits": {"x": [float(low[0]), float(high[0])], "y": [float(low[1]), float(high[1])]},
        "largest": longest if is_seen(longest, scene.run.closed_loop.machine, columns, view.arrow_unit) else 0.0,
        "shapes": [shapes_data(Shapes.in_space(view, scene.instant(i)), digits) for i in instants],
    }


def paths(columns: Mapping[str, Array], views: Sequence[Mapping[str, Any]], motion: Motion) -> dict[str, str]:
    """The columns that the views' paths are drawn from, at the rows of the paths."""
    names = [name for view in views for pair in path_columns(view["layout"]) for name in pair]
    return {name: numbers(columns[name][motion.rows]) for name in dict.fromkeys(names)}
