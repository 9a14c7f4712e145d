"""The parts of an animation: a view of the machine, a panel of curves, a line of text.

A part draws its axis seldom and its artists often: the axis is kept as an image, and only what moves is drawn on it.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.mechanics.machine import Machine
from servonode.plants.view import View
from servonode.views.decimation import Decimation
from servonode.views.limits import FLAT
from servonode.views.palette import ARROWS, GOAL, GUIDE, INK, PALETTE
from servonode.views.panels import LEAST, PanelSpec
from servonode.views.scene import ROUNDING, Instant, usual
from servonode.views.static_views import UNSEEN, round_size
from servonode.views.symbols import mathtext
from servonode.views.titles import Head, readable

Array = npt.NDArray[np.float64]
Columns = Mapping[str, Array]
Box = tuple[float, float, float, float]  # left, bottom, width, height, in parts of the figure
PathsIn = Callable[[Array, Array], Mapping[str, Array]]  # of the corners of a region -> legend name -> path (n, 2)
TRAIL = 400  # points of a path at most
ROOM = 0.25  # of the extent, left free on each side when limits are set
FIXED_ROOM = 0.06  # the same where the limits are those of a whole run
AHEAD, BEHIND = 0.35, 0.15  # the same on the side where something left the limits before, and on the other
LOST = 0.4  # of the room that is used to the room there is, below which limits are set anew
GROWTH = 1.5  # of the size that an arrow of full length stands for to the largest one so far
LONGEST, LONGEST_IN_STRIP, LONGEST_IN_BROAD = (
    0.22,
    0.45,
    0.4,
)  # of an arrow of full length to the lesser side of its axis
BROAD = 3.0  # width over height of such an axis
ARROW_WIDTH = 0.012  # of its shaft to the lesser side
CAPTION = 0.75  # of the room below an axis, for the caption
NARROW = 3.5  # in; an axis narrower than this has smaller words
LETTERS = 16  # of small words in an inch
LABEL, LINE = 8, 0.155  # pt of labels and small words; in, the height of a line of them


class Part:
    """A rectangle of the figure with an axis in it and artists that are drawn anew for every frame."""

    def __init__(self, axis: Any) -> None:
        self.axis = axis
        self.artists: list[Any] = []
        self.stale = True  # the axis itself must be drawn anew
        self.renewed = True  # so must what does not depend on its limits
        self.moved = True  # the artists must be drawn anew
        self.fitted = False  # the limits were set by what is drawn
        self.fixing = False  # the limits are about to be those of a whole run
        self.fixed = False  # the limits stay as they are
        self.cell: Box = (0.0, 0.0, 1.0, 1.0)
        self._still: Any = None  # pixels without what depends on the limits
        self._background: Any = None  # pixels without what moves
        self.box: Any = None  # the pixels of what moves

    def move(self, cell: Box, inner: Box) -> None:
        """Place the part in this rectangle of the figure, its axis in the inner one."""
        self.cell, self.stale, self.renewed = cell, True, True
        if self.axis is not None:
            self.axis.set_position(inner)
            self.shaped()

    def shaped(self) -> None:
        """Adapt what depends on the axis's size after that has changed."""

    def remove(self) -> None:
        """Take it out of its figure for good."""
        if self.axis is not None:
            self.axis.remove()

    def animated(self, artist: Any) -> Any:
        """The artist, drawn for every frame from now on."""
        artist.set_animated(True)
        self.artists.append(artist)
        return artist

    def curve(self, **look: Any) -> Any:
        """A line of the axis, without points yet, drawn for every frame."""
        from servonode.views.agg_fast import Curve

        return self.animated(self.axis.add_line(Curve([], [], **look)))

    def rooms(self, below: bool, above: bool) -> tuple[float, float]:
        """Parts of the extent to be left free on the lower and the upper side, when something left the limits there."""
        if self.fixing:
            return FIXED_ROOM, FIXED_ROOM
        if not self.fitted or below == above:
            return ROOM, ROOM
        return (AHEAD, BEHIND) if below else (BEHIND, AHEAD)

    def scales(self) -> list[Any]:
        """The artists that change with the limits, and the artists above them."""
        return [self.axis.xaxis, self.axis.yaxis, *self.axis.spines.values()]

    def draw_background(self, figure: Any, ink: Any) -> None:
        """Draw the axis anew into its rectangle, and remember the pixels; of words only those that are new."""
        self.box = self.pixels(figure)
        if self.renewed:
            self._draw_still(figure, ink)
        if self.axis is not None:
            from servonode.views.agg_fast import Map

            ink.restore_region(self._still)
            for artist in self.scales():
                artist.draw(ink)
            ink.maps[self.axis] = Map.of(self.axis)
            self.box = _inside(figure, self.axis.bbox.padded(1.5).get_points())  # nothing that moves leaves the axis
        self._background = ink.copy_from_bbox(self.box)
        self.stale, self.moved = False, True

    def _draw_still(self, figure: Any, ink: Any) -> None:
        from matplotlib.patches import Rectangle

        box = self.pixels(figure)
        blank = Rectangle((box.x0, box.y0), box.width, box.height, facecolor=figure.get_facecolor(), lw=0)
        blank.set_figure(figure)
        blank.draw(ink)
        if self.axis is not None:
            scales = set(self.scales())
            for artist in sorted(self.axis.get_children(), key=lambda each: float(each.zorder)):
                if not artist.get_animated() and artist not in scales:
                    artist.draw(ink)
        self._still = ink.copy_from_bbox(box)
        self.renewed = False

    def draw(self, ink: Any) -> None:
        """Draw the artists onto the remembered pixels."""
        self.moved = False
        ink.restore_region(self._background)
        for artist in self.artists:
            artist.draw(ink)

    def pixels(self, figure: Any) -> Any:
        """The rectangle in whole pixels."""
        size = np.asarray(figure.bbox.size)
        left, bottom, width, height = self.cell
        return _inside(figure, np.array([[left, bottom], [left + width, bottom + height]]) * size)


