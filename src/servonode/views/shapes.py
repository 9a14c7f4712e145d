"""What a machine's view draws at one instant, as data: pictures, the window, movies and the page all draw these."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.machine import Machine
from servonode.plants.view import View
from servonode.views.limits import GREATEST
from servonode.views.scene import Instant, is_seen

UNSEEN = 1e-3  # of an arrow to the largest one, below which it is not drawn
GROWTH = 1.5  # of the size that an arrow of full length stands for to the largest one so far
LONGEST, LONGEST_IN_STRIP = 0.22, 0.45  # of an arrow of full length to the lesser side of an axis that moves
USED = 0.4  # of the room that is used to the room there is, below which limits that follow are set anew


@dataclass(frozen=True)
class Shapes:
    """Polylines (n, 2) [m] of machine and guides, foot and vector (2, 2) of each arrow by legend name, a caption."""

    lines: list[Array]
    guides: list[Array]
    arrows: dict[str, Array]
    caption: str

    @classmethod
    def of(cls, view: View, instant: Instant) -> Self:
        """What a view draws at an instant."""
        caption = instant.given(view.caption) if view.caption else ""
        return cls(instant.lines(view.outline), instant.lines(view.guides), instant.arrows(view), caption)

    def bounding(self, view: View) -> list[Array]:
        """The lines that the limits of an axis contain: those of the machine, in a strip its guides too."""
        return [*self.lines, *(self.guides if view.strip else ())]


class ArrowScale:
    """The size that an arrow of full length stands for, in one view of a run that continues; 0 before there is any."""

    def __init__(self, view: View, machine: Machine) -> None:
        self._unit, self._machine = view.arrow_unit, machine
        self.largest = 0.0

    def follow(self, shapes: Sequence[Shapes], columns: Mapping[str, Array]) -> bool:
        """Take the arrows of these shapes into account; whether the scale has changed."""
        longest = longest_arrow(shapes)
        grows = longest > self.largest and is_seen(longest, self._machine, columns, self._unit)
        self.largest = GROWTH * longest if grows else self.largest
        return grows

    def shows(self, vector: Array) -> bool:
        """Whether an arrow is long enough to be visible."""
        return bool(self.largest and UNSEEN * self.largest < np.hypot(*vector) < np.inf)


def longest_arrow(shapes: Iterable[Shapes]) -> float:
    """The length of the longest arrow, in its unit; 0 without any."""
    sizes = [float(np.hypot(*vector)) for each in shapes for _, vector in each.arrows.values()]
    return max((size for size in sizes if np.isfinite(size)), default=0.0)


def box_of(lines: Iterable[Array]) -> tuple[Array, Array]:
    """Lowest and highest corner (2,) of what is finite; of some extent even where there is nothing."""
    points = np.concatenate([np.zeros((0, 2)), *lines])
    points = points[(np.abs(points) < GREATEST / 10).all(axis=1)]
    if not len(points):
        return np.full(2, -1.0), np.full(2, 1.0)
    low, high = points.min(axis=0), points.max(axis=0)
    least = 1e-6 * max(float(np.abs(points).max()), 1e-3)
    return (low - least, high + least) if max(high - low) < least else (low, high)


def round_size(size: float) -> float:
    """1, 2 or 5 times a power of ten, at most the size (above zero)."""
    power = 10.0 ** np.floor(np.log10(size))
    return float(max(each * power for each in (1, 2, 5) if each * power <= size * (1 + 1e-9)))
