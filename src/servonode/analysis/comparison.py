"""What `servonode compare` compares: columns of simulations, recorded runs or CSV files, by name; their numbers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.record.run import Run, json_number

ROUNDING = 1e-9  # of a column to the largest of its unit, below which it holds only rounding errors
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
    """The columns of a CSV file that `--output` has written.

    Raises:
        CompareError: it cannot be read or is not such a file.
    """
    try:
        with file.open(encoding="utf-8") as stream:
            names = stream.readline().strip().split(",")
            if names[0] != "t" or len(set(names)) != len(names):
                raise CompareError(
                    f"{file}: the first line does not name the columns t, ...; give a file that --output has written"
                )
            lines = [line for line in stream if line.strip()]
    except OSError as error:
        raise CompareError(f"{file}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise CompareError(f"{file}: is not a text; give a CSV file that --output has written") from error
    return _checked(file, names, lines)


def _checked(file: Path, names: list[str], lines: list[str]) -> dict[str, Array]:
    if not lines:
        raise CompareError(f"{file}: has no rows; there is nothing to compare")
    try:
        table: Any = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None)
    except ValueError as error:
        text = " ".join(str(error).partition(";")[0].split())
        raise CompareError(f"{file}: is damaged ({text}); give a CSV file that --output has written") from error
    if table.shape[1] != len(names):
        raise CompareError(f"{file}: has {len(names)} names and {table.shape[1]} columns; give a file of --output")
    if not (np.isfinite(table[:, 0]).all() and (np.diff(table[:, 0]) > 0).all()):
        raise CompareError(f"{file}: its times do not grow from row to row; give a CSV file that --output has written")
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
    sizes = {name.removeprefix(RESIDUAL): np.abs(table[name]) for name in residuals}
    return Run(
        closed_loop=closed_loop,
        control="recorded",
        t=t,
        k=np.round(t * 1e9 / closed_loop.launch.step_ns).astype(np.int64),
        state=dict(zip(description.state_names, states, strict=True)),
        input={name: table[name] for name in description.input_names},
        residual={name.removeprefix(RESIDUAL): table[name] for name in residuals},
        energy=machine.energy_of_rows(t, x),
        work=np.full(len(t), np.nan),
        steps=round(t[-1] * 1e9 / closed_loop.launch.step_ns),
        wall_s=0.0,
        residual_max={name: float(np.max(of, where=np.isfinite(of), initial=0.0)) for name, of in sizes.items()},
        goal_t=table.get("goal_t", t),
    )


@dataclass(frozen=True)
class Measures:
    """The numbers of one source. residuals: by name the unit, and `largest`, `rms` and both of the second half.

    effort: by unit of the inputs the integral of the sum of their squares [unit^2 s]. work: the integral of the sum of
    the magnitudes of the inputs' powers [J]. largest_input: by input. path: `rms` and `largest` distance [m] of the
    machine's path to that of its target. What is not known is None.
    """

    residuals: dict[str, dict[str, Any]]
    effort: dict[str, float]
    work: float | None
    largest_input: dict[str, float]
    path: dict[str, float] | None

    def as_dict(self) -> dict[str, Any]:
        """The numbers as JSON has them."""
        return {
            "residual": {name: _plain(each) for name, each in self.residuals.items()},
            "effort": _plain(self.effort),
            "work": None if self.work is None else json_number(self.work),
            "largest_input": _plain(self.largest_input),
            "path_error": None if self.path is None else _plain(self.path),
        }


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json_number(each) if isinstance(each, float) else each for name, each in values.items()}


@np.errstate(over="ignore", invalid="ignore")  # of a motion that escaped
def measures(source: Compared, sources: Sequence[Compared]) -> Measures:
    """The numbers of one of the sources; inputs and units may be known of another one alone."""
    known = [name for name in inputs_of(sources) if name in source.columns]
    residuals = {}
    for name in source.residuals:
        values = sizes(source.t, source.columns[name])
        residuals[name.removeprefix(RESIDUAL)] = {"unit": unit_of(sources, name), **values}
    return Measures(
        residuals,
        _effort(source, {name: unit_of(sources, name) for name in known}),
        work(source.run) if source.run else None,
        {name: _largest(source.columns[name]) for name in known},
        path_error(source),
    )


def sizes(t: Array, values: Array) -> dict[str, float]:
    """The largest magnitude and the root of the mean square over all rows, and over those of the second half."""
    late = values[t >= (t[0] + t[-1]) / 2]
    return {"largest": _largest(values), "rms": _rms(values), "largest_late": _largest(late), "rms_late": _rms(late)}


def _largest(values: Array) -> float:
    known = np.abs(values[~np.isnan(values)])
    return float(known.max()) if len(known) else float("nan")


def _rms(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(np.sqrt(np.mean(known**2))) if len(known) else float("nan")


def _effort(source: Compared, units: Mapping[str, str]) -> dict[str, float]:
    """By unit of the inputs; an input is held from each row to the next."""
    effort: dict[str, float] = {}
    for name, unit in units.items():
        effort[unit] = effort.get(unit, 0.0) + held_integral(source.t, source.columns[name] ** 2)
    return effort


def held_integral(t: Array, values: Array) -> float:
    """The integral of values that are held from each row to the next; what is not known counts as 0."""
    return float(np.nansum(np.diff(t) * values[:-1]))


def work(run: Run) -> float | None:
    """The integral of the sum of the magnitudes of the inputs' powers [J]; None without an input."""
    machine = run.closed_loop.machine
    if not run.input:
        return None
    x = np.column_stack([*run.state.values(), np.zeros(len(run.t))])
    rates = np.array([machine.input_rates(float(t), row) for t, row in zip(run.t, x, strict=True)])
    return held_integral(run.t, np.abs(rates * run.inputs.T).sum(axis=1))


