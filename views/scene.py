"""What the views of a picture are drawn from: the machine at one instant; a run's values and a few instants of it."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from servonode.closed_loop.machine_section import parameters_at
from servonode.closed_loop.run import Run
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource
from servonode.plants.view import View

Array = npt.NDArray[np.float64]
T = TypeVar("T")
SNAPSHOTS = 9  # instants at which the outline is drawn
ROUNDING = 1e-9  # of an arrow to the largest quantity of its unit, at which it shows only rounding errors
WIDE = 2.2  # width over height from which a path wants the whole width of the picture


@dataclass(frozen=True)
class Instant:
    """A machine at one instant: states, inputs and outputs by name, and the parameters as they are then."""

    source: MachineSource
    values: Mapping[str, float]
    parameters: Mapping[str, float]

    @classmethod
    def of(cls, source: MachineSource, machine: Machine, t: float, values: Mapping[str, float]) -> Self:
        """The machine at time t [s]."""
        return cls(source, values, parameters_at(machine, source, t))

    def given(self, function: Callable[[Mapping[str, float], Mapping[str, float]], T]) -> T:
        """What a view's function gives; what its source raises names the line."""
        result: T = self.source.definition.run(lambda: function(self.values, self.parameters))
        return result

    def lines(self, outline: Callable[..., Iterable[Any]] | None) -> list[Array]:
        """Polylines (n, 2)."""
        return self.given(lambda *names: [np.asarray(line, float) for line in outline(*names)]) if outline else []

    def arrows(self, view: View) -> dict[str, Array]:
        """Foot and vector of each arrow, (2, 2), by legend name."""
        if view.arrows is None:
            return {}
        arrows = self.given(view.arrows)
        return {name: np.array([foot, vector], float) for name, (foot, vector) in arrows.items()}


@dataclass(frozen=True)
class Scene:
    """Values of a run. known: states, inputs and outputs of every row; goals: targets; instants: rows that are shown;
    fault: the one of them at which a fault was met.
    """

    run: Run
    known: dict[str, Array]
    goals: dict[str, Array]
    instants: list[int]
    fault: set[int]

    @classmethod
    def of(cls, run: Run) -> Self:
        """The scene of a run; its instants are spread evenly over time, both ends included, and a fault is one too."""
        instants = {int(i) for i in np.linspace(0, len(run.t) - 1, SNAPSHOTS)}
        fault = {int(np.argmin(np.abs(run.t - run.fault["t"])))} if run.fault else set()
        known = {**run.state, **run.outputs(), **run.input}
        return cls(run, known, run.targets(), sorted(instants | fault), fault)

    def instant(self, i: int) -> Instant:
        """The machine at row i."""
        values = {name: float(column[i]) for name, column in self.known.items()}
        return Instant.of(self.run.closed_loop.source, self.run.closed_loop.machine, float(self.run.t[i]), values)

    def at(self, i: int, function: Callable[[Mapping[str, float], Mapping[str, float]], T]) -> T:
        """What a view's function gives at row i; what its source raises names the line."""
        return self.instant(i).given(function)

    def lines(self, i: int, outline: Callable[..., Iterable[Any]] | None) -> list[Array]:
        """Polylines (n, 2) at row i."""
        return self.instant(i).lines(outline)

    def arrows(self, i: int, view: View) -> dict[str, Array]:
        """Foot and vector of each arrow at row i, (2, 2), by legend name."""
        return self.instant(i).arrows(view)

    def largest(self, views: Sequence[View]) -> float:
        """The length of the longest arrow of the views, which have one unit; 0 where all are rounding errors."""
        arrows = [each for view in views for i in self.instants for each in self.arrows(i, view).values()]
        lengths = [float(np.hypot(*vector)) for _, vector in arrows]
        longest = max((each for each in lengths if np.isfinite(each)), default=0.0)
        units = {view.arrow_unit for view in views}
        return longest if longest > ROUNDING * usual(self.run.closed_loop.machine, self.known, units) else 0.0

    def path(self, pair: tuple[str, str]) -> Array:
        """The path (2, rows) of two values."""
        return np.array([self.known[name] for name in pair])

    def is_wide(self, view: View) -> bool:
        """Whether it is much wider than high, so that it wants the whole width; a strip always does."""
        if view.strip or not view.trails:
            return view.strip
        outlines = [line.T for i in self.instants for line in self.lines(i, view.outline)]
        across, up = np.concatenate([*(self.path(pair) for pair in view.trails.values()), *outlines], axis=1)
        return bool(np.ptp(across) > WIDE * np.ptp(up))


def usual(machine: Machine, columns: Mapping[str, Array], units: Container[str]) -> float:
    """The largest size in these columns of a machine's quantities of certain units, 0 without any."""
    description = machine.description
    quantities = (*description.state, *description.inputs, *description.outputs)
    sizes = [np.abs(columns[each.name]) for each in quantities if each.unit in units and each.name in columns]
    return max((float(np.max(size, where=np.isfinite(size), initial=0.0)) for size in sizes), default=0.0)
