"""Pictures of many runs: regions, margins, the speeds of a goal, the costs of a search.

Of a region a map of what becomes of runs over two ranges, a strip over one, success rates over more; of margins how
wrong each parameter may be, and the success rate over noise, delay and period.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator

from servonode.arrays import Array
from servonode.mechanics.description import Quantity
from servonode.views.palette import FAILED, GOAL, GUIDE, INK, PALETTE, SHADE, SOURCES, SUCCEEDED
from servonode.views.sheet import (
    BETWEEN,
    FULL,
    LEFT,
    NAMED,
    PRINT,
    Cell,
    Row,
    even,
    figure_of,
    label_axes,
    legend,
    places,
    wide,
)
from servonode.views.symbols import mathtext, titles
from servonode.views.titles import Head, shortened

HIGHEST = 4.2  # in; of a map
STRIP = 0.35  # in; the height of the strip of one range
CHART, PER_ROW = 1.35, 2  # in; the height of a chart of success rates, of which so many share a row
SEEN = 1e-3  # least share of an outcome that a legend names
START: Any = {"marker": "+", "markersize": 9, "markeredgewidth": 1.6, "color": INK, "linestyle": "none", "zorder": 5}
LANE = 0.19  # in; of the height of a parameter's margins
MOST = 16  # parameters shown
TICKS = (0.2, 0.33, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
NARROW = 2.3  # decades of an axis up to which it has ticks within them
THICK = 0.62  # of the height of a parameter
SPEEDS_HIGH = 2.6  # in; of the axis of speeds
MARGIN = 1.02  # factor beside the slowest and the fastest speed that is shown
DIGITS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)  # with which ticks begin
MARKS = "osD^v<>p"  # one for each input, so that they differ without colours
COSTS_HIGH, MAP = 2.0, 3.4  # in; of an axis of costs, and of a map
BAR, BESIDE = 0.14, 0.75  # in; the width of the colour bar, and the room that it takes
CROSS: Any = {"marker": "x", "linestyle": "none", "color": GUIDE, "markersize": 4}
DOT: Any = {"marker": "o", "linestyle": "none", "color": PALETTE[0], "markersize": 2.8, "alpha": 0.7, "mec": "none"}
BEST: Any = {"marker": "*", "linestyle": "none", "color": PALETTE[1], "markersize": 11, "mec": INK, "mew": 0.7}
OWN: Any = {"marker": "+", "linestyle": "none", "color": INK, "markersize": 9, "mew": 1.6}
SHOWN = 30.0  # costs above so many times the least are not told apart
Over = tuple["Side", bool, Array, float]  # a number, whether its axis is logarithmic, its values, the best one
TALL = 5.0  # highest cost over the least from which its axis is logarithmic
NAMES = ("candidate", "a run fails", "best that passes check", "the launch file")


@dataclass(frozen=True)
class Side:
    """One side of a map: what varies along it, from where to where, and where the launch file stands."""

    quantity: Quantity
    low: float
    high: float
    start: float

    @property
    def title(self) -> str:
        """The quantity in words with symbol and unit."""
        return titles([self.quantity])[0]


@dataclass(frozen=True)
class Kind:
    """An outcome, its share of all, and whether it is the one that is wanted."""

    name: str
    share: float
    wanted: bool


@mpl.rc_context(PRINT)
def map_figure(title: str, sides: Sequence[Side], kinds: Sequence[Kind], grid: npt.NDArray[np.int64], note: str) -> Any:
    """The kinds of a grid over one range or two, in colours with a legend, as a matplotlib Figure."""
    order = sorted(range(len(kinds)), key=lambda i: (not kinds[i].wanted, -kinds[i].share))
    at = np.empty(len(order), dtype=np.int64)
    at[order] = np.arange(len(order))
    shown = [kinds[i] for i in order]
    draw = partial(_draw_map, sides=sides, kinds=shown, grid=at[grid])
    row = wide(draw, STRIP if len(sides) == 1 else HIGHEST)
    return figure_of([_legend(shown, _inside(sides)), row], title, note)


def _inside(sides: Sequence[Side]) -> bool:
    """Whether the launch file's own values lie within the map."""
    return all(np.isfinite(each.start) and each.low <= each.start <= each.high for each in sides)


def colours(kinds: Sequence[Kind]) -> list[str]:
    """A colour for each kind; those that are not wanted and come after the last colour share it."""
    others = iter(range(len(kinds)))
    return [SUCCEEDED if each.wanted else FAILED[min(next(others), len(FAILED) - 1)] for each in kinds]


