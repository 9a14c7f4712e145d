"""Limits and ticks of an axis: round numbers, some room around the curves, no magnified rounding errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from servonode.arrays import Array

NEARLY_ZERO = 1e-9  # of a quantity to the largest of its unit, below which it is errors of rounding and integration
NATURAL = {"1": 1.0, "rad": 1.0}  # the least that this largest one counts for
SMALLEST = 1e-3  # the same in any other unit
FLAT = 5e-3  # of a curve to its size: what varies less is drawn as a constant while a run goes on
CONSTANT = 0.02  # of each curve of an axis to its size: where all vary less, the axis has zero, so that this is seen
STEADY = 0.05  # of the extent of an axis to the largest value on it, at least
PADDING = 0.04  # of the extent, left free at least on each side
GREATEST = 1e307  # a value of this size is not shown: the extent of an axis is a finite number
DECADES = 6  # of a logarithmic axis at most
NOTCH = 0.02  # of the points of a logarithmic axis that may lie below it, where sizes pass through zero
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Limits:
    """The ends of an axis and its ticks; `power`: values are shown divided by 10^power."""

    low: float
    high: float
    ticks: tuple[float, ...]
    power: int = 0

    def texts(self) -> list[str]:
        """What stands at the ticks."""
        shown = [each / 10.0**self.power for each in self.ticks]
        step = min((b - a for a, b in pairwise(shown)), default=1.0)
        digits = next(n for n in range(17) if n == 16 or abs(round(step, n) - step) < 1e-6 * step)
        return [f"{each + 0.0:.{digits}f}".replace("-", "\u2212") for each in (round(v, digits) for v in shown)]


def floor_of(unit: str, scale: float) -> float:
    """The size below which a quantity is nearly zero, beside others of its unit up to `scale`."""
    return NEARLY_ZERO * max(NATURAL.get(unit, SMALLEST), scale)


def largest(columns: Sequence[Array]) -> float:
    """The largest finite size, 0 without any."""
    return max((float(np.max(np.abs(each), where=np.isfinite(each), initial=0.0)) for each in columns), default=0.0)


def round_limits(columns: Sequence[Array], ticks: int = 4) -> Limits:
    """Limits that are round and contain all finite values with room on both sides, with about so many ticks.

    Those of constants contain zero.
    """
    shown = [each[np.abs(each) < GREATEST] for each in columns]
    values = np.concatenate(shown) if columns else np.zeros(0)
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    if all(np.ptp(each) <= CONSTANT * np.abs(each).max() for each in shown if len(each)):
        low, high = min(low, 0.0), max(high, 0.0)
    least = max(STEADY * max(abs(low), abs(high)), 1e-300)
    if high - low < least:
        middle = (low + high) / 2
        low, high = middle - least / 2, middle + least / 2
    pad = PADDING * (high - low)
    step = round_step((high - low) / ticks)
    part = step / 4
    low, high = np.floor((low - pad) / part) * part, np.ceil((high + pad) / part) * part
    count = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1)
    return Limits(float(low), float(high), tuple(float(each) for each in count * step), power_of(max(-low, high)))


def log_limits(columns: Sequence[Array], floor: float) -> Limits:
    """Whole decades around sizes above zero, at most 6 and none below the floor, unless a curve were not seen then.

    They do not reach down for the sake of a few notches where a size passes through zero.
    """
    sizes = [each[np.isfinite(each) & (each > 0)] for each in columns]
    sizes = [each for each in sizes if len(each)]
    highest = [float(each.max()) for each in sizes]
    top = int(np.ceil(np.log10(max(highest)) + 0.05))
    usual = float(np.quantile(np.concatenate(sizes), NOTCH))
    low = max(usual, floor, max(highest) * 10.0**-DECADES)
    low = min([low, *(each / 2 for each in highest if each > floor)])
    bottom = min(int(np.floor(np.log10(low))), top - 2)
    every = -(-(top - bottom) // 4)
    return Limits(10.0**bottom, 10.0**top, tuple(10.0**i for i in range(top, bottom - 1, -every))[::-1])


def time_limits(t: Array) -> tuple[float, float]:
    """From the first time to the last one, or to the next round one."""
    start, end = float(t[0]), float(t[-1])
    if not end > start:
        return start, start + 1.0
    fine = round_step((end - start) / 5) / 10
    return float(np.floor(start / fine + 1e-6) * fine), float(np.ceil(end / fine - 1e-6) * fine)


def round_step(size: float) -> float:
    """1, 2, 2.5 or 5 times a power of ten, at least the size."""
    power = 10.0 ** np.floor(np.log10(size))
    return float(next(each * power for each in STEPS if each * power >= size * (1 - 1e-9)))


def power_of(size: float) -> int:
    """The power of ten, by threes, by which values of this size are divided to be read easily; 0 for usual ones."""
    if size == 0 or 0.01 <= size < 1e5 or not np.isfinite(size):
        return 0
    return int(3 * np.floor(np.log10(size) / 3))


def apply(axis: Any, limits: Limits, logarithmic: bool = False) -> None:
    """Set limits and ticks of a vertical axis."""
    if logarithmic:
        from matplotlib.ticker import NullLocator

        axis.set_yscale("log")
        axis.yaxis.set_minor_locator(NullLocator())
        axis.set_yticks(limits.ticks)
    else:
        axis.set_yticks(limits.ticks, limits.texts())
    axis.set_ylim(limits.low, limits.high)
