"""Where the views and panels of an animation stand in its figure."""

import math
from dataclasses import dataclass

from servonode.views.animated_axes import Box

HEADER, FOOTER, NO_FOOTER = 0.42, 0.26, 0.06  # in; the lines above and below
VIEW_EDGES = (0.72, 0.12, 0.48, 0.46)  # in; left, right, below, above the axis of the first view
UNTITLED = 0.2  # in; less above it where it has no title
NEXT_EDGES = (0.72, 0.1, 0.42, 0.68)  # in; of the others, whose words may take several lines
PANEL_EDGES = (0.7, 0.2, 0.07, 0.02)  # in; of a panel, whose head stands above it
TIME = 0.4  # in; below the last panel, for the time
SHARE = 0.57  # of the width for the views beside panels
FIRST = 0.58  # of the height for the first of several views
BROAD, FLATTEST = 0.5, 0.28  # of the height for a view across the whole width, at most and at least
LOW, SLIM = 0.95, 2.1  # in; panels below such a view are rather in more columns than lower, but not slimmer
COLUMN = 7  # panels above each other at most
Edges = tuple[float, float, float, float]  # in; left, right, below, above


@dataclass(frozen=True)
class Layout:
    """Where views and panels stand in a figure of this width and height [in].

    bottom: what is kept free for a footer. titled: whether the first view has a title. broad: of the height for the
    first view across the whole width; None: it stands beside the panels.
    """

    width: float
    height: float
    views: int
    panels: int
    bottom: float
    titled: bool
    broad: float | None

    @property
    def columns(self) -> list[int]:
        """How many panels stand above each other in each column."""
        n = self.panels
        if self.broad is not None:
            most = max(int((self.width - self._left) / SLIM), 1)
            n_columns = min(math.ceil(n / max(int((self._below - TIME) / LOW), 1)), most)
        else:
            n_columns = 2 if n > (COLUMN if self.views else 1) else 1
        counts = [n // n_columns + (i < n % n_columns) for i in range(n_columns)] if n else []
        return [count for count in counts if count]

    def places(self) -> list[tuple[Box, Edges]]:
        """The cell [in] of every view and every panel, with the room [in] around its axis."""
        return [*self._first_view(), *self._other_views(), *self._panel_places()]

    @property
    def _all(self) -> float:
        return self.height - HEADER - self.bottom

    @property
    def _below(self) -> float:
        """The height of what stands below the first view."""
        share = self.broad if self.broad is not None else 1.0 if self.views == 1 else FIRST
        return self._all * (1 - share)

    @property
    def _left(self) -> float:
        """The width of the views that stand beside panels."""
        if not self.views or (self.broad is not None and self.views == 1):
            return 0.0
        if self.broad is not None:
            return self.width * 0.46
        return self.width * (1.0 if not self.panels else SHARE if self.panels <= COLUMN else 0.45)

    def _first_view(self) -> list[tuple[Box, Edges]]:
        if not self.views:
            return []
        above = VIEW_EDGES[3] - (0.0 if self.titled else UNTITLED)
        width = self._left if self.broad is None else self.width
        cell = (0.0, self.bottom + self._below, width, self._all - self._below)
        return [(cell, (*VIEW_EDGES[:3], above))]

    def _other_views(self) -> list[tuple[Box, Edges]]:
        rest = self.views - 1
        return [((i * self._left / rest, self.bottom, self._left / rest, self._below), NEXT_EDGES) for i in range(rest)]

    def _panel_places(self) -> list[tuple[Box, Edges]]:
        columns = self.columns
        top = self.bottom + (self._all if self.broad is None else self._below)
        across, places = (self.width - self._left) / max(len(columns), 1), []
        for column, n in enumerate(columns):
            each = (top - self.bottom - TIME) / n
            for row in range(n):
                time = TIME if row == n - 1 else 0.0
                cell = (self._left + column * across, top - (row + 1) * each - time, across, each + time)
                places.append((cell, (*PANEL_EDGES[:2], PANEL_EDGES[2] + time, PANEL_EDGES[3])))
        return places


def within(cell: Box, edges: Edges) -> Box:
    """The axis's rectangle in its cell [in], never without area."""
    x, y, width, height = cell
    left, right, below, above = edges
    return (x + left, y + below, max(width - left - right, 0.1), max(height - below - above, 0.1))


def share(box: Box, width: float, height: float) -> Box:
    return (box[0] / width, box[1] / height, box[2] / width, box[3] / height)
