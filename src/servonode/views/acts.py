"""When what is kept acts: a strip of bars above a panel of margins, with a lane for each keep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.controllers.engine.layout import CLIPPED
from servonode.views.palette import FAULT, GUIDE, INK, PALETTE, SHADE
from servonode.views.titles import Head

LANE, GAP = 0.07, 0.03  # in; height of a lane, and of what is free below and above them
LOW, HIGH = 0.45, 0.85  # of a lane: the height of a bar while a row acts, and while it gives way
SHORTEST = 1 / 300  # of the time; a bar that lasts less could not be seen
WORDS = {"acts": GUIDE, "gives way": FAULT, "clipped": INK}  # of the legend


@dataclass(frozen=True)
class Acts:
    """Of each keep 1 while a row of it acts, 0, and -1 while it gives way; how all is kept, as answers say."""

    active: Mapping[str, Array]
    keeping: Array

    def words(self) -> list[str]:
        """The entries of the legend that are drawn."""
        values = list(self.active.values())
        found = [any((each == 1).any() for each in values), any((each < 0).any() for each in values)]
        shown = zip(WORDS, [*found, bool((self.keeping == CLIPPED).any())], strict=True)
        return [word for word, is_shown in shown if is_shown]

    def bars(self, t: Array, height: float) -> tuple[list[Array], list[str]]:
        """Rectangles (4, 2) and their colours: over time, and in parts of an axis of this height [in], which they stand
        above.
        """
        corners, colours = list[Array](), list[str]()
        whole, n = t[[0, -1]][None], len(self.active)

        def add(spans: Array, colour: str, lane: int, part: float, lanes: int = 1) -> None:
            bottom = 1 + (GAP + LANE * (n - 1 - lane)) / height
            top = bottom + LANE * (lanes - 1 + part) / height
            corners.extend(np.array([[a, bottom], [b, bottom], [b, top], [a, top]]) for a, b in spans)
            colours.extend([colour] * len(spans))

        for lane, (values, colour) in enumerate(zip(self.active.values(), cycle(PALETTE), strict=False)):
            add(whole, SHADE, lane, LOW)
            add(spans_of(t, values, 1), colour, lane, LOW)
            add(spans_of(t, values, -1), FAULT, lane, HIGH)
        add(spans_of(t, self.keeping, CLIPPED), INK, n - 1, HIGH, n)
        return corners, colours


def spans_of(t: Array, values: Array, wanted: float) -> Array:
    """Begin and end (n, 2) of the times at which values are those wanted: each holds until the next that is known.

    Very short ones are longer; those that meet are one.
    """
    known = np.flatnonzero(np.isfinite(values))
    on = np.concatenate([[False], values[known] == wanted, [False]])
    begin, end = np.flatnonzero(on[1:] & ~on[:-1]), np.flatnonzero(on[:-1] & ~on[1:])
    if not len(begin):
        return np.zeros((0, 2))
    times = np.append(t[known], t[known[-1]])
    first = times[begin]
    last = np.maximum.accumulate(np.maximum(times[end], first + SHORTEST * (t[-1] - t[0])))
    anew = np.append(True, first[1:] > last[:-1])
    return np.column_stack([first[anew], last[np.append(anew[1:], True)]])


def lifted(head: Head, keeps: int) -> Head:
    """What stands above a panel of so many margins: above their strip."""
    return replace(head, lift=2 * GAP + LANE * keeps)


def strip_of(axis: Any) -> Any:
    """What shows bars above an axis, without any yet: a collection of matplotlib."""
    from matplotlib.collections import PolyCollection
    from matplotlib.transforms import blended_transform_factory

    where = blended_transform_factory(axis.transData, axis.transAxes)
    made = PolyCollection([], closed=True, linewidths=0, transform=where, clip_on=False)
    axis.add_collection(made, autolim=False)
    return made


def handles(words: Sequence[str]) -> list[Any]:
    """What stands for them in a legend."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], color=WORDS[each], linewidth=4.0, solid_capstyle="butt", label=each) for each in words]
