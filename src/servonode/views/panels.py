"""The panels of a picture: what the machine did over time, an axis for each group of curves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.description import Quantity
from servonode.record.run import Run
from servonode.views import limits
from servonode.views.acts import Acts
from servonode.views.curves import Curve
from servonode.views.palette import GOAL, INK, PALETTE
from servonode.views.panel_specs import (
    MARGIN,
    MOST,
    RESIDUAL,
    REST,
    PanelSpec,
    by_unit,
    estimate_specs,
    most_important,
    panel_specs,
    sizes,
    spec_of,
)
from servonode.views.symbols import mathtext, plain, unit_text

LEAST = 1e-9  # of what is smallest on a logarithmic axis to what is largest
GOAL_DASHES = (0, (4, 2.5))
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", *((0, (n, 1, 1, 1)) for n in range(2, 40)))
WINDOW = 1 / 40  # of a run, over which squared errors are averaged


@dataclass(frozen=True)
class Panel:
    """The values of a panel, by legend name, and the size below which each is nearly zero."""

    spec: PanelSpec
    columns: dict[str, Array]
    floors: dict[str, float]
    expected: dict[str, Array] = field(default_factory=dict)
    goals: dict[str, Array] = field(default_factory=dict)
    acts: Acts | None = None  # of margins

    @property
    def seen(self) -> dict[str, Array]:
        """What is drawn: on a logarithmic axis what is not nearly zero; else all, or nothing where all are."""
        above = {name: values for name, values in self.columns.items() if not self.zero(name)}
        return above if self.spec.logarithmic or not above else self.columns

    @property
    def floor(self) -> float:
        """The size below which all of it is nearly zero."""
        return min(self.floors.values())

    @property
    def title(self) -> str:
        """What is drawn, in words, with the units of it alone, for matplotlib."""
        return self._of_seen(self.spec.maths)

    @property
    def words(self) -> str:
        """The same in plain characters."""
        return self._of_seen(self.spec.title)

    def _of_seen(self, title: str) -> str:
        if not self.spec.logarithmic or len(self.seen) == len(self.columns):
            return title
        units = dict.fromkeys(self.spec.units.get(name, "1") for name in self.seen)
        return title.partition(" [")[0] + unit_text(", ".join(each for each in units if each not in ("", "1")))

    def zero(self, name: str) -> bool:
        """Whether a curve is nearly zero throughout, and its goal where it has one."""
        columns = [self.columns[name], *(self.goals[each] for each in self.goals if each == name)]
        return limits.largest(columns) <= self.floors[name]

    def curves(self) -> list[Curve]:
        """What is drawn, each quantity in the colour of its place, then their goals with one legend name."""
        looks = dict(zip(self.columns, product(DASHES, PALETTE), strict=False))
        curves = [
            Curve(mathtext(name), values, looks[name][1], looks[name][0], expected=self.expected.get(name))
            for name, values in self.seen.items()
        ]
        goals = [values for name, values in self.goals.items() if name in self.seen]
        names = ["goal", *["_goal"] * len(goals)]
        if self.acts:
            curves.insert(0, Curve("_zero", np.zeros_like(curves[0].values), INK, "-", 0.7))
        return curves + [
            Curve(name, values, GOAL, GOAL_DASHES, 1.0) for name, values in zip(names, goals, strict=False)
        ]


def panels_of(run: Run, known: Mapping[str, Array]) -> list[Panel]:
    """Every panel of a run, those that are zero throughout too.

    `known`: states, inputs and outputs of every row by name.
    """
    columns = {**known, **{f"residual_{name}": np.abs(values) for name, values in run.residual.items()}, **run.watched}
    columns |= run.tracked_columns | run.kept
    loop, description = run.closed_loop, run.closed_loop.machine.description
    residuals = [each for each in loop.residuals if each.name in run.residual]
    specs = panel_specs(loop, residuals) + _watch_specs(run)
    if run.estimate is not None:
        specs = [replace(each, kind=REST) if each.kind == RESIDUAL else each for each in specs]  # the true ones count
        columns |= {f"true_residual_{name}": np.abs(values) for name, values in run.estimate.residual.items()}
        columns |= (found := estimate_columns(run))
        specs += sizes(
            "true residual", "true residuals", [each for each in residuals if each.name in run.estimate.residual]
        )
        specs += estimate_specs(description.state, found, window_s(run))
    scales = _scales((*description.state, *description.outputs, *description.inputs), known)
    return [_panel(each, columns, scales) for each in specs]


def _panel(spec: PanelSpec, columns: Mapping[str, Array], scales: Mapping[str, float]) -> Panel:
    units = {name: spec.units.get(name, "1") for name in spec.curves}
    unknown = 1.0 if spec.logarithmic else 0.0  # of a residual in a unit that no quantity of the machine has
    floors = {name: limits.floor_of(unit, scales.get(unit, unknown)) for name, unit in units.items()}
    stated = (spec.curves, spec.expected, spec.goals)
    shown, expected, goals = ({name: columns[each[name]] for name in each} for each in stated)
    if not spec.active:
        return Panel(spec, shown, floors, expected, goals)
    acts = Acts({name: columns[each] for name, each in spec.active.items()}, columns["keeping"])
    return Panel(replace(spec, kind=MARGIN if acts.words() else spec.kind), shown, floors, acts=acts)


def columns_of(run: Run) -> dict[str, Array]:
    """Everything that a run knows at every row, by name; targets as `target_NAME`, without the time."""
    known = {**run.state, **run.outputs, **run.input} if len(run.t) else {}
    more = {name: values for name, values in run.columns.items() if name != "t" and "[" not in name}
    goals = {f"target_{name}": values for name, values in run.targets.items()} if len(run.t) else {}
    watched = run.watched if len(run.t) else {}
    return {**known, **watched, **more, **estimate_columns(run), **goals, **run.tracked_columns}


def shown_panels(panels: Sequence[Panel], views: int) -> tuple[list[Panel], list[Panel]]:
    """The panels of a picture with so many views that nobody chose, and those for which it has no room."""
    seen = [each for each in panels if each.seen]
    kept = most_important([each.spec for each in seen], MOST - views)
    return [each for each in seen if each.spec in kept], [each for each in seen if each.spec not in kept]


def room_note(left: Sequence[Panel], maths: bool = True) -> str:
    """A line on the panels for which a picture has no room; empty without any."""
    return f"Not drawn here: {'; '.join(each.title if maths else each.words for each in left)}." if left else ""


def _scales(quantities: Iterable[Quantity], known: Mapping[str, Array]) -> dict[str, float]:
    """The largest size of a machine's quantities, by unit."""
    scales: dict[str, float] = {}
    for each in quantities:
        if each.name in known:
            scales[each.unit] = max(scales.get(each.unit, 0.0), limits.largest([known[each.name]]))
    return scales


