"""The columns of a run that measures are taken of, by the same names whether a Run or the compiled loop has them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics import rows
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.run import Run
from servonode.record.run_rows import held_index

Columns = Callable[[str], Array]  # a column of the run by its name


def column_units(closed_loop: ClosedLoop) -> dict[str, str]:
    """The unit of each column that measures may use, by its name: t, states, work, inputs, residuals and so on."""
    description, control = closed_loop.machine.description, closed_loop.control
    units = {"t": "s"} | {each.name: each.unit for each in description.state} | {"work": "J"}
    units |= {each.name: each.unit for each in description.inputs}
    units |= {f"residual_{each.name}": each.unit for each in closed_loop.residuals}
    if control is not None:
        program = control.law.description
        units |= {f"scale_{each.name}": "1" for each in program.limits}
        units |= {each.name: each.unit for each in program.states}
    return units | {"energy": "J"}


def columns_of_run(run: Run) -> dict[str, Array]:
    """The columns of a run by the names of `column_units`."""
    columns: dict[str, Any] = {"t": run.t, **run.state, "work": run.work, **run.input}
    columns |= {f"residual_{name}": values for name, values in run.residual.items()}
    columns |= {f"scale_{name}": values for name, values in run.scale.items()}
    return columns | run.program_state | {"energy": run.energy}


def known_rows(columns: Sequence[Array], t: Array) -> tuple[Sequence[Array], Array]:
    """The columns and times without the rows at which a column is nan, as a residual is where the state was lost.

    All rows where none is left.
    """
    if not any(np.isnan(each).any() for each in columns):
        return columns, t
    known = ~np.any([np.isnan(each) for each in columns], axis=0)
    return ([each[known] for each in columns], t[known]) if known.any() else (columns, t)


class RecordedColumns:
    """The columns of a run in the two records that the compiled loop has filled: views where that is possible.

    table: the plant's rows. answers: the controller's, of a run that came to its end.
    """

    def __init__(self, closed_loop: ClosedLoop, places: Mapping[str, tuple[bool, int]], table: Array, answers: Array):
        """places: see `places_of`."""
        self._closed_loop, self._places, self._table, self._answers = closed_loop, places, table, answers
        self._part = PlantRecordLayout.of(closed_loop.machine.description)
        self.t: Array = table[:, 0] * closed_loop.launch.step_ns / 1e9
        self._held: Any = None  # the answer of each row, where it is not the answer of the same number

    def __call__(self, name: str) -> Array:
        """The column of this name."""
        if name in self._places:
            answered, at = self._places[name]
            return self._answered(at) if answered else self._table[:, at]
        if name == "t":
            return self.t
        machine = self._closed_loop.machine
        x = np.ascontiguousarray(self._table[:, self._part.x])
        if name == "energy":
            return rows.energies(machine, self.t, x)
        reactions = [f"residual_{each.name}" for each in machine.description.stabilised]
        at = len(machine.description.constraints) + reactions.index(name)
        return rows.residuals(machine, self.t, x)[:, at]

    def _answered(self, at: int) -> Array:
        """A column of the controller's record, repeated until the next answer."""
        if np.array_equal(self._answers[:, 0], self._table[:, 0]):
            return self._answers[:, at]
        if self._held is None:
            k, period = self._table[:, 0].astype(np.int64), self._closed_loop.launch.steps_per_period or 1
            self._held = held_index(k, self._answers[:, 0], period)
        index, answered = self._held
        return np.where(answered, self._answers[index, at], np.nan)


def places_of(closed_loop: ClosedLoop) -> dict[str, tuple[bool, int]]:
    """Where the compiled loop records a column: whether in the controller's record, and in which column of it."""
    machine, control = closed_loop.machine.description, closed_loop.control
    columns = PlantRecordLayout.of(machine).columns(machine)
    part = PlantRecordLayout.of(machine).computed
    places = {name: (False, i) for i, name in enumerate(columns[part]) if i > 0}
    if control is None:
        return places
    program, kept = control.law.description, control.law.record_layout
    for prefix, quantities, columns_of in (
        ("residual_", program.residuals, kept.residuals),
        ("scale_", program.limits, kept.scales),
        ("", program.states, kept.states),
    ):
        places |= {f"{prefix}{each.name}": (True, columns_of.start + i) for i, each in enumerate(quantities)}
    return places
