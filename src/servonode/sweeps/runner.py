"""Runs of a sweep, one after the other: what they have in common is prepared once, and arrays are used again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace as struct_replace

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.variation import Variation
from servonode.definitions.cache import CacheError
from servonode.errors import ServonodeError
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.recorder import check_size
from servonode.record.run import Run, default_every
from servonode.simulation.fused_loop import fused_loop, rows_of
from servonode.simulation.simulate import can_fuse, check_length, simulate_nodes
from servonode.sweeps.columns import RecordedColumns, columns_of_run, places_of
from servonode.sweeps.measures import REFUSED, Measures


class Ended(NamedTuple):
    """Why a run did not complete, without what it is called: of a refusal with the section and key that it names."""

    text: str
    section: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What is kept of a run. reason: why it did not complete. columns: its histories."""

    measures: Mapping[str, float | str]
    reason: str = ""
    columns: Mapping[str, Array] | None = None
    ended: Ended | None = None  # the reason by its parts


class Runner:
    """The runs of one thread."""

    def __init__(self, variation: Variation, measures: Measures) -> None:
        self._variation, self._measures = variation, measures
        self._places = places_of(variation.base)
        self._records = (np.zeros((0, 0)), np.zeros((0, 0)))  # of plant and controller

    def run(self, values: Sequence[float]) -> Outcome:
        """The run with these values; one that is refused, or ended by a fault, says why."""
        try:
            closed_loop = self._variation.at(values)
            closed_loop.check_known_goals()
            check_length(closed_loop)
            if can_fuse(closed_loop):
                return self._fused(closed_loop)
            return self._of_run(simulate_nodes(closed_loop, default_every(closed_loop)))
        except CacheError:
            raise
        except LaunchError as error:
            ended = Ended(error.text, error.section, error.key)
            return Outcome(self._measures.of_fault(REFUSED, np.nan), str(error), ended=ended)
        except (ServonodeError, ArithmeticError, ValueError) as error:
            return Outcome(self._measures.of_fault(REFUSED, np.nan), str(error), ended=Ended(str(error)))

    def _fused(self, closed_loop: ClosedLoop) -> Outcome:
        """A run in the compiled loop; the nodes say what follows where it stops, unless that is known."""
        every = default_every(closed_loop)
        table, answers = self._tables(closed_loop, every)
        ended = fused_loop(closed_loop, every, table, answers)
        if ended.completed:
            columns = RecordedColumns(closed_loop, self._places, table, answers[: ended.answers])
            return Outcome(self._measures.of_columns(columns.t, columns), "", self._histories(columns))
        fault = ended.fault
        if fault is None:
            run = simulate_nodes(_shortened(closed_loop, ended.stopped), every)
            return self._of_run(run if run.faults else simulate_nodes(closed_loop, every))
        before = -(-ended.stopped // every)
        columns = RecordedColumns(closed_loop, self._places, table[:before], answers[: ended.answers])
        found = self._measures.of_fault(fault.name, fault.t)
        return Outcome(found, f"{fault.name}: {fault.text}", self._histories(columns), Ended(fault.text))

    def _histories(self, columns: RecordedColumns) -> Mapping[str, Array] | None:
        """Copies of all columns, on request."""
        return {name: columns(name).copy() for name in self._measures.columns} if self._measures.histories else None

    def _tables(self, closed_loop: ClosedLoop, every: int) -> tuple[Array, Array]:
        """The two records, as long as the run needs."""
        launch, control = closed_loop.launch, closed_loop.control
        counts = rows_of(launch.steps, every), launch.steps // (launch.steps_per_period or 1) + 1 if control else 0
        if any(len(record) < count for record, count in zip(self._records, counts, strict=True)):
            plant = PlantRecordLayout.of(closed_loop.machine.description)
            widths = plant.computed.stop, control.law.record_layout.size if control else 0
            check_size(max(counts), max(widths))
            self._records = np.zeros((counts[0], widths[0])), np.zeros((counts[1], widths[1]))
        table, answers = self._records
        return table[: counts[0]], answers[: counts[1]]

    def _of_run(self, run: Run) -> Outcome:
        fault, columns = run.fault, columns_of_run(run) if self._measures.histories else None
        reason = "" if fault is None else f"{fault['name']}: {fault['text']}"
        if columns and fault is not None:
            before = int(np.searchsorted(run.t, fault["t"]))
            columns = {name: values[:before] for name, values in columns.items()}
        ended = None if fault is None else Ended(str(fault["text"]))
        return Outcome(self._measures.of_run(run), reason, columns, ended)


def _shortened(closed_loop: ClosedLoop, steps: int) -> ClosedLoop:
    """The closed loop for a run that ends at the first instant behind so many steps at which the nodes look."""
    launch = closed_loop.launch
    steps += max(launch.steps_per_period or 1, launch.plant.publish_every)
    if steps >= launch.steps:
        return closed_loop
    times = struct_replace(launch.times, duration_ns=steps * launch.step_ns)
    return replace(closed_loop, launch=struct_replace(launch, times=times))