def _legend(kinds: Sequence[Kind], start: bool) -> Row:
    """The kinds that can be seen, with their colours and shares, and the mark of the launch file's own values."""
    marked = list(zip(kinds, colours(kinds), strict=True))
    marked = [(each, colour) for each, colour in marked if each.share >= SEEN or each.wanted]
    names = [f"{each.name} ({100 * each.share:.3g} %)".replace("$", r"\$") for each, _ in marked]
    marks: list[Any] = [Patch(facecolor=colour, edgecolor=GUIDE, linewidth=0.5) for _, colour in marked]
    marks += [Line2D([], [], **START)] if start else []
    return legend([*names, *(["the launch file"] if start else [])], marks)


def _draw_map(axis: Any, sides: Sequence[Side], kinds: Sequence[Kind], grid: npt.NDArray[np.int64]) -> None:
    """The kinds in colours, with the boundary of what is wanted."""
    across, up, flat = sides[0], sides[-1], len(sides) == 1
    cells = grid[None, :] if flat else grid.T
    x = np.linspace(across.low, across.high, grid.shape[0])
    y = np.array([0.5]) if flat else np.linspace(up.low, up.high, grid.shape[1])
    edges = np.concatenate([x[:1], (x[1:] + x[:-1]) / 2, x[-1:]])
    box = edges if flat else x, np.array([0.0, 1.0]) if flat else y
    look: Any = {"shading": "flat" if flat else "nearest", "vmin": -0.5, "vmax": len(kinds) - 0.5, "rasterized": True}
    axis.pcolormesh(*box, cells, cmap=ListedColormap(colours(kinds)), **look)
    wanted = np.isin(cells, [i for i, each in enumerate(kinds) if each.wanted]).astype(float)
    if len(y) > 1 and 0 < wanted.mean() < 1:
        axis.contour(x, y, wanted, levels=[0.5], colors=INK, linewidths=0.9)
    axis.grid(False)
    axis.set_xlim(across.low, across.high)
    axis.set_ylim(*((0.0, 1.0) if flat else (up.low, up.high)))
    if flat:
        axis.set_yticks([])
    if _inside(sides):
        axis.plot(across.start, 0.5 if flat else up.start, clip_on=False, **START)
    label_axes(axis, across.title, "" if flat else up.title)


@dataclass(frozen=True)
class Rates:
    """The share of successes over one quantity: in each bin the middle, the share and its interval."""

    side: Side
    middles: Array
    shares: Array
    low: Array
    high: Array


@mpl.rc_context(PRINT)
def rates_figure(title: str, rates: Sequence[Rates], kinds: Sequence[Kind], note: str) -> Any:
    """The success rate over each quantity, with intervals, as a matplotlib Figure."""
    draws = [partial(draw_rates, rates=each) for each in rates]
    rows = [even(draws[i : i + PER_ROW], PER_ROW, CHART, BETWEEN) for i in range(0, len(draws), PER_ROW)]
    return figure_of([_legend(kinds, False), *rows], title, note)


def draw_rates(axis: Any, rates: Rates) -> None:
    """Draw the success rate over a quantity in percent, with the interval of each bin."""
    errors = [100 * (rates.shares - rates.low), 100 * (rates.high - rates.shares)]
    look = {"color": PALETTE[0], "marker": "o", "markersize": 3, "capsize": 2, "linewidth": 1.0, "elinewidth": 0.8}
    axis.errorbar(rates.middles, 100 * rates.shares, np.maximum(errors, 0.0), **look)
    axis.set_xlim(rates.side.low, rates.side.high)
    axis.set_ylim(-4, 104)
    label_axes(axis, rates.side.title, "success [%]")


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
def margins_figure(
    title: str, strips: Sequence[Strip], reach: float, charts: Sequence[Chart], note: str, done: str
) -> Any:
    """Strips of parameters, from 1/reach to reach times what the law believes, and charts, as a matplotlib Figure.

    done: what runs do where they succeed.
    """
    reasons = list(dict.fromkeys(why for each in strips for why in (each.why_low, each.why_high) if why))
    colours = {why: FAILED[min(i, len(FAILED) - 1)] for i, why in enumerate(reasons)}
    rows = [_strips_row(strips[:MOST], reach, colours, done)] if strips else []
    if charts:
        width, _ = places(len(charts))
        heads = [Head.of(each.title, [], width) for each in charts]
        draws = [partial(_draw_chart, chart=each, head=head) for each, head in zip(charts, heads, strict=True)]
        rows.append(even(draws, len(charts), CHART, max(each.height for each in heads)))
    return figure_of(rows, title, note)


def _strips_row(strips: Sequence[Strip], reach: float, colours: dict[str, str], done: str) -> Row:
    head = Head.of("", [done, *colours], FULL)

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

    return wide(draw, LANE * len(strips) + 0.1, head.height)


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

    return figure_of([wide(draw, SPEEDS_HIGH, head.height)], title, note)


def _draw_input(axis: Any, i: int, speeds: Array, shares: Array, holds: npt.NDArray[np.bool_]) -> Any:
    """The curve of an input, its marks filled where all holds."""
    colour, mark = SOURCES[i % len(SOURCES)], MARKS[i % len(MARKS)]
    (line,) = axis.plot(speeds, 100 * shares, color=colour, marker=mark, markersize=3.5)
    axis.plot(speeds[~holds], 100 * shares[~holds], color=colour, marker=mark, markersize=3.5, mfc="white", ls="none")
    return line


