"""A view of the machine that moves: outline and arrows at the present, its path, the target's and the wanted ones."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.view import View
from servonode.views.animated_axes import FIXED_ROOM, Box, Columns, Part, TextPart, bounds
from servonode.views.curves import Decimation
from servonode.views.forbidden import WORD, Forbidden, shade, shaded
from servonode.views.palette import ARROWS, BODY, FORBIDDEN, GOAL, GUIDE, INK, PALETTE
from servonode.views.scene import KEY_GAP
from servonode.views.shapes import LONGEST, LONGEST_IN_STRIP, USED, ArrowScale, Instant, Shapes, is_closed, round_size
from servonode.views.titles import KEY, SIZE, Head, readable, text_width

PathsIn = Callable[[Array, Array], Mapping[str, Array]]  # of the corners of a region -> legend name -> path (n, 2)
TRAIL = 400  # points of a path at most
LONGEST_IN_BROAD, BROAD = 0.4, 3.0  # LONGEST where an axis is broad, and the width over height from which it is
ARROW_WIDTH = 0.012  # of its shaft to the lesser side
CAPTION = 0.75  # of the room below an axis, for the caption
NARROW = 3.5  # in; the words of an axis narrower than this stand above its labels too
TARGET = (  # its path, the line from the machine to it, and itself
    {"linewidth": 1.0, "linestyle": "--", "label": "target"},
    {"linewidth": 0.6},
    {"marker": "o", "markersize": 6, "linestyle": "none"},
)


class ViewPart(Part):
    """The machine in a plane, with its path, its target's and the wanted ones; or, for a strip, the machine alone at
    this instant.

    wanted: the paths that the program asks for, of the region that is shown. Its attributes are mostly the artists of
    matplotlib, one for each kind of thing that is drawn.
    """

    def __init__(self, axis: Any, closed_loop: ClosedLoop, view: View, wanted: PathsIn) -> None:
        from matplotlib.collections import LineCollection, PolyCollection

        super().__init__(axis)
        self.view, self._scale = view, ArrowScale(view, closed_loop.machine)
        self._wanted_in, self._forbidden, self._t = wanted, Forbidden(closed_loop, view), 0.0
        self._region = np.zeros(2), np.ones(2)  # what the axis has to hold
        self._wanted: dict[str, Any] = {}  # lines by legend name, drawn with the axis: they change with its limits only
        self._goal = view.goal if view.goal and set(view.goal) <= set(closed_loop.targets.names) else None
        self._names: list[str] = []  # of the arrows
        self._key: list[Any] = []
        axis.set_autoscale_on(False)
        axis.locator_params(nbins=5)
        axis.set_xlabel("" if view.strip else readable(view.axes[0]))
        axis.set_ylabel(readable(view.axes[1]))
        if view.strip:
            axis.tick_params(labelbottom=False)
        self._areas = self.animated(shaded(axis, view))
        self._guides = self.animated(LineCollection([], colors=GUIDE, linewidths=0.7, zorder=1))
        self._trails = [
            self.curve(color=color, label=label, linewidth=1.1)
            for color, label in zip(cycle(PALETTE), view.trails, strict=False)
        ]
        self._target = [self.curve(color=GOAL, **look) for look in TARGET if self._goal]
        self._outline = self.animated(LineCollection([], colors=INK, linewidths=1.4, zorder=3))
        self._dots = self.curve(marker="o", linestyle="none", color=INK, markersize=5, zorder=3)
        self._arrows = self.animated(PolyCollection([], closed=True, linewidths=0, zorder=4))
        for each in (self._guides, self._outline, self._arrows):
            axis.add_collection(each, autolim=False)
        # a part of its own, because a text costs more than the whole machine and need not change in every frame
        self.caption = TextPart(axis.figure, 0.0, fontsize=9, ha="center", color=INK) if view.caption else None

    def move(self, cell: Box, inner: Box) -> None:
        """The caption stands below the axis, where a strip has no labels."""
        if self.caption:
            x, y, width, height = cell
            below = (inner[1] - y) * CAPTION
            self.caption.move((x, y, width, below), (inner[0], y, inner[2], below))
            cell = (x, y + below, width, height - below)
        super().move(cell, inner)

    def remove(self) -> None:
        super().remove()
        if self.caption:
            self.caption.remove()

    def set_view(self, view: View) -> None:
        """Draw another view from now on, of the same values with the same axes."""
        if view is not self.view:
            self.view = view
            self._entitle()

    def fit_words(self) -> None:
        """Equal scales in both directions, and words that fit."""
        self._limit(*self._region)
        self._entitle()

    @property
    def extent(self) -> Array:
        """Width and height [m] of what the axis has to hold."""
        low, high = self._region
        return np.maximum(high - low, 1e-12)

    def update(self, columns: Columns, instant: Instant, decimation: Decimation, update_caption: bool) -> None:
        """Put the machine, its path and the target as they are now onto the artists."""
        shapes, self._t = Shapes.of(self.view, instant), instant.values["t"]
        if self._forbidden.moves:
            self._shade()
        trails = [self._path(columns, pair, decimation) for pair in self.view.trails.values()]
        goal = self._path(columns, self._target_names, decimation) if self._goal else []
        self._guides.set_segments([line for line in shapes.thin if len(line) > 1])
        lines = [line for line in shapes.lines if len(line) > 1]
        self._outline.set_segments(lines)
        self._outline.set_facecolor([BODY if is_closed(line) else "none" for line in lines])
        dots = [line[0] for line in shapes.lines if len(line) == 1]
        self._dots.set_data(*(np.array(dots).T if dots else ([], [])))
        for line, path in zip(self._trails, trails, strict=True):
            line.set_data(*path)
        if goal:
            self._draw_target(goal, trails)
        if self.caption and update_caption:
            self.caption.set_text(shapes.caption)
        if not self.fixed:
            self._follow([*trails, goal] if goal else trails, shapes.bounding(self.view))
            if self._scale.follow([shapes], columns):
                self._entitle()
        self._draw_arrows(shapes.arrows)

    def fix(self, columns: Columns, instants: Sequence[Instant]) -> None:
        """Limits and scale of the arrows for the whole of a run, kept from now on."""
        names = [*self.view.trails.values(), *([self._target_names] if self._goal else [])]
        paths: list[Any] = [list(self.view.path(columns, each).T) for each in names]
        shapes = [Shapes.of(self.view, instant) for instant in instants]
        self.fitted, self.fixed = False, True
        lines = [line for each in shapes for line in each.bounding(self.view)]
        self._follow(paths + self._wanted_near(paths), lines, ((FIXED_ROOM, FIXED_ROOM),) * 2)
        self._scale.follow(shapes, columns)
        arrows = [(name, vector) for each in shapes for name, (_, vector) in each.arrows.items()]
        self._names = list(dict.fromkeys(name for name, vector in arrows if self._scale.shows(vector)))
        self._entitle()

    def _path(self, columns: Columns, names: tuple[str, ...], decimation: Decimation) -> list[Array]:
        """Across and up of the path of these values."""
        return list(self.view.flat(np.column_stack(decimation.path(*(columns[name] for name in names)))).T)

    @property
    def _target_names(self) -> tuple[str, ...]:
        return tuple(f"target_{name}" for name in self._goal or ())

    def clear_scale(self) -> None:
        """Drop what was measured in another run: the size of the arrows."""
        self._scale.largest, self._names = 0.0, []

    def _wanted_near(self, paths: Sequence[Sequence[Array]]) -> list[Any]:
        """The wanted paths (2, n) in the region of these paths."""
        (left, right), (bottom, top) = (bounds([path[i] for path in paths]) for i in (0, 1))
        if not (left <= right and bottom <= top):
            return []
        return [path.T for path in self._wanted_in(np.array([left, bottom]), np.array([right, top])).values()]

    def _draw_wanted(self) -> None:
        """Draw the wanted paths as far as the limits go."""
        from matplotlib.lines import Line2D

        low, high = np.array([self.axis.get_xlim(), self.axis.get_ylim()]).T
        before = list(self._wanted)
        for name, path in self._wanted_in(low, high).items():
            if name not in self._wanted:
                look: Any = {"color": GOAL, "linewidth": 2.4, "linestyle": (0, (4, 2)), "alpha": 0.55, "label": name}
                self._wanted[name] = self.axis.add_line(Line2D([], [], **look))
            self._wanted[name].set_data(*path.T)
            self._wanted[name].set_marker("x" if len(path) == 1 else "None")
        if list(self._wanted) != before:
            self._entitle()

    def _draw_target(self, goal: Sequence[Array], trails: Sequence[Sequence[Array]]) -> None:
        now = [column[-1:] for column in goal]
        here = [column[-1:] for column in trails[0]] if trails else now
        between = [np.append(a, b) for a, b in zip(here, now, strict=True)]
        for line, path in zip(self._target, (goal, between, now), strict=True):
            line.set_data(*path)

    def _follow(
        self,
        paths: Sequence[Sequence[Array]],
        lines: Sequence[Array],
        rooms: Sequence[tuple[float, float]] | None = None,
    ) -> None:
        """Set the limits anew where something leaves them, or much of their room is no longer used.

        rooms: parts of the extent to be left free on both sides, across and up; absent: by where something left them.
        """
        across = [*(path[0] for path in paths), *(line[:, 0] for line in lines)]
        up = [*(path[1] for path in paths), *(line[:, 1] for line in lines)]
        (left, right), (bottom, top) = bounds(across), bounds(up)
        if not (left <= right and bottom <= top):
            return
        low, high = np.array([left, bottom]), np.array([right, top])
        extent = float(np.max(high - low)) or 1.0
        (x0, x1), (y0, y1) = self.axis.get_xlim(), self.axis.get_ylim()
        inside = x0 <= left and right <= x1 and y0 <= bottom and top <= y1
        used = np.max((high - low) / [x1 - x0, y1 - y0])
        if not inside or (used < USED and extent > 1e-6):
            rooms = rooms or (self.rooms(left < x0, right > x1), self.rooms(bottom < y0, top > y1))
            below, above = np.array(rooms).T
            self._limit(low - below * extent, high + above * extent)
            self.fitted = True

    def _limit(self, low: Array, high: Array) -> None:
        """Limits that hold at least this, at one scale in both directions."""
        self._region = low, high
        box = self.axis.bbox
        sides = np.array([max(box.width, 1.0), max(box.height, 1.0)])
        half = 0.5 * sides * np.max((high - low) / sides)
        middle = 0.5 * (low + high)
        self.axis.set_xlim(middle[0] - half[0], middle[0] + half[0])
        self.axis.set_ylim(middle[1] - half[1], middle[1] + half[1])
        self._draw_wanted()
        self._shade()
        self.stale = True

    def _shade(self) -> None:
        """Show where the law keeps the machine out, as far as the limits go."""
        low, high = np.array([self.axis.get_xlim(), self.axis.get_ylim()]).T
        shade(self._areas, self.view, self._forbidden.areas(self._t, low, high))

    def _side(self) -> float:
        """The lesser side of the axis [m]."""
        (x0, x1), (y0, y1) = self.axis.get_xlim(), self.axis.get_ylim()
        return float(min(x1 - x0, y1 - y0))

    def _draw_arrows(self, arrows: Mapping[str, Array]) -> None:
        """Draw the arrows that are long enough to be visible."""
        seen = {name: each for name, each in arrows.items() if self._scale.shows(each[1])}
        fresh = [name for name in seen if name not in self._names]
        if fresh:
            self._names += fresh
            self._entitle()
        scale = self._full() / self._scale.largest if seen else 0.0
        width = ARROW_WIDTH * self._side()
        self._arrows.set_verts([arrow(foot, scale * vector, width) for foot, vector in seen.values()])
        self._arrows.set_facecolor([self._color(name) for name in seen])

    def _full(self) -> float:
        """How long an arrow of the largest size is [m]."""
        (x0, x1), (y0, y1) = self.axis.get_xlim(), self.axis.get_ylim()
        broad = x1 - x0 > BROAD * (y1 - y0)
        return (LONGEST_IN_STRIP if self.view.strip else LONGEST_IN_BROAD if broad else LONGEST) * self._side()

    def _color(self, name: str) -> str:
        return ARROWS[self._names.index(name) % len(ARROWS)]

    def _entitle(self) -> None:
        """Title, legend and the scale of the arrows, above the axis; a narrow one has the last within it."""
        from matplotlib.lines import Line2D

        axis = self.axis
        width, height = axis.bbox.size / axis.figure.dpi
        narrow = width < NARROW
        left = axis.bbox.x0 / axis.figure.dpi - self.cell[0] * axis.figure.get_figwidth() - 0.1 if narrow else 0.0
        axis.locator_params(axis="x", nbins=3 if narrow else 6)
        axis.yaxis.set_label_coords(-0.5 / width, 0.5)
        for each in (*self._key, *filter(None, [axis.get_legend()])):
            each.remove()
        handles = [*self._trails, *self._target[:1], *self._wanted.values()] if not self.view.strip else []
        if self._forbidden:
            handles.append(Line2D([], [], color=FORBIDDEN, linewidth=5.0, solid_capstyle="butt", label=WORD))
        names = [*(each.get_label() for each in handles), *self._names]
        handles += [Line2D([], [], color=self._color(name), linewidth=2.0) for name in self._names]
        share, text = self._measure() if self._scale.largest and self._names else (0.0, "")
        room = share * width + text_width(text) + KEY_GAP + 0.25 if text and not narrow else 0.0
        head = Head.of(self.view.title, names, width + left, room)
        head.draw(axis, handles, room, left)
        at, end = (head.height - KEY if room else -0.15) / height + 1, 1 - (text_width(text) + KEY_GAP) / width
        look: Any = {"transform": axis.transAxes, "clip_on": False, "color": INK}
        self._key = axis.plot([end - share, end], [at, at], linewidth=2.0, **look) if text else []
        self._key += [axis.text(1.0, at, text, fontsize=SIZE, ha="right", va="center", **look)] if text else []
        self.stale = True

    def _measure(self) -> tuple[float, str]:
        """How long an arrow of a round size is, in parts of the axis's width, and that size."""
        known = round_size(0.7 * self._scale.largest)
        share = known / self._scale.largest * self._full() / float(np.ptp(self.axis.get_xlim()))
        return share, f"{known:g} {self.view.arrow_unit}"


def arrow(foot: Array, vector: Array, width: float) -> Array:
    """The outline (7, 2) of an arrow: a shaft of this width, a head three times as wide."""
    length = float(np.hypot(*vector))
    along = vector / length
    across = np.array([-along[1], along[0]]) * width / 2
    head = min(4.5 * width, length)
    neck, tip = foot + (length - head) * along, foot + vector
    return np.array(
        [foot + across, neck + across, neck + 3 * across, tip, neck - 3 * across, neck - across, foot - across]
    )