def _inside(figure: Any, corners: Array) -> Any:
    """The box between two corners in whole pixels, as far as it is in the figure; without area in too small a one."""
    from matplotlib.transforms import Bbox

    low, high = np.clip(np.round(corners), 0, np.asarray(figure.bbox.size))
    return Bbox([low, np.maximum(low, high)])


class Words(Part):
    """A line of text that changes."""

    def __init__(self, figure: Any, x: float, **look: Any) -> None:
        from servonode.views.agg_fast import Phrase

        super().__init__(None)
        self._text = self.animated(figure.add_artist(Phrase(x, 0.0, "", va="center", **look)))

    def move(self, cell: Box, inner: Box) -> None:
        super().move(cell, inner)
        self._text.set_y(inner[1] + inner[3] / 2)
        if self._text.get_ha() == "center":
            self._text.set_x(inner[0] + inner[2] / 2)

    def remove(self) -> None:
        self._text.remove()

    def say(self, text: str, color: str) -> bool:
        """Set the text; whether it has changed."""
        if (text, color) == (self._text.get_text(), self._text.get_color()):
            return False
        self._text.set_text(text)
        self._text.set_color(color)
        self.moved = True
        return True


class PanelPart(Part):
    """Curves over time, the present at the right edge.

    span [s]: what is shown; the axis then counts from the present. None: the whole history on an axis of plant time.
    """

    def __init__(self, axis: Any, spec: PanelSpec, span: float | None) -> None:
        super().__init__(axis)
        self.spec, self._span = spec, span
        self._lines = [
            self.curve(color=color, label=name) for color, name in zip(cycle(PALETTE), spec.curves, strict=False)
        ]
        axis.set_autoscale_on(False)
        if spec.logarithmic:
            axis.set_yscale("log")
            axis.set_ylim(1e-3, 1.0)
            axis.minorticks_off()  # they cost more than all the rest of the axis
        else:
            axis.ticklabel_format(useOffset=False)
            axis.locator_params(axis="y", nbins=4)
        axis.set_xlim((-span, 0.0) if span else (0.0, 1.0))

    def scales(self) -> list[Any]:
        return super().scales()[1:] if self._span else super().scales()

    def head(self, width: float) -> Head:
        """What stands above an axis of this width [in]: the label in words, and the names of the curves."""
        names = [mathtext(name) for name in self.spec.curves] if len(self.spec.curves) > 1 else []
        return Head.of(self.spec.maths or self.spec.label, names, width)

    def shaped(self) -> None:
        self.head(self.axis.bbox.width / self.axis.figure.dpi).draw(self.axis, self._lines)

    def label_time(self) -> None:
        """Label the time axis."""
        self.axis.set_xlabel("time before now [s]" if self._span else "t [s]")

    def curves(self, columns: Columns) -> list[Array]:
        """The panel's columns, on a logarithmic axis their sizes; not a number where there is nothing to draw."""
        found = [columns[column] for column in self.spec.curves.values()]
        if not self.spec.logarithmic:
            return found
        sizes = [np.abs(values) for values in found]
        return [np.where(size > 0, size, np.nan) for size in sizes]

    def update(self, t: Array, columns: Columns, decimation: Decimation) -> None:
        """Update the lines with the history up to the present."""
        self.moved = True
        low, high = self.axis.get_ylim()
        pixel = (high - low) / max(self.axis.bbox.height, 1.0)
        found = [columns[column] for column in self.spec.curves.values()]
        thin = decimation.sizes if self.spec.logarithmic else partial(decimation.curve, pixel=pixel)
        shown = [thin(values) for values in found]
        for line, (times, values) in zip(self._lines, shown, strict=True):
            line.set_data(times - t[-1] if self._span else times, values)
        if not self.fixed:
            self._follow([values for _, values in shown])
            if not self._span:
                self._follow_time(t)

    def is_zero(self, columns: Columns) -> bool:
        """Whether all its curves are zero wherever they are known."""
        return not any(np.any(np.nan_to_num(columns[column])) for column in self.spec.curves.values())

    def fix(self, t: Array, columns: Columns) -> None:
        """Set the limits for a whole run; they stay."""
        self.fitted, self.fixing = False, True
        self._follow(self.curves(columns))
        if not self._span:
            self._limit_time(float(t[0]), float(t[-1]))
        self.fixed, self.fixing = True, False

    def _follow(self, curves: Sequence[Array]) -> None:
        """Set the limits anew where the curves leave them, or no longer use much of them."""
        low, high = bounds(curves)
        if not low <= high:
            return
        bottom, top = self.axis.get_ylim()
        if self.spec.logarithmic:
            wanted = _decades(low, high)
            low, share = max(low, wanted[0]), np.log10(wanted[1] / wanted[0]) / np.log10(top / bottom)
        else:
            wanted = _with_room(low, high, self.rooms(low < bottom, high > top))
            share = (wanted[1] - wanted[0]) / (top - bottom)
        if not (self.fitted and bottom <= low and high <= top and share >= LOST):
            self.axis.set_ylim(*wanted)
            self.stale = self.fitted = True

    def _follow_time(self, t: Array) -> None:
        left, right = self.axis.get_xlim()
        if not (left <= t[0] and t[-1] <= right):
            self._limit_time(float(t[0]), float(t[0] + 2 * (t[-1] - t[0])))

    def _limit_time(self, first: float, last: float) -> None:
        self.axis.set_xlim(first, last if last > first else first + 1.0)
        self.stale = True