@mpl.rc_context(PRINT)
def costs_figure(
    title: str,
    sides: Sequence[Side],
    logs: Sequence[bool],
    values: Array,
    costs: Array,
    best: tuple[Array, float],
    own: float,
    note: str,
) -> Any:
    """The cost of all candidates: a map over two numbers, else over each of them, as a matplotlib Figure.

    logs: whether the axis of a number is logarithmic. costs: NaN where a run fails. best: its numbers and cost.
    own: the cost of the launch file, NaN where its run fails.
    """
    rows = [legend(NAMES, [Line2D([], [], **look) for look in (DOT, CROSS, BEST, OWN)])]
    if len(sides) == len(("across", "up")):
        return figure_of([*rows, _map(sides, logs, values, costs, best)], title, note)
    overs = [(side, logs[i], values[:, i], float(best[0][i])) for i, side in enumerate(sides)]
    draws = [partial(_draw_over, of=each, costs=costs, marked=(best[1], own)) for each in overs]
    rows += [even(draws[i : i + 2], min(len(sides), 2), COSTS_HIGH, 0.05) for i in range(0, len(draws), 2)]
    return figure_of(rows, title, note)


def _draw_over(axis: Any, of: Over, costs: Array, marked: tuple[float, float]) -> None:
    """The costs over one number; marked: the least and the launch file's."""
    (side, log, values, best), (least, own) = of, marked
    fails, most = np.isnan(costs), np.fmax(_highest(costs, least), own)
    axis.plot(values[~fails], costs[~fails], **DOT)
    axis.plot(values[fails], np.full(fails.sum(), most), **CROSS)
    axis.plot(best, least, zorder=4, **BEST)
    axis.plot(side.start, own, zorder=4, **OWN)
    if 0 < TALL * least < most:
        axis.set_yscale("log")
        axis.set_ylim(least / 1.2, most * 1.2)
        round_sizes(axis, least / 1.2, most * 1.2, "y")
    else:
        axis.set_ylim(least - 0.08 * (most - least), most + 0.08 * (most - least))
    _scale(axis, side, log)
    label_axes(axis, side.title, "cost")


def _highest(costs: Array, least: float) -> float:
    """The highest cost that is shown."""
    highest = float(np.nanmax(costs))
    return min(highest, SHOWN * least) if least > 0 else highest


def _map(sides: Sequence[Side], logs: Sequence[bool], values: Array, costs: Array, best: tuple[Array, float]) -> Row:
    """The costs over two numbers in colours, with a bar."""
    shown: dict[str, Any] = {}

    def draw(axis: Any) -> None:
        fails, least, high = np.isnan(costs), best[1], _highest(costs, best[1])
        norm = LogNorm(least, high) if least > 0 and high > least else Normalize(float(np.nanmin(costs)), high)
        x, y = values.T
        worst_first = np.argsort(-costs[~fails])
        across, up, cost = (each[~fails][worst_first] for each in (x, y, costs))
        look = {"cmap": "viridis_r", "norm": norm, "s": 14, "linewidths": 0, "zorder": 2}
        shown["dots"] = axis.scatter(across, up, c=cost, **look)
        axis.plot(x[fails], y[fails], **CROSS)
        axis.plot(*best[0], zorder=4, **BEST)
        axis.plot(sides[0].start, sides[1].start, zorder=4, **OWN)
        _scale(axis, sides[0], logs[0])
        _scale(axis, sides[1], logs[1], "y")
        label_axes(axis, sides[0].title, sides[1].title)

    def bar(axis: Any) -> None:
        axis.figure.colorbar(shown["dots"], cax=axis, label="cost")
        axis.grid(False)
        low, high = axis.get_ylim()
        if low > 0:
            round_sizes(axis, low, high, "y")

    width = FULL - BESIDE
    return Row(MAP + NAMED, [Cell(LEFT, 0.0, width, MAP, draw), Cell(LEFT + width + 0.12, 0.0, BAR, MAP, bar)])


def _scale(axis: Any, side: Side, log: bool, which: str = "x") -> None:
    """The ends of an axis, where the launch file's number is inside, some room beside them, and its scale."""
    seen = [side.low, side.high, *([side.start] if side.start > 0 or (not log and np.isfinite(side.start)) else [])]
    low, high = min(seen), max(seen)
    if log:
        getattr(axis, f"set_{which}scale")("log")
        room = (high / low) ** 0.03
        getattr(axis, f"set_{which}lim")(low / room, high * room)
        round_sizes(axis, low / room, high * room, which)
    else:
        room = 0.03 * (high - low)
        getattr(axis, f"set_{which}lim")(low - room, high + room)