def zero_note(panels: Sequence[Panel], maths: bool = True) -> str:
    """A line on what is not drawn because it is zero; empty where everything is. maths: for matplotlib."""
    symbol = mathtext if maths else plain
    power = "$10^{-9}$" if maths else "10⁻⁹"
    exact: list[str] = []
    rounding: list[str] = []
    for panel in panels:
        if not panel.seen and not panel.spec.logarithmic:
            exactly = all(not values.any() for values in panel.columns.values())
            (exact if exactly else rounding).append(panel.spec.maths if maths else panel.spec.title)
            continue
        for name in panel.columns:
            if panel.spec.logarithmic and panel.zero(name):
                exactly = not panel.columns[name].any()
                (exact if exactly else rounding).append(f"{panel.spec.label.strip('|')} {symbol(name)}")
    notes = [f"zero throughout: {', '.join(exact)}"] if exact else []
    notes += [f"nearly zero (below {power} of the largest of its unit): {', '.join(rounding)}"] * bool(rounding)
    text = "; ".join(notes)
    return text[:1].upper() + text[1:] + "." if text else ""


def _watch_specs(run: Run) -> list[PanelSpec]:
    """What the program watches, an axis for each unit."""
    control = run.closed_loop.control
    watches = control.law.description.watches if control else ()
    known = {each.name: each for each in watches}
    return [spec_of([known[name] for name in names]) for names in by_unit(watches)]


def estimate_columns(run: Run) -> dict[str, Array]:
    """Of every row, where the truth is known: error_NAME of each state, the root mean square of the estimate's error
    over a window, and expected_NAME, that of the standard deviation that the filter claims; nis_mean, nees_mean.

    nis_mean: squared innovations for each reading; nees_mean: squared errors for each dimension. {}: none, or no row.
    """
    found = run.estimate
    if found is None or not len(run.t):
        return {}
    rows = max(int(WINDOW * len(run.t)), 1)
    means = {"nis_mean": running_ratio(found.nis, found.readings, rows)}
    if not np.nan_to_num(found.dimensions).any():  # nobody knows the true state
        return means
    names = zip(run.state, run.closed_loop.machine.description.columns, strict=True)
    errors: dict[str, Array] = {}
    for name, column in names:
        for word, values in (("error", found.state[column] - run.state[name]), ("expected", found.std[column])):
            errors[f"{word}_{name}"] = np.sqrt(running_ratio(values**2, np.ones(len(values)), rows))
    return errors | means | {"nees_mean": running_ratio(found.nees, found.dimensions, rows)}


def window_s(run: Run) -> float:
    """The time [s] of the running means."""
    return WINDOW * float(run.t[-1] - run.t[0])


def running_ratio(squares: Array, numbers: Array, rows: int) -> Array:
    """The sum of squares for each of their numbers, over so many rows about each one; NaN where none is known."""
    known = np.isfinite(squares) & (numbers > 0)
    begin = np.arange(len(squares)) - rows // 2
    first, last = np.maximum(begin, 0), np.minimum(begin + rows, len(squares))
    above, below = (np.append(0.0, np.cumsum(np.where(known, each, 0.0))) for each in (squares, numbers))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Array = np.maximum(above[last] - above[first], 0.0) / (below[last] - below[first])
    return ratio
