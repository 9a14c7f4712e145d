"""What an entry gives, and the small tools that entries share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import servonode
from servonode.record.run import Run
from servonode.views.limits import apply, round_limits, time_limits
from servonode.views.palette import ARROWS, GOAL, GUIDE, INK, PALETTE
from servonode.views.sheet import WIDTH
from servonode.views.titles import SIZE

Array = npt.NDArray[np.float64]
BLUE, ORANGE, PURPLE, SKY = PALETTE
GREEN, RED, GREY = ARROWS[0], GOAL, GUIDE
__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "PURPLE", "RED", "SKY", "WIDTH"]
TIME = "time t [s]"
HEADS = ("", "the paper", "computed")
_runs: dict[str, Run] = {}


@dataclass(frozen=True)
class Table:
    """Heads and rows of cells, as Markdown."""

    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Content:
    """What an entry gives: functions that draw docs/images/gallery/STEM.png, by STEM, and tables of numbers."""

    pictures: Mapping[str, Callable[[], Figure]]
    tables: Sequence[Table]


def run(name: str, **options: Any) -> Run:
    """A run of a launch file as `servonode.simulate` gives it, computed once."""
    key = f"{name} {sorted(options.items())}"
    if key not in _runs:
        _runs[key] = servonode.simulate(name, **options)
    return _runs[key]


def exact(name: str, **options: Any) -> Run:
    """A run with the law inside the right-hand side: the continuous mathematics, to 1e-12."""
    return run(name, control="continuous", **options)


def power(n: int) -> str:
    """A power of ten."""
    return "10" + str(n).translate(
        str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
    )


def number(value: float, digits: int = 4) -> str:
    """A number with so many digits; with a power of ten where it is below a hundredth or very large."""
    if value != 0 and not 1e-2 <= abs(value) < 1e5:
        mantissa, exponent = f"{float(value):.{digits - 1}e}".split("e")
        return f"{mantissa}·{power(int(exponent))}".replace("-", "\u2212")
    return f"{float(value):.{digits}g}".replace("-", "\u2212")


def fixed(value: float, decimals: int) -> str:
    """A number with so many decimals; no minus before a zero."""
    text = f"{float(value):.{decimals}f}"
    text = text.removeprefix("-") if not text.strip("-0.") else text
    return text.replace("-", "\u2212")


def span(values: Array, decimals: int = 4) -> str:
    """Smallest and largest value."""
    return f"{fixed(values.min(), decimals)} to {fixed(values.max(), decimals)}"


def below(value: float) -> str:
    """A rounding error by the power of ten that it stays well below: the digits depend on the processor."""
    return f"below {power(int(np.ceil(np.log10(max(3.0 * abs(float(value)), 1e-15)))))}"


def sheet(rows: int = 1, columns: int = 1, height: float = 2.4, **options: Any) -> tuple[Figure, Any]:
    """A figure as wide as a page's text, of a height [in], and its axes, as an array."""
    figure = _figure(height)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def mosaic(rows: Sequence[str], height: float, **options: Any) -> tuple[Figure, dict[str, Any]]:
    """The same with axes by name, each a letter that stands where the axis is."""
    figure = _figure(height)
    return figure, figure.subplot_mosaic([list(row) for row in rows], **options)


def _figure(height: float) -> Figure:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plane(axis: Any, title: str = "", xlabel: str = "x [m]", ylabel: str = "y [m]") -> None:
    """Make an axis a plane at true scale that is no larger than what it shows."""
    axis.margins(0.04)
    axis.set_aspect("equal", adjustable="box", anchor="NW")
    axis.locator_params(nbins=6, steps=(1, 2, 5, 10))
    axis.set(xlabel=xlabel, ylabel=ylabel)
    head(axis, title)


def curve(axis: Any, t: Array, values: Array, title: str, xlabel: str = "", extra: Iterable[float] = ()) -> None:
    """One curve over time with its head and limits, see `panel`; without a label for time its numbers are left out."""
    axis.plot(t, values, color=BLUE)
    panel(axis, title, xlabel, extra)
    axis.tick_params(labelbottom=bool(xlabel))


def panel(axis: Any, title: str, xlabel: str = "", extra: Iterable[float] = (), inside: str = "") -> None:
    """Title, legend and round limits of curves over time.

    extra: values that are on the axis as well. inside: where in the axis the legend stands, "none" without one; empty:
    it stands above.
    """
    values = [np.asarray(line.get_ydata(), float) for line in axis.lines]
    apply(axis, round_limits([*values, np.array(list(extra), float)]))
    timed(axis, xlabel)
    head(axis, title, inside)


def decades(
    axis: Any, title: str, low: int, high: int, xlabel: str = "", every: int = 1, inside: str = ""
) -> None:  # fmt: skip
    """The same on a logarithmic axis between two powers of ten, a tick for every so many of them."""
    axis.set_yscale("log")
    axis.minorticks_off()
    axis.set_yticks([10.0**i for i in range(high, low - 1, -every)])
    axis.set_ylim(10.0**low, 10.0**high)
    timed(axis, xlabel)
    head(axis, title, inside)


def timed(axis: Any, xlabel: str) -> None:
    """The time axis, from the first time to the last."""
    times = np.concatenate([np.asarray(line.get_xdata(), float) for line in axis.lines if len(line.get_xdata()) > 2])
    if axis.get_xscale() == "linear":
        axis.set_xlim(*time_limits(np.array([times.min(), times.max()])))
    axis.set_xlabel(xlabel)


def head(axis: Any, title: str, inside: str = "") -> None:
    """A title above an axis at its left, and at its right, or inside, a legend where there are names."""
    axis.set_title(title, loc="left", fontsize=SIZE, color=INK, pad=4)
    handles, names = axis.get_legend_handles_labels()
    look: Any = {"fontsize": SIZE, "handlelength": 1.4, "handletextpad": 0.4, "borderpad": 0.1, "columnspacing": 1.0}
    if handles and not inside:
        axis.legend(handles, names, ncols=len(names), loc="lower right", bbox_to_anchor=(1.0, 0.99), **look)
    elif handles and inside != "none":
        axis.legend(handles, names, loc=inside, **look)


def above(sizes: Array, least: float) -> Array:
    """Sizes for a logarithmic axis, not a number where they are below the least that it shows."""
    return np.where(sizes > least, sizes, np.nan)
