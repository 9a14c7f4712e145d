"""The numbers of `servonode compare`: residuals, effort, path error of each source, and where the sources differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.analysis.compared import RESIDUAL, Compared, CompareError
from servonode.arrays import Array
from servonode.record.run import Run, json_number

ROUNDING = 1e-9  # of a column to the largest of its unit, below which it holds only rounding errors


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
    return {
        "largest": _largest(values),
        "rms": _rms(values),
        "largest_late": _largest(late),
        "rms_late": _rms(late),
    }


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