@dataclass(frozen=True)
class _Drawn:
    """What a view draws at one instant."""

    guides: list[Array]
    lines: list[Array]
    arrows: Mapping[Any, Array]


class ViewPart(Part):
    """The machine in a plane, with its path, its target's and the wanted ones; or, for a strip, the machine alone at
    this instant.

    wanted: the paths that the program asks for, of the region that is shown.
    """

    def __init__(
        self, axis: Any, view: View, machine: Machine, goals: Sequence[str], wanted: PathsIn | None = None
    ) -> None:
        from servonode.views.agg_fast import Shapes, Strokes

        super().__init__(axis)
        self.view, self._machine = view, machine
        self._wanted_in = wanted
        self._region = np.zeros(2), np.ones(2)  # what the axis has to hold
        self._wanted: dict[str, Any] = {}  # lines by legend name, drawn with the axis: they change with its limits only
        self._goal = view.goal if view.goal and set(view.goal) <= set(goals) else None
        self._largest = 0.0  # an arrow of this size has full length
        self._names: list[str] = []  # of the arrows
        self._legend: list[Any] = []
        self._key: list[Any] = []
        axis.set_autoscale_on(False)
        axis.locator_params(nbins=5)
        axis.set_xlabel("" if view.strip else readable(view.axes[0]))
        axis.set_ylabel(readable(view.axes[1]))
        if view.strip:
            axis.tick_params(labelbottom=False)
        self._guides = self.animated(Strokes([], colors=GUIDE, linewidths=0.7, zorder=1))
        self._trails = [
            self.curve(color=color, label=label, linewidth=1.1)
            for color, label in zip(cycle(PALETTE), view.trails, strict=False)
        ]
        self._target = [
            self.curve(color=GOAL, **look)
            for look in (
                {"linewidth": 1.0, "linestyle": "--", "label": "target"},
                {"linewidth": 0.6},
                {"marker": "o", "markersize": 6, "linestyle": "none"},
            )
            if self._goal
        ]
        self._outline = self.animated(Strokes([], colors=INK, linewidths=1.4, zorder=3))
        self._dots = self.curve(marker="o", linestyle="none", color=INK, markersize=5)
        self._arrows = self.animated(Shapes([], closed=True, linewidths=0))
        for each in (self._guides, self._outline, self._arrows):
            axis.add_collection(each, autolim=False)
        # by itself, because a text costs more than the whole machine and need not change in every frame
        self.words = Words(axis.figure, 0.0, fontsize=9, ha="center", color=INK) if view.caption else None

    def move(self, cell: Box, inner: Box) -> None:
        """The caption stands below the axis, where a strip has no labels."""
        if self.words:
            x, y, width, height = cell
            below = (inner[1] - y) * CAPTION
            self.words.move((x, y, width, below), (inner[0], y, inner[2], below))
            cell = (x, y + below, width, height - below)
        super().move(cell, inner)

    def remove(self) -> None:
        super().remove()
        if self.words:
            self.words.remove()

    def scales(self) -> list[Any]:
        return [*self._wanted.values(), *super().scales(), *self._key]

    def look(self, view: View) -> None:
        """Draw another view from now on, of the same values with the same axes."""
        if view is not self.view:
            self.view = view
            self._entitle()

    def shaped(self) -> None:
        """Equal scales in both directions, and words that fit."""
        self._limit(*self._region)
        self._entitle()

    @property
    def extent(self) -> Array:
        """Width and height [m] of what the axis has to hold."""
        low, high = self._region
        return np.maximum(high - low, 1e-12)

    def update(self, columns: Columns, instant: Instant, decimation: Decimation, speak: bool) -> None:
        """Put the machine, its path and the target as they are now onto the artists; `speak`: the caption too."""
        self.moved = True
        drawn = self._draw_at(instant)
        trails = [decimation.path(*(columns[name] for name in pair)) for pair in self.view.trails.values()]
        goal = decimation.path(*(columns[f"target_{name}"] for name in self._goal)) if self._goal else []
        for strokes, lines in ((self._guides, drawn.guides), (self._outline, drawn.lines)):
            strokes.put([line for line in lines if len(line) > 1])
        dots = [line[0] for line in drawn.lines if len(line) == 1]
        self._dots.set_data(*(np.array(dots).T if dots else ([], [])))
        for line, path in zip(self._trails, trails, strict=True):
            line.set_data(*path)
        self._aim(goal, trails)
        if self.words and self.view.caption and speak:
            self.words.say(readable(instant.given(self.view.caption)), INK)
        if not self.fixed:
            self._follow([*trails, goal] if goal else trails, drawn)
            self._scale(drawn, columns)
        self._point(drawn)

    def fix(self, columns: Columns, instants: Sequence[Instant]) -> None:
        """Limits and scale of the arrows for the whole of a run, kept from now on."""
        trails: list[Any] = [[columns[name] for name in pair] for pair in self.view.trails.values()]
        goal: list[Any] = [[columns[f"target_{name}"] for name in self._goal]] if self._goal else []
        several = [self._draw_at(instant) for instant in instants]
        arrows = {(name, i): arrow for i, each in enumerate(several) for name, arrow in each.arrows.items()}
        lines = [line for each in several for line in each.lines]
        guides = [line for each in several for line in each.guides] if self.view.strip else []
        whole = _Drawn(guides, lines, arrows)
        self.fitted, self.fixing = False, True
        paths = [*trails, *goal]
        self._follow(paths + self._asked(paths), whole)
        self._scale(whole, columns)
        self._names = list(dict.fromkeys(name for (name, _), (_, vector) in arrows.items() if self._shows(vector)))
        self._entitle()
        self.fixed, self.fixing = True, False

    def forget(self) -> None:
        """Drop what was measured in another run: the size of the arrows."""
        self._largest, self._names = 0.0, []

    def _draw_at(self, instant: Instant) -> _Drawn:
        view = self.view
        return _Drawn(instant.lines(view.guides), instant.lines(view.outline), instant.arrows(view))

    def _asked(self, paths: Sequence[Sequence[Array]]) -> list[Any]:
        """The wanted paths (2, n) in the region of these paths."""
        (left, right), (bottom, top) = (bounds([path[i] for path in paths]) for i in (0, 1))
        if self._wanted_in is None or not (left <= right and bottom <= top):
            return []
        return [path.T for path in self._wanted_in(np.array([left, bottom]), np.array([right, top])).values()]

    def _want(self) -> None:
        """Draw the wanted paths as far as the limits go."""
        if self._wanted_in is None:
            return
        from matplotlib.lines import Line2D

        low, high = np.array([self.axis.get_xlim(), self.axis.get_ylim()]).T
        before = list(self._wanted)
        for name, path in self._wanted_in(low, high).items():
            if name not in self._wanted:
                look: Any = {"color": GOAL, "linewidth": 2.4, "linestyle": (0, (4, 2)), "alpha": 0.55, "label": name}
                self._wanted[name] = self.axis.add_line(Line2D([], [], **look))
            self._wanted[name].set_data(*path.T)
        if list(self._wanted) != before:
            self._entitle()

    def _aim(self, goal: Sequence[Array], trails: Sequence[Sequence[Array]]) -> None:
        """The target's path, the target, and the line from it to the machine."""
        if not goal:
            return
        now = [column[-1:] for column in goal]
        here = [column[-1:] for column in trails[0]] if trails else now
        for line, path in zip(
            self._target, (goal, [np.append(a, b) for a, b in zip(here, now, strict=True)], now), strict=True
        ):
            line.set_data(*path)

    def _follow(self, paths: Sequence[Sequence[Array]], drawn: _Drawn) -> None:
        """Set the limits anew where something leaves them, or much of their room is no longer used."""
        lines = [*drawn.lines, *(drawn.guides if self.view.strip else [])]
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
        if not inside or (used < LOST and extent > 1e-6):
            across_room, up_room = self.rooms(left < x0, right > x1), self.rooms(bottom < y0, top > y1)
            below, above = np.array([across_room, up_room]).T
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
        self._want()
        self.stale = True

    def _side(self) -> float:
        """The lesser side of the axis [m]."""
        (x0, x1), (y0, y1) = self.axis.get_xlim(), self.axis.get_ylim()
        return float(min(x1 - x0, y1 - y0))

    def _scale(self, drawn: _Drawn, columns: Columns) -> None:
        """Adapt the scale of the arrows to the largest one so far."""
        sizes = [float(np.hypot(*vector)) for _, vector in drawn.arrows.values()]
        largest = max((size for size in sizes if np.isfinite(size)), default=0.0)
        if largest <= self._largest or largest <= ROUNDING * usual(self._machine, columns, {self.view.arrow_unit}):
            return
        self._largest = GROWTH * largest
        self._entitle()

    def _point(self, drawn: _Drawn) -> None:
        """Update the arrows that are long enough to be visible."""
        scale = self._full() / self._largest if self._largest else 0.0
        shafts, width = [], ARROW_WIDTH * self._side()
        colors = []
        for name, (foot, vector) in drawn.arrows.items():
            if not self._shows(vector):
                continue
            if name not in self._names:
                self._names.append(name)
                self._entitle()
            shafts.append(arrow(foot, scale * vector, width))
            colors.append(self._color(name))
        self._arrows.put(shafts, colors)

    def _shows(self, vector: Array) -> bool:
        """Whether an arrow is long enough to be visible."""
        return bool(self._largest and UNSEEN * self._largest < np.hypot(*vector) < np.inf)

    def _full(self) -> float:
        """How long an arrow of the largest size is [m]."""
        (x0, x1), (y0, y1) = self.axis.get_xlim(), self.axis.get_ylim()
        broad = x1 - x0 > BROAD * (y1 - y0)
        return (LONGEST_IN_STRIP if self.view.strip else LONGEST_IN_BROAD if broad else LONGEST) * self._side()

    def _color(self, name: str) -> str:
        return ARROWS[self._names.index(name) % len(ARROWS)]

    def _entitle(self) -> None:
        """Title, legend and the scale of the arrows, above the axis."""
        axis, figure = self.axis, self.axis.figure
        width, height = axis.bbox.size / figure.dpi
        for each in (*self._legend, *self._key):
            each.remove()
        self._legend, self._key = [], []
        narrow = self._is_narrow()
        beside = (0.1 - (axis.bbox.x0 - self.cell[0] * figure.bbox.width) / figure.dpi) / width if narrow else 0.0
        axis.locator_params(axis="x", nbins=3 if narrow else 6)
        axis.yaxis.set_label_coords(-0.5 / width, 0.5)
        handles = [*self._trails, *self._target[:1], *self._wanted.values()] if not self.view.strip else []
        arrows = [(self._color(name), name) for name in self._names]
        handles += [_patch(color, self._wrapped(name) if narrow else name) for color, name in arrows]
        names = [readable(each.get_label()) for each in handles]
        if handles:
            place: Any = {"loc": "lower left", "bbox_to_anchor": (beside, 1 - 0.03 / height)}
            look: Any = {"fontsize": LABEL if narrow else LABEL + 0.5, "borderpad": 0, "handlelength": 1.2}
            look |= {"frameon": False, "borderaxespad": 0.1, "labelspacing": 0.2, "columnspacing": 1.0}
            self._legend = [axis.legend(handles, names, **look, **place, ncols=1 if narrow else len(names))]
        lines = sum(name.count("\n") + 1 for name in names) if narrow else bool(names)
        title = readable(self.view.title)
        title = self._wrapped(title) if narrow else title
        above = (0.05 + LINE * lines) / height
        axis.set_title(
            title, loc="left", fontsize=LABEL + (0.5 if narrow else 1), color=INK, x=beside, y=1 + above, pad=0
        )
        if self._largest and self._names:
            self._key = self._measure(height, narrow)
        self.stale = self.renewed = True

    def _is_narrow(self) -> bool:
        return bool(self.axis.bbox.width < NARROW * self.axis.figure.dpi)

    def _wrapped(self, text: str) -> str:
        """The text in lines that a narrow axis has room for, with what is beside it."""
        figure = self.axis.figure
        return textwrap.fill(text, max(int(LETTERS * self.cell[2] * figure.bbox.width / figure.dpi) - 3, 8))

    def _measure(self, height: float, narrow: bool) -> list[Any]:
        """A line as long as an arrow of a round size, with that size."""
        known = round_size(0.7 * self._largest)
        share = known / self._largest * self._full() / float(np.ptp(self.axis.get_xlim()))
        look: Any = {"transform": self.axis.transAxes, "clip_on": False, "color": INK}
        at, right = (1 - 0.25 / height, 0.98) if narrow else (1 + 0.3 / height, 1.0)  # inside, or above the axis
        (line,) = self.axis.plot([right - share, right], [at, at], linewidth=2.0, **look)
        text = f"{known:g} {self.view.arrow_unit}"
        return [
            line,
            self.axis.text(right, at + 0.04 / height, text, fontsize=LABEL if narrow else 8.5, ha="right", **look),
        ]


