"""The curves of one axis over time: its limits, where it ends, what is drawn of a curve that would fill it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.views import limits
from servonode.views.titles import size_of

THICK = 1.2  # pt; of a curve
FINE = 1 / 60  # in; of time in which nothing can be told apart, as wide as a curve
OFTEN, LEVELS = 120, 100  # turns from which a curve is a band; heights on an axis that can be told apart
PALE = 0.3  # opacity of a band
MANY, DEEP = 16, 0.5  # turns from which sizes are drawn by their peaks; how deep each is [decades]
FINEST, NOTCH = 400, 0.1  # pieces of the time of such sizes; width of a notch that is filled, in parts of the time
AT_END, FINER = 0.02, 4.0  # of the time before the fault that ends a run, and how much finer an axis is without it
BRIEF = 0.5  # of a run: sizes that are seen for a smaller part of it have an axis that ends with them
SEEN = 1500  # pieces of time in which turns are counted
MEANS = ("NIS", "NEES")  # curves that are means, as those with an expectation are: peaks of means would mislead
MAGNITUDE, PEAKS = "magnitude", "peak magnitude"
FLAT = 1.0  # of what lies within one piece to the height of a pixel, below which one point stands for it


@dataclass(frozen=True)
class Curve:
    """A column over its own time [s] (absent: that of its axis), and how it is drawn.

    expected: what the values are expected to be, drawn beside them by a thin line.
    """

    name: str
    values: Array
    color: str
    dashes: Any = "-"
    width: float = THICK
    t: Array | None = None
    expected: Array | None = None

    def times(self, t: Array) -> Array:
        """Its own time [s], else that of its axis."""
        return t if self.t is None else self.t


@dataclass(frozen=True)
class Curves:
    """The curves of one axis over time t [s], as they are drawn.

    between: the ends of the axis. logarithmic: their sizes are drawn, on a logarithmic axis.
    peaks: only the peaks of the sizes, never of means. bands: which of the curves are bands. end: of the time axis [s].
    """

    t: Array
    curves: Sequence[Curve]
    between: limits.Limits
    logarithmic: bool
    peaks: bool
    bands: tuple[bool, ...]
    end: float

    @classmethod
    def of(
        cls, t: Array, curves: Sequence[Curve], logarithmic: bool, floor: float = 0.0, whole: bool = False,
        fault: float | None = None,
    ) -> Self:  # fmt: skip
        """Curves between round limits; sizes on a logarithmic axis where that is wanted and says something.

        floor: the size below which they are nearly zero. whole: the axis has all of the time. fault: the time at
        which one was met [s].
        """
        columns = [part for each in curves for part in (each.values, each.expected) if part is not None]
        if not (logarithmic and spans_decades(columns)):
            found = round_limits_before(t, curves, fault) or limits.round_limits(columns)
            depth = (found.high - found.low) / LEVELS
            bands = tuple(turns(each.times(t), each.values, depth) > OFTEN for each in curves)
            return cls(t, curves, found, False, False, bands, float(t[-1]))
        found = limits.log_limits(columns, floor)
        sizes = [each for each in curves if each.expected is None and each.name not in MEANS]
        decades = [(each.times(t), np.log10(np.fmax(each.values, found.low))) for each in sizes]
        peaks = any(turns(*each, DEEP) >= MANY for each in decades)
        if peaks:
            found = limits.log_limits([peaks_of(each.times(t), each.values, found.low)[1] for each in curves], floor)
        seen = [each.times(t)[each.values >= found.low] for each in curves]
        last = max((float(each[-1]) for each in seen if len(each)), default=float(t[-1]))
        brief = not whole and last - t[0] < BRIEF * (t[-1] - t[0])
        return cls(t, curves, found, True, peaks, (False,) * len(curves), last if brief else float(t[-1]))

    @property
    def brief(self) -> bool:
        """Whether the axis ends before the run, as nothing is seen later."""
        return bool(self.end < self.t[-1])

    def entitled(self, title: str) -> str:
        """A title, which says which sizes are drawn and until when."""
        title = title.replace(MAGNITUDE, PEAKS, 1) if self.peaks else title
        head, unit, rest = title.partition(" [")
        return f"{head}, first {self._ends()[1]:g} s{unit}{rest}" if self.brief else title

    def draw(self, axis: Any) -> int:
        """Draw them; gives the power of ten by which the values are divided at the ticks."""
        inches = size_of(axis)[0]
        for each, band in zip(self.curves, self.bands, strict=True):
            if each.expected is not None:
                look = {"color": each.color, "linewidth": 0.7, "linestyle": (0, (4, 2)), "zorder": 1.9}
                axis.plot(each.times(self.t), each.expected, **look)
            if self.logarithmic:
                self._draw_sizes(axis, each)
            else:
                self._draw_values(axis, each, inches if band else 0.0)
        limits.apply(axis, self.between, self.logarithmic)
        axis.set_xlim(*self._ends())
        # very long and very short times beside their power of ten, for the last number leaves the page otherwise
        axis.ticklabel_format(axis="x", style="sci", scilimits=(-1, 3), useMathText=True)
        axis.xaxis.get_offset_text().set_fontsize(axis.xaxis.label.get_fontsize())
        return self.between.power

    def _ends(self) -> tuple[float, float]:
        """The ends of the time axis [s]."""
        return limits.time_limits(np.array([self.t[0], self.end]))

    def _draw_sizes(self, axis: Any, curve: Curve) -> None:
        t, sizes = curve.times(self.t), curve.values
        if self.peaks:
            t, sizes = peaks_of(t, sizes, self.between.low)
        least = self.between.low if self.peaks else 0.0
        axis.plot(t, np.where(sizes > least, sizes, np.nan), **_look(curve))

    def _draw_values(self, axis: Any, curve: Curve, inches: float) -> None:
        """The curve; where it is a band, so many inches long, the mean of what cannot be told apart, and a pale area of
        all values.
        """
        t, values = curve.times(self.t), curve.values
        if inches:
            t, low, values, high = band_of(t, values, int(inches / FINE))
            axis.fill_between(t, low, high, color=curve.color, alpha=PALE, linewidth=0, zorder=1.8)
        axis.plot(t, values, **_look(curve))


def _look(curve: Curve) -> dict[str, Any]:
    return {"color": curve.color, "linestyle": curve.dashes, "linewidth": curve.width, "label": curve.name}


def round_limits_before(t: Array, curves: Sequence[Curve], fault: float | None) -> limits.Limits | None:
    """Limits without what goes beyond bounds just before the fault [s] that ends a run; None where it does not.

    There curves leave the axis, such as the friction that a wheel needs when it loses contact.
    """
    if fault is None or fault + AT_END * (t[-1] - t[0]) < t[-1]:
        return None
    until = fault - AT_END * (fault - t[0])
    drawn = [(each.times(t), part) for each in curves for part in (each.values, each.expected) if part is not None]
    before = [values[times < until] for times, values in drawn]
    if not any(len(values) and np.ptp(values) > 0 for values in before):
        return None
    whole, found = limits.round_limits([values for _, values in drawn]), limits.round_limits(before)
    return found if whole.high - whole.low > FINER * (found.high - found.low) else None


def spans_decades(columns: Sequence[Array]) -> bool:
    """Whether a logarithmic axis says something: over less than a decade it has no ticks."""
    sizes = np.concatenate([values[np.isfinite(values) & (values > 0)] for values in columns])
    return len(sizes) > 0 and bool(sizes.max() > 10 * sizes.min())


def turns(t: Array, values: Array, depth: float) -> int:
    """How often a curve over time t [s] goes from rising to falling or back, each time by `depth` at least."""
    _, thin = Decimation.of(t, float(t[-1] - t[0]), SEEN).curve(values)
    low, high, way, count = np.inf, -np.inf, 0, -1  # the first way is no turn
    for value in thin[np.isfinite(thin)].tolist():
        low, high = min(low, value), max(high, value)
        if way <= 0 and value - low >= depth:
            way, high, count = 1, value, count + 1
        elif way >= 0 and high - value >= depth:
            way, low, count = -1, value, count + 1
    return max(count, 0)


def peaks_of(t: Array, sizes: Array, low: float) -> tuple[Array, Array]:
    """Times [s] and sizes without narrow notches: a notch is filled up to where it is wide; `low` where they are less.

    The largest sizes of short pieces of the time, closed by a window: all else keeps its place and its height.
    """
    starts, rows = _pieces(t, FINEST)
    top = np.fmax.reduceat(np.fmax(sizes, low), starts)
    half = int(NOTCH / 2 * len(top)) + 1
    highest = _windows(np.pad(top, 2 * half, constant_values=low), half).max(axis=1)
    return np.add.reduceat(t, starts) / rows, _windows(highest, half).min(axis=1)


def _windows(values: Array, half: int) -> Array:
    """The values about each one, so many to both sides; those at the ends have none of their own."""
    return np.lib.stride_tricks.sliding_window_view(values, 2 * half + 1)


def band_of(t: Array, values: Array, count: int) -> tuple[Array, Array, Array, Array]:
    """Middle time [s], lowest, mean and highest value of about so many pieces of the time; both its ends are kept."""
    starts, sizes = _pieces(t, count)
    times = np.add.reduceat(t, starts) / sizes
    times[[0, -1]] = t[[0, -1]]
    known = np.abs(values) < limits.GREATEST
    shown = np.where(known, values, np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.add.reduceat(np.where(known, values, 0.0), starts) / np.add.reduceat(known.astype(float), starts)
    return times, np.fmin.reduceat(shown, starts), mean, np.fmax.reduceat(shown, starts)


def _pieces(t: Array, count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """First row and number of rows of each of about so many pieces of the time."""
    span = float(t[-1] - t[0])
    numbers = np.floor((t - t[0]) * (count / span) * (1 - 1e-12)) if span > 0 else np.zeros(len(t))
    starts = np.concatenate([[0], np.flatnonzero(np.diff(numbers)) + 1])
    return starts, np.diff(np.append(starts, len(t)))


class Decimation:
    """Pieces of a time axis, each drawn as its lowest and highest value.

    The pieces lie at whole multiples of their length, not relative to the first row, so that a curve that scrolls
    keeps its shape.
    """

    def __init__(self, t: Array, starts: npt.NDArray[np.intp] | None) -> None:
        self.starts = starts  # first row of each piece; None: every row is drawn
        self._t = t
        if starts is not None:
            self._lasts = np.append(starts[1:], len(t)) - 1
            self._ends = np.stack([t[starts], t[self._lasts]], axis=1).ravel()

    @classmethod
    def of(cls, t: Array, span: float, pieces: int) -> Self:
        """At most about `pieces` of them over `span` [s]; every row by itself where there are not more rows."""
        if len(t) <= 3 * pieces or not span > 0:
            return cls(t, None)
        numbers = np.floor(t * (pieces / span))
        return cls(t, np.concatenate([[0], np.flatnonzero(np.diff(numbers)) + 1]))

    @property
    def times(self) -> Array:
        """The times of the points of a curve that is not flat."""
        return self._t if self.starts is None else self._ends

    def curve(self, values: Array, pixel: float = 0.0) -> tuple[Array, Array]:
        """Times and values to be drawn; `pixel` is the height of one, in the unit of the values.

        What is not a number is left out where its piece holds numbers.
        """
        if self.starts is None:
            return self._t, values
        low, high = np.fmin.reduceat(values, self.starts), np.fmax.reduceat(values, self.starts)
        with np.errstate(invalid="ignore"):
            if not bool(np.any(high - low > FLAT * pixel)):
                return self._ends[::2], low
            falls = values[self.starts] > values[self._lasts]
        return self._ends, np.stack([np.where(falls, high, low), np.where(falls, low, high)], axis=1).ravel()

    def sizes(self, values: Array) -> tuple[Array, Array]:
        """Times and sizes to be drawn on a logarithmic axis: what is known only now and then is joined."""
        sizes = np.abs(values)
        known = np.flatnonzero(sizes > 0)  # neither nothing nor not a number
        if self.starts is None or len(known) <= 2 * len(self.starts):
            return self._t[known], sizes[known]
        t, thin = self.curve(sizes if len(known) == len(sizes) else np.where(sizes > 0, sizes, np.nan))
        shown = np.isfinite(thin)
        return t[shown], thin[shown]

    def path(self, *columns: Array) -> list[Array]:
        """The columns at the first row of each piece and at the last row of all: a path keeps its present end."""
        if self.starts is None:
            return list(columns)
        rows: Any = np.append(self.starts, len(self._t) - 1)
        return [column[rows] for column in columns]
