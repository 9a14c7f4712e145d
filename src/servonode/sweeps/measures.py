"""What is kept of each run of a sweep: its measures, numbers of the run, and its histories on request."""

from collections.abc import Mapping

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.variation import Variation
from servonode.errors import StatementError
from servonode.record.run import Run
from servonode.sweeps.columns import Columns, column_units, columns_of_run, known_rows
from servonode.sweeps.expressions import ColumnMeasure, StatedMeasure

SETTLED = 0.02  # share of its largest magnitude within which a residual has settled
ROUNDING = 1e-6  # magnitude of a residual that has never been disturbed
TEXTS = ("fault",)  # the measures that are texts
OF_FAULTS = ("duration", "fault", "fault_time")  # what a run that a fault ended has, too
STORED = ("run", "reason", "progress")  # names that stand beside measures in the results of a sweep
REFUSED = "refused"  # the fault of a run that was refused before it began


class Measures:
    """The measures of a run, by name.

    residual_NAME_largest, residual_NAME_final: the largest and the last magnitude of each residual. effort_INPUT: the
    integral of the square of each input, held over each row [its unit squared s]. settle_time [s]: from when on each
    residual stays within 2 % of its largest magnitude; nan where one has not settled at the end. duration [s]: of the
    run. fault: the name of the fault that ended it, "" where it completed, "refused" where it could not begin;
    fault_time [s]. Then the stated ones, see `StatedMeasure`. Rows whose state was lost have no residuals, and count
    for none of it. All of them but duration, fault and fault_time are nan for a run that a fault ended. histories:
    whether the columns of each run are kept too.
    """

    def __init__(
        self, variation: Variation, stated: Mapping[str, str | ColumnMeasure], histories: bool = False
    ) -> None:
        """Raises StatementError: a stated measure is no expression of columns, or has the name of another one."""
        base = variation.base
        self.histories = histories
        self.columns = column_units(base)
        self._residuals = [f"residual_{each.name}" for each in base.residuals]
        self._inputs = {each.name: each.unit for each in base.machine.description.inputs}
        units: dict[str, str] = {}
        for name in self._residuals:
            units |= {f"{name}_largest": self.columns[name], f"{name}_final": self.columns[name]}
        units |= {f"effort_{name}": f"({unit})^2 s" for name, unit in self._inputs.items()}
        units |= {"settle_time": "s", "duration": "s", "fault": "", "fault_time": "s"}
        for name in stated:
            if text := self._unfit(name, units):
                raise StatementError(f"measure {name}: {text}; give it another name")
        self._stated = {
            name: StatedMeasure(name, each, self.columns) if isinstance(each, str) else each
            for name, each in stated.items()
        }
        self._units = units | dict.fromkeys(stated, "")

    def _unfit(self, name: str, known: Mapping[str, str]) -> str:
        """Why a stated measure cannot have this name; empty where it can."""
        if name in self.columns:
            return "is a column of the run"
        if name in known or name in STORED:
            return "there is such a measure already"
        return "" if name.isidentifier() else "not a name of letters, digits and _"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._units)

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of each measure; "" of texts and of stated ones."""
        return tuple(self._units.values())

    def of_run(self, run: Run) -> dict[str, float | str]:
        """The measures of a run."""
        if run.fault is not None:
            return self.of_fault(str(run.fault["name"]), float(run.fault["t"]))
        return self.of_columns(run.t, columns_of_run(run).__getitem__)

    def of_fault(self, fault: str, time: float) -> dict[str, float | str]:
        """The measures of a run that a fault ended at this time [s]; nan: it never began."""
        found: dict[str, float | str] = dict.fromkeys(self._units, np.nan)
        return found | {"fault": fault, "fault_time": time, "duration": 0.0 if np.isnan(time) else time}

    def of_columns(self, t: Array, columns: Columns) -> dict[str, float | str]:
        """The measures of a run that completed, whose rows are at times t [s]."""
        found: dict[str, float | str] = {}
        settled = [0.0]
        for name in self._residuals:
            (column,), times = known_rows([columns(name)], t)
            size = np.abs(column)
            largest = float(np.max(size))
            found |= {f"{name}_largest": largest, f"{name}_final": float(size[-1])}
            settled.append(_settled(times, size, largest))
        held = np.diff(t)
        for name in self._inputs:
            found[f"effort_{name}"] = float(np.square(columns(name)[:-1]) @ held)
        found |= {"settle_time": float(np.max(settled)), "duration": float(t[-1]), "fault": "", "fault_time": np.nan}
        return found | {name: each.of(t, columns) for name, each in self._stated.items()}


def _settled(t: Array, size: Array, largest: float) -> float:
    """The time [s] from which on a residual of these magnitudes stays within its band; nan: it has not settled."""
    outside = np.flatnonzero(~(size <= SETTLED * largest))
    if largest <= ROUNDING or not len(outside):
        return 0.0
    return float(t[outside[-1] + 1]) if outside[-1] + 1 < len(t) else np.nan