def _decades(low: float, high: float) -> tuple[float, float]:
    """Whole powers of ten around what is worth showing of two sizes."""
    bottom, top = np.floor(np.log10(max(low, LEAST * high))), np.ceil(np.log10(high))
    return float(10.0**bottom), float(10.0 ** max(top, bottom + 1))


def _with_room(low: float, high: float, rooms: tuple[float, float]) -> tuple[float, float]:
    """Limits with these parts of the extent on both sides; a constant stands in the middle."""
    size = max(abs(low), abs(high))
    if not high - low > FLAT * size:
        return low - (0.1 * size or 1.0), high + (0.1 * size or 1.0)
    return low - rooms[0] * (high - low), high + rooms[1] * (high - low)


def bounds(curves: Sequence[Array]) -> tuple[float, float]:
    """The least and the greatest finite value; (inf, -inf) without any."""
    values = np.concatenate(curves) if curves else np.zeros(0)
    low, high = np.fmin.reduce(values, initial=np.inf), np.fmax.reduce(values, initial=-np.inf)
    if not -np.inf < low <= high < np.inf:
        values = values[np.isfinite(values)]
        low, high = np.min(values, initial=np.inf), np.max(values, initial=-np.inf)
    return float(low), float(high)


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


def _patch(color: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=color, label=label)
