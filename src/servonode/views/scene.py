"""What the views of a picture are drawn from: a run's values, and what its views draw at a few instants of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from servonode.arrays import Array
from servonode.plants.view import View
from servonode.record.run import Run
from servonode.views.shapes import Instant, Shapes, is_seen, longest_arrow

SNAPSHOTS = 9  # instants at which the outline is drawn
MAGNIFIED, READABLE = (5.0, 2.0), np.radians(30.0)  # factors of a lean, and how far it may lean when it is drawn
# a lean below this all the time, or this part of the largest, counts as no lean
STRAIGHT, NEARLY = np.radians(0.05), 0.02
WIDE = 2.2  # width over height from which a path wants the whole width of the picture


@dataclass(frozen=True)
class Scene:
    """Values of a run. known: states, inputs and outputs of every row; goals: targets; instants: rows that are shown;
    fault: the one of them at which a fault was met. beyond: the row from which a fault condition of the machine is met
    to the end, such as that it has fallen, so that its model may not describe it; None where it is not met there.
    """

    run: Run
    known: dict[str, Array]
    goals: dict[str, Array]
    instants: list[int]
    fault: set[int]
    beyond: int | None
    _drawn: dict[tuple[int, int], tuple[View, Shapes]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, run: Run) -> Self:
        """The scene of a run; its instants are spread evenly over time, both ends included, and a fault is one too."""
        fault = {int(np.argmin(np.abs(run.t - run.fault["t"])))} if run.fault else set()
        known = {**run.state, **run.outputs, **run.input}
        scene = cls(run, known, run.targets, [], fault, first_beyond(run))
        instants = {int(i) for i in np.linspace(0, scene.last, SNAPSHOTS)}
        return replace(scene, instants=sorted(instants | fault))

    @property
    def last(self) -> int:
        """The last row at which the machine is shown."""
        return len(self.run.t) - 1 if self.beyond is None else max(self.beyond, *self.fault, 0)

    @property
    def beyond_name(self) -> str:
        """The name of the fault condition that is met to the end; empty without one."""
        if self.beyond is None:
            return ""
        machine = self.run.closed_loop.machine
        violated = machine.fault(float(self.run.t[-1]), kernel_state(self.run, -1))
        return violated.name if violated else ""

    def instant(self, i: int) -> Instant:
        """The machine at row i."""
        values = {name: float(column[i]) for name, column in self.known.items()}
        return Instant.of(self.run.closed_loop.source, self.run.closed_loop.machine, float(self.run.t[i]), values)

    def shapes(self, i: int, view: View) -> Shapes:
        """What a view draws at row i; it is asked once."""
        if (i, id(view)) not in self._drawn:
            self._drawn[i, id(view)] = view, Shapes.of(view, self.instant(i))
        return self._drawn[i, id(view)][1]

    def largest(self, views: Sequence[View]) -> float:
        """The length of the longest arrow of the views, which have one unit; 0 where all are rounding errors."""
        longest = longest_arrow(self.shapes(i, view) for view in views for i in self.instants)
        machine = self.run.closed_loop.machine
        return longest if any(is_seen(longest, machine, self.known, view.arrow_unit) for view in views) else 0.0

    def views(self) -> tuple[View, ...]:
        """The machine's views with leans as they can be seen; strips in which nothing ever leans are left out."""
        views = self.run.closed_loop.views
        shown = [self.instant(i) for i in self.instants]
        return readable(views, [max((abs(at.given(each.lean)) for at in shown), default=0.0) if each.lean else None
                                for each in views])  # fmt: skip

    def path(self, view: View, names: tuple[str, ...]) -> Array:
        """The path (2, rows) of the values of a trail."""
        return view.path(self.known, names).T


def first_beyond(run: Run) -> int | None:
    """The row from which a fault condition of the machine is met to the end; None where it is not met there."""
    machine, last = run.closed_loop.machine, len(run.t) - 1
    row = last
    while row >= 0 and machine.fault(float(run.t[row]), kernel_state(run, row)):
        row -= 1
    return None if row == last else row + 1


def kernel_state(run: Run, row: int) -> Array:
    """The state of the machine at a row, as its kernel takes it; without the work."""
    return np.array([*(column[row] for column in run.state.values()), 0.0])


def readable(views: Sequence[View], leans: Sequence[float | None]) -> tuple[View, ...]:
    """The views with leans magnified alike where all are small. leans: largest of each view [rad], None without any.

    A view that is without a lean all the time is left out where another one has some.
    """
    largest = max((each for each in leans if each is not None), default=0.0)
    return tuple(magnified(view, largest) for view, shown in zip(views, leaning(leans), strict=True) if shown)


def leaning(leans: Sequence[float | None]) -> list[bool]:
    """Which views are shown: those without a lean [rad] (None), of the others those that lean; all where none does."""
    largest = max((each for each in leans if each is not None), default=0.0)
    least = max(STRAIGHT, NEARLY * largest)
    return [largest <= STRAIGHT or each is None or each > least for each in leans]


def magnified(view: View, lean: float) -> View:
    """The view with its lean magnified as the largest lean [rad] of a run allows."""
    factor = magnification(lean)
    return view.magnified(factor) if view.magnified and factor > 1.0 else view


def magnification(lean: float) -> float:
    """By how much a lean [rad] is magnified so that it can be seen, 1 where it is large enough or none at all."""
    fit = [factor for factor in MAGNIFIED if factor * lean <= READABLE]
    return fit[0] if fit and lean > STRAIGHT else 1.0
