"""What `servonode compare` compares: the columns of a simulation, of a recorded run or of a CSV file, by name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.mechanics import rows
from servonode.record.run import Run

RESIDUAL = "residual_"
TIMES = ("t", "goal_t", "state_age")  # columns that say when, not what


class CompareError(ServonodeError, ValueError):
    """A source cannot be read or compared; the text says why."""


@dataclass(frozen=True)
class Compared:
    """One source: its time, its columns and their units by name. An unknown unit is not in `units`.

    A CSV file alone has no run: nobody says which of its columns are inputs, and where the target was. No CSV file
    says whether there was a fault.
    """

    name: str
    t: Array
    columns: dict[str, Array]
    units: dict[str, str] = field(default_factory=dict)
    run: Run | None = None
    goals: dict[str, Array] = field(default_factory=dict)
    faults_known: bool = True

    @classmethod
    def of_run(cls, name: str, run: Run, faults_known: bool = True) -> Self:
        """A simulation, or a run that was recorded."""
        description = run.closed_loop.machine.description
        units = {by_index(column): unit for column, unit in run.units.items()}
        units |= {each.name: each.unit for each in description.outputs}
        columns = {by_index(column): values for column, values in run.columns.items() if column not in TIMES}
        return cls(name, run.t, {**columns, **run.outputs}, units, run, run.targets, faults_known)

    @classmethod
    def of_table(cls, name: str, table: Mapping[str, Array]) -> Self:
        """A CSV file alone."""
        columns = {by_index(column): values for column, values in table.items() if column not in TIMES}
        return cls(name, table["t"], columns, faults_known=False)

    @property
    def residuals(self) -> list[str]:
        return [name for name in self.columns if name.startswith(RESIDUAL)]

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs; empty where they are not known."""
        return list(self.run.input) if self.run else []


def by_index(column: str) -> str:
    """The name of a column as views and panels have it: `n_0` of `n[0]`."""
    return re.sub(r"\[(\d+)\]$", r"_\1", column)


def read_csv(file: Path) -> dict[str, Array]:
    """The columns of a CSV file that `--out` has written.

    Raises:
        CompareError: it cannot be read or is not such a file.
    """
    try:
        with file.open(encoding="utf-8") as stream:
            names = stream.readline().strip().split(",")
            if names[0] != "t" or len(set(names)) != len(names):
                raise CompareError(
                    f"{file}: the first line does not name the columns t, ...; give a file that --out has written"
                )
            lines = [line for line in stream if line.strip()]
    except OSError as error:
        raise CompareError(f"{file}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise CompareError(f"{file}: is not a text; give a CSV file that --out has written") from error
    return _checked(file, names, lines)


def _checked(file: Path, names: list[str], lines: list[str]) -> dict[str, Array]:
    if not lines:
        raise CompareError(f"{file}: has no rows; there is nothing to compare")
    try:
        table: Any = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None)
    except ValueError as error:
        text = " ".join(str(error).partition(";")[0].split())
        raise CompareError(f"{file}: is damaged ({text}); give a CSV file that --out has written") from error
    if table.shape[1] != len(names):
        raise CompareError(f"{file}: has {len(names)} names and {table.shape[1]} columns; give a file of --out")
    if not (np.isfinite(table[:, 0]).all() and (np.diff(table[:, 0]) > 0).all()):
        raise CompareError(f"{file}: its times do not grow from row to row; give a CSV file that --out has written")
    return dict(zip(names, np.ascontiguousarray(table.T), strict=True))


def run_of_csv(file: Path, closed_loop: ClosedLoop) -> Run:
    """The run that wrote a CSV file, as far as the file tells, by its launch file.

    Raises:
        CompareError: the file has not the columns of that launch file.
    """
    table, machine = read_csv(file), closed_loop.machine
    description = machine.description
    residuals = [f"{RESIDUAL}{each.name}" for each in closed_loop.residuals]
    lacking = [each for each in (*description.columns, *description.input_names, *residuals) if each not in table]
    if lacking:
        launch = closed_loop.launch.name
        text = f"has no column {', '.join(lacking)} of {launch}"
        raise CompareError(f"{file}: {text}; it has {', '.join(table)}; name the launch file that it is of")
    t, states = table["t"], [table[column] for column in description.columns]
    x = np.column_stack([*states, np.zeros(len(t))])
    largest = {name: _largest(table[name]) for name in residuals}
    return Run(
        closed_loop=closed_loop,
        control="recorded",
        t=t,
        k=np.round(t * 1e9 / closed_loop.launch.step_ns).astype(np.int64),
        state=dict(zip(description.state_names, states, strict=True)),
        input={name: table[name] for name in description.input_names},
        residual={name.removeprefix(RESIDUAL): table[name] for name in residuals},
        energy=rows.energies(machine, t, x),
        work=np.full(len(t), np.nan),
        steps=round(t[-1] * 1e9 / closed_loop.launch.step_ns),
        wall_s=0.0,
        residual_max={name.removeprefix(RESIDUAL): value for name, value in largest.items()},
        goal_t=table.get("goal_t", t),
    )


def _largest(values: Array) -> float:
    return float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))
