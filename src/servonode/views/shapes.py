"""What a machine's view draws at one instant, as data: pictures, the window, movies and the page all draw these."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.machine_section import parameters_at
from servonode.errors import ModelError
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource
from servonode.plants.view import View, Wanted
from servonode.views.limits import GREATEST

T = TypeVar("T")
ROUNDING = 1e-9  # of an arrow to the largest quantity of its unit, and of a gap to its line: only rounding errors
UNSEEN = 1e-3  # of an arrow to the largest one, below which it is not drawn
GROWTH = 1.5  # of the size that an arrow of full length stands for to the largest one so far
LONGEST, LONGEST_IN_STRIP = 0.22, 0.45  # of an arrow of full length to the lesser side of an axis that moves
USED = 0.4  # of the room that is used to the room there is, below which limits that follow are set anew


@dataclass(frozen=True)
class Instant:
    """A machine at one instant: states, inputs and outputs by name, and the parameters as they are then."""

    source: MachineSource
    values: Mapping[str, float]
    parameters: Mapping[str, float]

    @classmethod
    def of(cls, source: MachineSource, machine: Machine, t: float, values: Mapping[str, float]) -> Self:
        """The machine at time t [s], which is a value too."""
        return cls(source, {**values, "t": t}, parameters_at(machine, source, t))

    def given(self, function: Callable[[Mapping[str, float], Mapping[str, float]], T]) -> T:
        """What a view's function gives; what its source raises names the line."""
        result: T = self.source.definition.run(lambda: function(self.values, self.parameters))
        return result

    def lines(self, outline: Callable[..., Iterable[Any]] | None, size: int = 2) -> list[Array]:
        """Polylines (n, size)."""
        if outline is None:
            return []
        lines, file = self.given(lambda *names: list(outline(*names))), self.source.definition.file.name
        found = [points_of(line, f"{file}: line {i} of a view", size) for i, line in enumerate(lines)]
        return [line for line in found if len(line)]


@dataclass(frozen=True)
class Shapes:
    """Polylines (n, 2) [m], foot and vector (2, 2) of each arrow by legend name, a caption.

    Those `in_space` have points as the view gives them, `flat` ones as the picture shows them.
    """

    lines: list[Array]
    guides: list[Array]
    arrows: dict[str, Array]
    caption: str
    inertias: list[Array] = field(default_factory=list)

    @classmethod
    def of(cls, view: View, instant: Instant) -> Self:
        """What a view draws at an instant."""
        return cls.in_space(view, instant).flat(view)

    @classmethod
    def in_space(cls, view: View, instant: Instant) -> Self:
        """The same before it is projected."""
        given = instant.given(view.arrows) if view.arrows else {}
        arrows = {name: np.array([foot, vector], float) for name, (foot, vector) in given.items()}
        caption = instant.given(view.caption) if view.caption else ""
        lines, guides, inertias = (instant.lines(e, view.size) for e in (view.outline, view.guides, view.inertias))
        return cls(lines, guides, arrows, caption, inertias)

    def flat(self, view: View) -> Self:
        """What of it a picture shows."""
        if view.projection is None:
            return self
        lines, guides, inertias = (list(map(view.flat, each)) for each in (self.lines, self.guides, self.inertias))
        arrows = {name: view.flat(each) for name, each in self.arrows.items()}
        return replace(self, lines=lines, guides=guides, inertias=inertias, arrows=arrows)

    def bounding(self, view: View) -> list[Array]:
        """The lines that the limits of an axis contain: those of the machine, in a strip its guides too."""
        return [*self.lines, *self.inertias, *(self.guides if view.strip else ())]

    @property
    def thin(self) -> list[Array]:
        """Guides and inertias."""
        return [*self.guides, *self.inertias]


def is_closed(line: Array) -> bool:
    """Whether a polyline (n, 2) ends where it begins: the edge of a body."""
    return len(line) > 3 and bool((np.abs(line[0] - line[-1]) <= ROUNDING * np.ptp(line)).all())


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


def is_seen(length: float, machine: Machine, columns: Mapping[str, Array], unit: str) -> bool:
    """Whether an arrow of this length is more than rounding beside the machine's quantities of its unit."""
    description = machine.description
    quantities = (*description.state, *description.inputs, *description.outputs)
    sizes = [np.abs(columns[each.name]) for each in quantities if each.unit == unit and each.name in columns]
    usual = max((float(np.max(size, where=np.isfinite(size), initial=0.0)) for size in sizes), default=0.0)
    return length > ROUNDING * usual


def corners(lines: Iterable[Array]) -> tuple[Array, Array] | None:
    """Lowest and highest corner (2,) of the points of lines (n, 2) that are finite; None without any."""
    points = np.concatenate([np.zeros((0, 2)), *lines])
    points = points[(np.abs(points) < GREATEST / 10).all(axis=1)]
    return (points.min(axis=0), points.max(axis=0)) if len(points) else None


def box_of(lines: Iterable[Array]) -> tuple[Array, Array]:
    """The corners of lines; of some extent even where there is nothing."""
    low, high = corners(lines) or (np.full(2, -1.0), np.full(2, 1.0))
    least = 1e-6 * max(float(np.abs([low, high]).max()), 1e-3)
    return (low - least, high + least) if max(high - low) < least else (low, high)


def round_size(size: float) -> float:
    """1, 2 or 5 times a power of ten, at most the size (above zero)."""
    power = 10.0 ** np.floor(np.log10(size))
    return float(max(each * power for each in (1, 2, 5) if each * power <= size * (1 + 1e-9)))


def wanted_paths(closed_loop: ClosedLoop, view: View, low: Array, high: Array) -> dict[str, Array]:
    """Legend name -> polyline (n, 2) [m] of each path that is wanted, in the region between two corners (2,) [m].

    Raises as `wanted_in_space`.
    """
    return {name: view.flat(line) for name, line in wanted_in_space(closed_loop, view, low, high).items()}


def wanted_in_space(closed_loop: ClosedLoop, view: View, low: Array, high: Array) -> dict[str, Array]:
    """The same as polylines (n, size), before they are projected.

    {} where there is no controller or the view knows no path of its program.

    Raises:
        ModelError: what the view's source raises, with its line; a path is not made of points (n, size).
    """
    control, paths = closed_loop.control, view.paths
    if control is None or paths is None:
        return {}
    settings: dict[str, Any] = {**control.options, **control.law.parameters}
    start = dict(zip(closed_loop.machine.description.state_names, map(float, closed_loop.start), strict=False))
    wanted = Wanted(control.law.description.name, settings, start, np.asarray(low, float), np.asarray(high, float))
    found = closed_loop.source.definition.run(lambda: dict(paths(wanted)))
    file = closed_loop.source.definition.file.name
    words = {name: f"{file}: a view's path {name!r}" for name in found}
    return {name: points_of(line, words[name], view.size) for name, line in found.items()}


def points_of(line: Any, word: str, size: int = 2) -> Array:
    """A polyline (n, size) of a view; an empty one of any shape is (0, size).

    Raises:
        ModelError: it is not made of such points; the text begins with `word`.
    """
    try:
        points = np.asarray(line, float)
    except (TypeError, ValueError):
        raise ModelError(f"{word} is {str(line)[:40]!r}, not made of numbers; give points (n, {size})") from None
    if not points.size:
        return np.zeros((0, size))
    if points.ndim != 2 or points.shape[1] != size:
        raise ModelError(f"{word} has the shape {points.shape}; give points (n, {size})")
    return points
