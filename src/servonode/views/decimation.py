"""Decimation of long columns for drawing: at most one point for each pixel, peaks kept."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array

FLAT = 1.0  # of what lies within one piece to the height of a pixel, below which one point stands for it


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
