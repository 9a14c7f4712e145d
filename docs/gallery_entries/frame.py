"""What an entry of the gallery is made of, and the small tools its functions share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import servonode
from servonode.closed_loop.run import Run

Array = npt.NDArray[np.float64]
COLOURS = ("#00798c", "#d1495b", "#edae49", "#5c4d7d", "#66a182")
INK, GREY = "#1b2733", "#a9b4be"
WIDTH, DPI = 9.0, 100  # in and per in: 900 pixels
_runs: dict[str, Run] = {}


@dataclass(frozen=True)
class Source:
    """A published work. citation: as it is quoted; about: what it shows, which of its figures are here, in Markdown."""

    key: str
    heading: str
    citation: str
    about: str


@dataclass(frozen=True)
class Table:
    """Heads and rows of cells, as Markdown."""

    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Picture:
    """A picture of an entry; `draw` is called only where pictures are wanted."""

    stem: str
    caption: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Content:
    """What the runs of an entry gave."""

    pictures: Sequence[Picture]
    tables: Sequence[Table]


@dataclass(frozen=True)
class Entry:
    """One thing that the gallery shows.

    launches: packaged launch files that it uses, the first one's comment stands as what to watch for. commands: what a
    reader types. text: what it is. make: its runs and what came out. missing: what cannot be had and why.
    """

    name: str
    source: str
    title: str
    launches: tuple[str, ...]
    commands: tuple[str, ...]
    text: str
    make: Callable[[], Content]
    missing: str = field(default="")


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


def sheet(rows: int = 1, columns: int = 1, height: float = 3.4, **options: Any) -> tuple[Figure, Any]:
    """A figure of the gallery's width and its axes, as an array."""
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def plane(axis: Any, xlabel: str = "x [m]", ylabel: str = "y [m]") -> None:
    """Make an axis a plane at true scale."""
    axis.set_aspect("equal", adjustable="datalim")
    axis.set(xlabel=xlabel, ylabel=ylabel)


def legend(axis: Any, columns: int = 0, **place: Any) -> None:
    """A legend above an axis, where it covers nothing."""
    handles, names = axis.get_legend_handles_labels()
    look: Any = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.98), "borderpad": 0.1, "columnspacing": 1.2} | place
    axis.legend(handles, names, ncols=columns or len(names), fontsize=8, **look)


def crossings(t: Array, values: Array) -> Array:
    """Times at which a curve passes zero, by straight lines between its points."""
    i = np.flatnonzero(np.diff(np.sign(values)) != 0)
    return np.asarray(t[i] - values[i] * (t[i + 1] - t[i]) / (values[i + 1] - values[i]))
