"""The picture of margins: how wrong each parameter may be, and the success rate over noise, delay and period."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator

from servonode.arrays import Array
from servonode.views.palette import FAILED, GOAL, GUIDE, INK, SHADE, SOURCES, SUCCEEDED
from servonode.views.regions import CHART, Rates, draw_rates
from servonode.views.sheet import FULL, LEFT, PRINT, Row, even, figure_of, label_axes, places, wide
from servonode.views.symbols import mathtext
from servonode.views.titles import Head, shortened

STRIP = 0.19  # in; of the height of a parameter
MOST = 16  # parameters shown
TICKS = (0.2, 0.33, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
NARROW = 2.3  # decades of an axis up to which it has ticks within them
THICK = 0.62  # of the height of a parameter
HEIGHT = 2.6  # in; of the axis
MARGIN = 1.02  # factor beside the slowest and the fastest speed that is shown
DIGITS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)  # with which ticks begin
MARKS = "osD^v<>p"  # one for each input, so that they differ without colours


@dataclass(frozen=True)
class Strip:
    """A parameter: between which factors of what the law believes runs succeed, and why not beyond.

    An empty reason: they succeed as far as was tried.
    """

    name: str
    low: float
    high: float
    why_low: str
    why_high: str


@dataclass(frozen=True)
class Chart:
    """The success rate over sizes of one deviation, its margin (NaN: none of them fails) and the interval of that."""

    title: str
    rates: Rates
    margin: float
    interval: tuple[float, float]


@mpl.rc_context(PRINT)
def margins_figure(title: str, strips: Sequence[Strip], reach: float, charts: Sequence[Chart], note: str) -> Any:
    """Strips of parameters, from 1/reach to reach times what the law believes, and charts, as a matplotlib Figure."""
    reasons = list(dict.fromkeys(why for each in strips for why in (each.why_low, each.why_high) if why))
    colours = {why: FAILED[min(i, len(FAILED) - 1)] for i, why in enumerate(reasons)}
    rows = [_strips_row(strips[:MOST], reach, colours)] if strips else []
    if charts:
        width, _ = places(len(charts))
        heads = [Head.of(each.title, [], width) for each in charts]
        draws = [partial(_draw_chart, chart=each, head=head) for each, head in zip(charts, heads, strict=True)]
        rows.append(even(draws, len(charts), CHART, max(each.height for each in heads)))
    return figure_of(rows, title, note)


def _strips_row(strips: Sequence[Strip], reach: float, colours: dict[str, str]) -> Row:
    head = Head.of("", ["runs reach the goal", *colours], FULL)

    def draw(axis: Any) -> None:
        for y, each in enumerate(reversed(strips)):
            _draw_strip(axis, y, each, reach, colours)
        axis.axvline(1.0, color=INK, linewidth=0.9)
        axis.set_xscale("log")
        ticks_at(axis, TICKS)
        axis.set_xlim(1 / reach, reach)
        axis.set_ylim(-0.6, len(strips) - 0.4)
        axis.set_yticks(range(len(strips)), [shortened(mathtext(each.name), LEFT - 0.1) for each in reversed(strips)])
        axis.grid(axis="y", visible=False)
        axis.tick_params(axis="y", length=0)
        label_axes(axis, "true value of the parameter, over the value that the law believes", "")
        marks = [Patch(facecolor=each, edgecolor=GUIDE, linewidth=0.5) for each in (SUCCEEDED, *colours.values())]
        head.draw(axis, marks)

    return wide(draw, STRIP * len(strips) + 0.1, head.height)


def _draw_strip(axis: Any, y: int, strip: Strip, reach: float, colours: dict[str, str]) -> None:
    """What succeeds, and beside it what fails in the colours of the reasons."""
    pieces = [(strip.low, strip.high, SUCCEEDED)]
    pieces += [(1 / reach, strip.low, colours[strip.why_low])] if strip.why_low else []
    pieces += [(strip.high, reach, colours[strip.why_high])] if strip.why_high else []
    for low, high, colour in pieces:
        axis.barh(y, high - low, left=low, height=THICK, color=colour, zorder=2)
    for end, why in ((strip.low, strip.why_low), (strip.high, strip.why_high)):
        if why:
            axis.plot([end, end], [y - THICK / 2, y + THICK / 2], color=INK, linewidth=1.1, zorder=3)


def _draw_chart(axis: Any, chart: Chart, head: Head) -> None:
    """The success rates, the margin as a line and its interval as a band."""
    side = chart.rates.side
    axis.set_xscale("log")
    draw_rates(axis, chart.rates)
    low, high = (float(np.clip(each, side.low, side.high)) for each in chart.interval)
    axis.axvspan(low, high, color=SHADE, zorder=0)
    if side.low < chart.margin < side.high:
        axis.axvline(chart.margin, color=INK, linewidth=0.9, linestyle="--")
    axis.set_xlim(side.low, side.high)
    round_sizes(axis, side.low, side.high)
    head.draw(axis, [])


def round_sizes(axis: Any, low: float, high: float, which: str = "x") -> None:
    """Ticks of a logarithmic axis at decades; over less than two at 1, 2 and 5 too."""
    digits = (1.0,) if np.log10(high / low) > NARROW else (1.0, 2.0, 5.0)
    ticks_at(axis, [d * 10.0**e for e in range(-9, 10) for d in digits if low <= d * 10.0**e <= high], which)


def ticks_at(axis: Any, ticks: Sequence[float], which: str = "x") -> None:
    """Ticks at these values alone, with their digits."""
    own = getattr(axis, f"{which}axis")
    own.set_major_locator(FixedLocator(ticks))
    own.set_major_formatter(lambda value, _: f"{value:g}")
    own.set_minor_locator(NullLocator())


@mpl.rc_context(PRINT)
def speeds_figure(
    title: str, speeds: Array, shares: Mapping[str, Array], holds: npt.NDArray[np.bool_], largest: float, note: str
) -> Any:
    """The share of its limit that each input reaches, over the speed of the goal, as a matplotlib Figure.

    holds: at which speeds limits and goal hold, whose marks are filled. largest: the largest of them; 0: none is.
    """
    names = [*(mathtext(each) for each in shares), "limit", "limits or goal do not hold"]
    head = Head.of("largest magnitude of each input, as share of its limit", names, FULL)

    def draw(axis: Any) -> None:
        lines = [_draw_input(axis, i, speeds, each, holds) for i, each in enumerate(shares.values())]
        limit = axis.axhline(100.0, color=GOAL, linestyle="--", linewidth=1.0)
        end = float(speeds[-1])
        beyond = axis.axvspan(largest or float(speeds[0]) / MARGIN, end * MARGIN, color=SHADE, zorder=0)
        beyond.set_visible(largest < end)
        axis.set_xscale("log")
        axis.set_xlim(float(speeds[0]) / MARGIN, end * MARGIN)
        axis.set_ylim(0.0, 108.0)
        ticks_at(axis, [d * 10.0**e for e in range(-3, 5) for d in DIGITS if speeds[0] <= d * 10.0**e <= speeds[-1]])
        label_axes(axis, "speed of the goal, times the launch file's", "share of limit [%]")
        head.draw(axis, [*lines, limit, beyond])

    return figure_of([wide(draw, HEIGHT, head.height)], title, note)


def _draw_input(axis: Any, i: int, speeds: Array, shares: Array, holds: npt.NDArray[np.bool_]) -> Any:
    """The curve of an input, its marks filled where all holds."""
    colour, mark = SOURCES[i % len(SOURCES)], MARKS[i % len(MARKS)]
    (line,) = axis.plot(speeds, 100 * shares, color=colour, marker=mark, markersize=3.5)
    axis.plot(speeds[~holds], 100 * shares[~holds], color=colour, marker=mark, markersize=3.5, mfc="white", ls="none")
    return line
