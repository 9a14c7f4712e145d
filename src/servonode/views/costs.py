"""The picture of a search: the cost over the numbers that were tuned, and where it is least."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.lines import Line2D

from servonode.arrays import Array
from servonode.views.margins import round_sizes
from servonode.views.palette import GUIDE, INK, PALETTE
from servonode.views.regions import Side
from servonode.views.sheet import FULL, LEFT, NAMED, PRINT, Cell, Row, even, figure_of, label_axes, legend

HEIGHT, MAP = 2.0, 3.4  # in; of an axis of costs, and of a map
BAR, BESIDE = 0.14, 0.75  # in; the width of the colour bar, and the room that it takes
CROSS: Any = {"marker": "x", "linestyle": "none", "color": GUIDE, "markersize": 4}
DOT: Any = {"marker": "o", "linestyle": "none", "color": PALETTE[0], "markersize": 2.8, "alpha": 0.7, "mec": "none"}
BEST: Any = {"marker": "*", "linestyle": "none", "color": PALETTE[1], "markersize": 11, "mec": INK, "mew": 0.7}
OWN: Any = {"marker": "+", "linestyle": "none", "color": INK, "markersize": 9, "mew": 1.6}
SHOWN = 30.0  # costs above so many times the least are not told apart
Over = tuple[Side, bool, Array, float]  # a number, whether its axis is logarithmic, its values, the best one
TALL = 5.0  # highest cost over the least from which its axis is logarithmic
NAMES = ("candidate", "a run fails", "best that passes check", "the launch file")


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
    rows += [even(draws[i : i + 2], min(len(sides), 2), HEIGHT, 0.05) for i in range(0, len(draws), 2)]
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
        look = {
            "c": costs[~fails][worst_first],
            "cmap": "viridis_r",
            "norm": norm,
            "s": 14,
            "linewidths": 0,
            "zorder": 2,
        }
        shown["dots"] = axis.scatter(x[~fails][worst_first], y[~fails][worst_first], **look)
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
