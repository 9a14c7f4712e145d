"""The paths that a program asks for, as polylines for the JavaScript that draws them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.view import View
from servonode.views.shapes import Shapes, corners
from servonode.views.wanted import wanted_in_space
from servonode.web.view_data import decimals, path_columns, view_layout

NEEDED, ASKED = 1.0, 2.0  # of the extent, beyond what is drawn on each side: at least, and when it is asked for
SPARE = 4.0  # times what is asked for, above which it is asked for anew: a line has few points in a large region

Line = dict[str, Any]  # {"name": legend name, "points": [[x, y], ...], or [[x, y, z], ...] in space}


def lines_around(closed_loop: ClosedLoop, view: View, low: Array, high: Array) -> list[Line]:
    """The wanted paths of a view, with room around the corners (2,) [m] of what is drawn; none that is not seen."""
    extent = _extent(low, high)
    paths = wanted_in_space(closed_loop, view, low - ASKED * extent, high + ASKED * extent)
    near = (low - NEEDED * extent, high + NEEDED * extent)
    return [
        {"name": name, "points": np.round(line, decimals(extent)).tolist()}
        for name, line in paths.items()
        if _meets(view.flat(line), *near)
    ]


def _extent(low: Array, high: Array) -> float:
    return float(np.max(high - low)) or 1.0


def _meets(line: Array, low: Array, high: Array) -> bool:
    """Whether a polyline has a part in the box, to judge by its corners and the middles between them."""
    points = np.concatenate([line, (line[1:] + line[:-1]) / 2]) if len(line) else line
    return bool(((points >= low) & (points <= high)).all(axis=1).any())


class LiveLines:
    """The wanted paths of one view of a run that continues, of the region that it shows."""

    def __init__(self, closed_loop: ClosedLoop, view: View) -> None:
        self._closed_loop, self._view = closed_loop, view
        self._columns = [tuple(each) for each in path_columns(view_layout(view, closed_loop.targets.names))]
        self._low = self._high = np.full(2, np.nan)  # of the box that was asked for
        self.lines: list[Line] = []

    def follow(self, columns: Mapping[str, Array], shapes: Shapes) -> bool:
        """Ask anew where what is drawn, paths of these columns and an outline [m], needs it; whether lines changed."""
        if self._view.paths is None:
            return False
        box = corners([*(self._view.path(columns, names) for names in self._columns), *shapes.lines])
        if box is None or self._suffices(*box):
            return False
        before, extent = self.lines, _extent(*box)
        self._low, self._high = box[0] - ASKED * extent, box[1] + ASKED * extent
        self.lines = lines_around(self._closed_loop, self._view, *box)
        return self.lines != before

    def _suffices(self, low: Array, high: Array) -> bool:
        extent = _extent(low, high)
        inside = (self._low <= low - NEEDED * extent).all() and (high + NEEDED * extent <= self._high).all()
        return bool(inside and _extent(self._low, self._high) <= SPARE * (1 + 2 * ASKED) * extent)
