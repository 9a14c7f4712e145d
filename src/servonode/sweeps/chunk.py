"""A chunk of a sweep: runs of one closed loop with many values of its numbers, and their measures."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.variation import Variation
from servonode.sweeps.measures import TEXTS, Measures
from servonode.sweeps.runner import Ended, Outcome, Runner


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

    def work() -> None:
        runner = Runner(variation, measures)
        while left:
            try:
                i, row = left.popleft()
            except IndexError:  # another thread took the last one
                return
            outcomes[i] = runner.run(row)

    if threads == 1:
        work()
    else:
        _in_threads(work, left, threads)
    return _chunk(values, measures, [each for each in outcomes if each is not None])


def _in_threads(work: Callable[[], None], left: deque[Any], threads: int) -> None:
    """Do the work in threads; where one fails, or this one is interrupted, the others end after their present run."""
    with ThreadPoolExecutor(threads) as pool:
        try:
            for each in [pool.submit(work) for _ in range(threads)]:
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
