"""Pictures of regions: a map of what becomes of runs over two ranges, a strip over one, success rates over more."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.colors import ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from servonode.arrays import Array
from servonode.mechanics.description import Quantity
from servonode.views.palette import FAILED, GUIDE, INK, PALETTE, SUCCEEDED
from servonode.views.sheet import BETWEEN, PRINT, Row, even, figure_of, label_axes, legend, wide
from servonode.views.symbols import titles

HIGHEST = 4.2  # in; of a map
STRIP = 0.35  # in; the height of the strip of one range
CHART, PER_ROW = 1.35, 2  # in; the height of a chart of success rates, of which so many share a row
SEEN = 1e-3  # least share of an outcome that a legend names
START: Any = {"marker": "+", "markersize": 9, "markeredgewidth": 1.6, "color": INK, "linestyle": "none", "zorder": 5}


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
    box = _edges(x) if flat else x, np.array([0.0, 1.0]) if flat else y
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


def _edges(x: Array) -> Array:
    """The edges of cells about these places, the outermost at the ends."""
    middle = (x[1:] + x[:-1]) / 2
    result: Array = np.concatenate([x[:1], middle, x[-1:]])
    return result


# more than two ranges


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
