"""A chunk of a sweep: runs of one closed loop with many values of its numbers, and their measures."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.variation import Variation
from servonode.definitions.cache import CacheError
from servonode.errors import ServonodeError
from servonode.record.run import Run, default_every
from servonode.simulation.simulate import simulate_fused
from servonode.sweeps.measures import REFUSED, TEXTS, Measures, columns_of_run


@dataclass(frozen=True)
class Chunk:
    """The runs of a chunk, n of them.

    values (n, number of keys): of the variation's keys. measures: (n,) each, nan where a run gave none; texts are
    objects. reasons: of each run why it did not complete, "" where it did. histories, on request: each column (n, rows)
    by its name, nan after the end of a run.
    """

    values: Array
    measures: dict[str, Array]
    reasons: list[str]
    histories: dict[str, Array]


@dataclass(frozen=True)
class _Outcome:
    """What is kept of a run."""

    measures: Mapping[str, float | str]
    reason: str = ""
    columns: Mapping[str, Array] | None = None


def run_chunk(variation: Variation, values: Array, measures: Measures, threads: int = 1) -> Chunk:
    """The runs with these values (n, number of keys), each as `simulate` computes it.

    A run that is refused or ended by a fault has the reason in its row. The numbers are the same for any number of
    threads.
    """
    with ThreadPoolExecutor(threads) as pool:
        outcomes = list(pool.map(lambda row: _outcome(variation, row, measures), values.tolist()))
    kept = {name: _column(name, [each.measures[name] for each in outcomes]) for name in measures.names}
    return Chunk(values, kept, [each.reason for each in outcomes], _histories(outcomes, measures))


def _outcome(variation: Variation, values: Sequence[float], measures: Measures) -> _Outcome:
    """One run."""
    try:
        closed_loop = variation.at(values)
        closed_loop.check_known_goals()
        run = simulate_fused(closed_loop, default_every(closed_loop))
    except CacheError:
        raise
    except (ServonodeError, ArithmeticError, ValueError) as error:
        return _Outcome(measures.of_fault(REFUSED, np.nan), str(error))
    return _Outcome(measures.of_run(run), _reason(run), columns_of_run(run) if measures.histories else None)


def _reason(run: Run) -> str:
    return "" if run.fault is None else f"{run.fault['name']}: {run.fault['text']}"


def _column(name: str, values: list[Any]) -> Array:
    return np.array(values, dtype=object if name in TEXTS else float)


def _histories(outcomes: Sequence[_Outcome], measures: Measures) -> dict[str, Array]:
    """The columns of all runs, nan after the end of each."""
    found = [each.columns or {} for each in outcomes]
    rows = max((len(columns["t"]) for columns in found if columns), default=0)
    histories = {name: np.full((len(found), rows), np.nan) for name in measures.columns if measures.histories}
    for i, columns in enumerate(found):
        for name, values in columns.items():
            histories[name][i, : len(values)] = values
    return histories
