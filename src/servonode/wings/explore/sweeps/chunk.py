"""A chunk of a sweep: runs of one closed loop with many values of its numbers, and their measures."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace as struct_replace

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.variation import Variation
from servonode.definitions.cache import CacheError
from servonode.definitions.progress import PERIOD, task
from servonode.errors import ServonodeError
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.recorder import check_size
from servonode.record.run import Run, default_every
from servonode.simulation.fused_loop import fused_loop, rows_of
from servonode.simulation.simulate import can_fuse, check_length, simulate_nodes
from servonode.wings.explore.sweeps.measures import REFUSED, TEXTS, Measures, RecordedColumns, columns_of_run, places_of


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
    return closed_loop.with_parts(launch=struct_replace(launch, times=times))


@dataclass(frozen=True)
class Chunk:
    """The runs of a chunk, n of them.

    values (n, number of keys): of the variation's keys. measures: (n,) each, nan where a run gave none; texts are
    objects. reasons: of each run why it did not complete, "" where it did; ended: the same by its parts. histories, on
    request: each column (n, rows) by its name, nan after the end of a run, and from a fault on.
    """

    values: Array
    measures: dict[str, Array]
    reasons: list[str]
    histories: dict[str, Array]
    ended: Sequence[Ended | None] = ()


def run_chunk(variation: Variation, values: Array, measures: Measures, threads: int = 1) -> Chunk:
    """The runs with these values (n, number of keys), each as `simulate` computes it.

    A run that is refused or ended by a fault has the reason in its row. The numbers are the same for any number of
    threads: the compiled loops hold no interpreter lock.
    """
    outcomes: list[Outcome | None] = [None] * len(values)
    left = deque(enumerate(values.tolist()))

    told = task()
    begun = told.done

    def tell() -> None:
        told.at(begun + len(outcomes) - outcomes.count(None))

    def work() -> None:
        runner = Runner(variation, measures)
        while left:
            try:
                i, row = left.popleft()
            except IndexError:  # another thread took the last one
                return
            outcomes[i] = runner.run(row)
            if threads == 1:
                tell()

    if threads == 1:
        work()
    else:
        _in_threads(work, left, threads, tell)
        tell()
    return _chunk(values, measures, [each for each in outcomes if each is not None])


def _in_threads(work: Callable[[], None], left: deque[Any], threads: int, tell: Callable[[], None]) -> None:
    """Do the work in threads, and tell meanwhile how far it has come.

    Where one fails, or this one is interrupted, the others end after their present run.
    """
    with ThreadPoolExecutor(threads) as pool:
        try:
            for each in [pool.submit(work) for _ in range(threads)]:
                while not wait([each], PERIOD).done:
                    tell()
                each.result()
        except BaseException:
            left.clear()
            raise


def _chunk(values: Array, measures: Measures, outcomes: Sequence[Outcome]) -> Chunk:
    kept = {
        name: np.array([each.measures[name] for each in outcomes], dtype=object if name in TEXTS else float)
        for name in measures.names
    }
    reasons, ended = [each.reason for each in outcomes], [each.ended for each in outcomes]
    return Chunk(values, kept, reasons, _histories(outcomes, measures), ended)


def _histories(outcomes: Sequence[Outcome], measures: Measures) -> dict[str, Array]:
    """The columns of all runs, nan after the end of each."""
    found: list[Mapping[str, Array]] = [each.columns or {} for each in outcomes]
    rows = max((len(columns["t"]) for columns in found if columns), default=0)
    histories = {name: np.full((len(found), rows), np.nan) for name in measures.columns if measures.histories}
    for i, columns in enumerate(found):
        for name, values in columns.items():
            histories[name][i, : len(values)] = values
    return histories
