"""The parts of an animation that are not a view: a line of text, a panel of curves over time, and what all parts share.

A part draws its axis seldom and its artists often: axes are kept as pixels, and what moves is drawn on them.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.views.acts import WORDS, Acts, handles, lifted, strip_of
from servonode.views.curves import Decimation
from servonode.views.limits import FLAT
from servonode.views.palette import FORBIDDEN, GOAL, INK, PALETTE
from servonode.views.panel_specs import PanelSpec
from servonode.views.panels import GOAL_DASHES, LEAST
from servonode.views.shapes import USED
from servonode.views.symbols import mathtext
from servonode.views.titles import Head

Columns = Mapping[str, Array]
Box = tuple[float, float, float, float]  # left, bottom, width, height, in parts of the figure
ROOM = 0.25  # of the extent, left free on each side when limits are set
FIXED_ROOM = 0.06  # the same where the limits are those of a whole run
AHEAD, BEHIND = 0.35, 0.15  # the same on the side where something left the limits before, and on the other


class Part:
    """A rectangle of the figure with an axis in it and artists that are drawn anew for every frame."""

    def __init__(self, axis: Any) -> None:
        self.axis = axis
        self.artists: list[Any] = []
        self.cell: Box = (0.0, 0.0, 1.0, 1.0)
        self.stale = True  # the axis itself must be drawn anew
        self.fitted = False  # the limits were set by what is drawn
        self.fixed = False  # the limits are those of a whole run, and stay

    def move(self, cell: Box, inner: Box) -> None:
        """Place the part in this rectangle of the figure, its axis in the inner one."""
        self.cell, self.stale = cell, True
        if self.axis is not None:
            self.axis.set_position(inner)
            self.fit_words()

    def fit_words(self) -> None:
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
        from matplotlib.lines import Line2D

        return self.animated(self.axis.add_line(Line2D([], [], **look)))

    def rooms(self, below: bool, above: bool) -> tuple[float, float]:
        """Parts of the extent to be left free on the lower and the upper side, when something left the limits there."""
        if not self.fitted or below == above:
            return ROOM, ROOM
        return (AHEAD, BEHIND) if below else (BEHIND, AHEAD)

    def draw_axis(self, figure: Any, renderer: Any) -> None:
        """Draw the axis anew into its rectangle, which is one of whole pixels."""
        from matplotlib.patches import Rectangle

        size = np.asarray(figure.bbox.size)
        left, bottom, width, height = self.cell
        low, high = np.round(np.array([[left, bottom], [left + width, bottom + height]]) * size)
        blank = Rectangle(tuple(low), *(high - low), facecolor=figure.get_facecolor(), lw=0)
        blank.set_figure(figure)
        blank.draw(renderer)
        if self.axis is not None:
            self.axis.draw(renderer)
        self.stale = False


class TextPart(Part):
    """A line of text that changes."""

    def __init__(self, figure: Any, x: float, **look: Any) -> None:
        from matplotlib.text import Text

        super().__init__(None)
        self._text = self.animated(figure.add_artist(Text(x, 0.0, "", va="center", parse_math=False, **look)))

    def move(self, cell: Box, inner: Box) -> None:
        super().move(cell, inner)
        self._text.set_y(inner[1] + inner[3] / 2)
        if self._text.get_ha() == "center":
            self._text.set_x(inner[0] + inner[2] / 2)

    def remove(self) -> None:
        self._text.remove()

    @property
    def text(self) -> str:
        """What it says."""
        return str(self._text.get_text())

    def set_text(self, text: str, color: str = INK) -> bool:
        """Set the text; whether it has changed."""
        if (text, color) == (self._text.get_text(), self._text.get_color()):
            return False
        self._text.set(text=text, color=color)
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
        look: dict[str, Any] = {"color": GOAL, "linewidth": 1.0, "linestyle": GOAL_DASHES, "label": "goal"}
        self._lines += [self.curve(**look) for _ in spec.goals]
        self._columns = [*spec.curves.values(), *spec.goals.values()]
        if spec.active:
            axis.axhline(0.0, color=INK, linewidth=0.7)
            self._below = axis.axhspan(0.0, 0.0, color=FORBIDDEN, linewidth=0, zorder=0.5)
            self._strip = self.animated(strip_of(axis))
        axis.set_autoscale_on(False)
        if spec.logarithmic:
            axis.set_yscale("log")
            axis.set_ylim(1e-3, 1.0)
            axis.minorticks_off()  # they cost more than all the rest of the axis
        else:
            axis.ticklabel_format(useOffset=False)
            axis.locator_params(axis="y", nbins=4)
        axis.set_xlim((-span, 0.0) if span else (0.0, 1.0))

    def head(self, width: float) -> Head:
        """What stands above an axis of this width [in]: the label in words, and the names of the curves."""
        names = [mathtext(name) for name in self.spec.curves] if len(self._lines) > 1 else []
        names += ["goal"] if self.spec.goals else []
        title = self.spec.maths or self.spec.label
        if not self.spec.active:
            return Head.of(title, names, width)
        return lifted(Head.of(title, [*names, *WORDS], width), len(self.spec.active))

    def fit_words(self) -> None:
        lines = self._lines[: len(self.spec.curves) + 1]
        if self.spec.active:
            lines = [*(lines if len(lines) > 1 else []), *handles([*WORDS])]
        self.head(self.axis.bbox.width / self.axis.figure.dpi).draw(self.axis, lines)

    def update(self, t: Array, columns: Columns, decimation: Decimation) -> None:
        """Update the lines with the history up to the present."""
        low, high = self.axis.get_ylim()
        pixel = (high - low) / max(self.axis.bbox.height, 1.0)
        found = [columns[column] for column in self._columns]
        thin = decimation.sizes if self.spec.logarithmic else partial(decimation.curve, pixel=pixel)
        shown = [thin(values) for values in found]
        if self.spec.active:  # known at control instants alone
            shown = [(times[known], values[known]) for times, values in shown for known in [np.isfinite(values)]]
        for line, (times, values) in zip(self._lines, shown, strict=True):
            line.set_data(times - t[-1] if self._span else times, values)
        if self.spec.active:
            acts = Acts({name: columns[each] for name, each in self.spec.active.items()}, columns["keeping"])
            height = self.axis.bbox.height / self.axis.figure.dpi
            corners, colours = acts.bars(t - t[-1] if self._span else t, height)
            self._strip.set(verts=corners, facecolor=colours)
        if not self.fixed:
            self._follow([values for _, values in shown])
            if not self._span:
                self._follow_time(t)

    def is_zero(self, columns: Columns) -> bool:
        """Whether all its curves are zero wherever they are known."""
        return not any(np.any(np.nan_to_num(columns[column])) for column in self._columns)

    def fix(self, t: Array, columns: Columns) -> None:
        """Set the limits for a whole run; they stay."""
        self.fitted, self.fixed = False, True
        shown = [columns[column] for column in self._columns]
        if self.spec.logarithmic:
            shown = [np.where(np.abs(values) > 0, np.abs(values), np.nan) for values in shown]
        self._follow(shown, (FIXED_ROOM, FIXED_ROOM))
        if not self._span:
            self._limit_time(float(t[0]), float(t[-1]))

    def _follow(self, curves: Sequence[Array], rooms: tuple[float, float] | None = None) -> None:
        """Set the limits anew where the curves leave them, or no longer use much of them."""
        low, high = bounds([*curves, np.zeros(1)] if self.spec.active else curves)
        if not low <= high:
            return
        bottom, top = self.axis.get_ylim()
        if self.spec.logarithmic:
            wanted = _decades(low, high)
            low, share = max(low, wanted[0]), np.log10(wanted[1] / wanted[0]) / np.log10(top / bottom)
        else:
            wanted = _with_room(low, high, rooms or self.rooms(low < bottom, high > top))
            share = (wanted[1] - wanted[0]) / (top - bottom)
        if not (self.fitted and bottom <= low and high <= top and share >= USED):
            self.axis.set_ylim(*wanted)
            if self.spec.active:
                self._below.set(y=wanted[0], height=max(-wanted[0], 0.0))
            self.stale = self.fitted = True

    def _follow_time(self, t: Array) -> None:
        left, right = self.axis.get_xlim()
        if not (left <= t[0] and t[-1] <= right):
            self._limit_time(float(t[0]), float(t[0] + 2 * (t[-1] - t[0])))

    def _limit_time(self, first: float, last: float) -> None:
        self.axis.set_xlim(first, last if last > first else first + 1.0)
        self.stale = True


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