def path_error(source: Compared) -> dict[str, float] | None:
    """How far the first path of a view lies from the path of its goal [m]; None without such a view."""
    if source.run is None:
        return None
    for view in source.run.closed_loop.views:
        if view.goal and view.trails and set(view.goal) <= source.goals.keys():
            pair = next(iter(view.trails.values()))
            path = np.column_stack([source.columns[name] for name in pair])
            distance = distances(path, np.column_stack([source.goals[name] for name in view.goal]))
            return {"rms": _rms(distance), "largest": _largest(distance)}
    return None


def distances(points: Array, line: Array) -> Array:
    """The distance of each point (n, 2) to a polyline (m, 2) whose points lie close together."""
    from scipy.spatial import cKDTree

    line, points = line[np.isfinite(line).all(axis=1)], points[np.isfinite(points).all(axis=1)]
    if not len(line) or not len(points):
        return np.full(1, np.nan)
    _, nearest = cKDTree(line).query(points)
    to_pieces = [_to_piece(points, line[np.clip(nearest + a, 0, len(line) - 1)], line[nearest]) for a in (-1, 1)]
    distance: Array = np.minimum(*to_pieces)
    return distance


def _to_piece(points: Array, start: Array, end: Array) -> Array:
    """The distance of each point to a piece of a line of its own."""
    along = end - start
    length = np.maximum((along**2).sum(axis=1), np.finfo(float).tiny)
    share = np.clip(((points - start) * along).sum(axis=1) / length, 0.0, 1.0)
    distance: Array = np.hypot(*(points - start - share[:, None] * along).T)
    return distance


# what the sources share


def common(sources: Sequence[Compared]) -> list[str]:
    """The names that at least two sources have, in one unit as far as it is known.

    Raises:
        CompareError: a source shares nothing with any other.
    """
    names = list(dict.fromkeys(name for source in sources for name in source.columns))
    shared = [name for name in names if name != "energy" and len(having(sources, name)) > 1 and _agree(sources, name)]
    for source in sources:
        if not source.columns.keys() & set(shared):
            others = dict.fromkeys(name for each in sources if each is not source for name in each.columns)
            text = f"has nothing in common with the others: it has {', '.join(source.columns)}; they have"
            raise CompareError(f"{source.name}: {text} {', '.join(others)}; compare runs of one machine")
    return [name for name in names if name in shared or (name == "energy" and len(having(sources, name)) > 1)]


def inputs_of(sources: Sequence[Compared]) -> list[str]:
    """The names that are inputs of any source."""
    return list(dict.fromkeys(name for source in sources for name in source.inputs))


def having(sources: Sequence[Compared], name: str) -> list[Compared]:
    """The sources that have a column of this name."""
    return [source for source in sources if name in source.columns]


def _agree(sources: Sequence[Compared], name: str) -> bool:
    return len({source.units[name] for source in sources if name in source.units}) < 2


def unit_of(sources: Sequence[Compared], name: str) -> str:
    """The unit of a column as far as any source knows it."""
    return next((source.units[name] for source in sources if name in source.units), "")


@np.errstate(over="ignore", invalid="ignore")
def differences(sources: Sequence[Compared], name: str) -> list[float]:
    """The largest difference of each source to the first that has the column, where their times overlap.

    NaN for that one, and where a source has not the column or no time in common.
    """
    first = having(sources, name)[0]
    others = [each is not first and name in each.columns for each in sources]
    return [
        _difference(first, each, name) if compared else float("nan")
        for each, compared in zip(sources, others, strict=True)
    ]


def _difference(first: Compared, other: Compared, name: str) -> float:
    t = first.t[(first.t >= other.t[0]) & (first.t <= other.t[-1])]
    here = first.columns[name][np.isin(first.t, t)]
    found = np.abs(np.interp(t, other.t, other.columns[name]) - here)
    return _largest(found)


@np.errstate(over="ignore", invalid="ignore")
def differing(sources: Sequence[Compared], names: Sequence[str]) -> list[str]:
    """The columns: first what differs most relative to its own range."""
    found = {name: float(np.nan_to_num(differences(sources, name)).max()) for name in names}
    ranges = {name: max(_range(each.columns[name]) for each in having(sources, name)) for name in names}
    largest: dict[str, float] = {}
    for name in names:
        unit = unit_of(sources, name)
        largest[unit] = max(largest.get(unit, 0.0), ranges[name])

    def relative(name: str) -> float:
        least = ROUNDING * largest[unit_of(sources, name)]
        return found[name] / max(ranges[name], least) if found[name] > least else 0.0

    return sorted(names, key=relative, reverse=True)


def _range(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(np.ptp(known)) if len(known) else 0.0
