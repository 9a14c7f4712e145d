"""The panels of a picture: what the machine did over time, an axis for each group of curves."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.description import MachineDescription, Quantity
from servonode.record.run import Run
from servonode.views import limits
from servonode.views.curves import Curve
from servonode.views.estimates import estimate_columns, window_s
from servonode.views.palette import PALETTE as PALETTE
from servonode.views.symbols import mathtext, plain, titles, unit_text

LEAST = 1e-9  # of what is smallest on a logarithmic axis to what is largest
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", *((0, (n, 1, 1, 1)) for n in range(2, 40)))


@dataclass(frozen=True)
class PanelSpec:
    """What one axis shows: its label, its curves by legend name with the column of each.

    logarithmic: of the values only the size is shown, on a logarithmic axis. title: what they are in words, with
    symbol and unit; maths: the same for matplotlib. units: by legend name. expected: by legend name the column of what
    a curve is expected to be, which is drawn beside it.
    """

    label: str
    curves: dict[str, str]
    logarithmic: bool = False
    title: str = ""
    maths: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    expected: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """The values of a panel, by legend name, and the size below which each is zero to rounding."""

    spec: PanelSpec
    columns: dict[str, Array]
    floors: dict[str, float]
    expected: dict[str, Array] = field(default_factory=dict)

    @property
    def seen(self) -> dict[str, Array]:
        """What is drawn: on a logarithmic axis what is not zero to rounding; else all, or nothing where all are."""
        above = {name: values for name, values in self.columns.items() if not self.zero(name)}
        return above if self.spec.logarithmic or not above else self.columns

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
        """Whether a curve is zero to rounding throughout."""
        return limits.largest([self.columns[name]]) <= self.floors[name]

    def curves(self) -> list[Curve]:
        """What is drawn, each quantity in the colour of its place."""
        looks = dict(zip(self.columns, product(DASHES, PALETTE), strict=False))
        return [
            Curve(mathtext(name), values, looks[name][1], looks[name][0], expected=self.expected.get(name))
            for name, values in self.seen.items()
        ]


def panel_specs(description: MachineDescription, residuals: Sequence[str], units: Any = None) -> list[PanelSpec]:
    """The machine's own panels, then the inputs that they do not show, then the residuals (`residual_NAME`).

    units: of the residuals, by name.
    """
    known = {each.name: each for each in (*description.state, *description.outputs, *description.inputs)}
    groups = [tuple(names) for names in description.panels or _by_unit(description.state)]
    shown = {name for names in description.panels for name in names}
    groups += _by_unit([each for each in description.inputs if each.name not in shown])
    specs = [_spec([known[name] for name in names]) for names in groups]
    return specs + _sizes("residual", "residuals", residuals, units or {}) if residuals else specs


def _spec(quantities: Sequence[Quantity]) -> PanelSpec:
    units = {each.name: each.unit for each in quantities}
    maths, words = titles(quantities)
    return PanelSpec(_label(list(units), units), {name: name for name in units}, False, words, maths, units)


def _sizes(word: str, title: str, names: Sequence[str], units: Mapping[str, str]) -> list[PanelSpec]:
    """Panels of residuals, of which the sizes are shown: as many in each as there are colours."""
    return [
        spec
        for i in range(0, len(names), len(PALETTE))
        for spec in _sizes_together(word, title, names[i : i + len(PALETTE)], units)
    ]


def _sizes_together(word: str, title: str, names: Sequence[str], units: Mapping[str, str]) -> list[PanelSpec]:
    prefix = f"{word.replace(' ', '_')}_"
    unit = unit_text(", ".join(dict.fromkeys(units[name] for name in names if units.get(name, "1") not in ("", "1"))))
    if len(names) == 1:
        title = f"{word} {plain(names[0])}"
    text = f"{title}, magnitude{unit}"
    return [PanelSpec(f"|{word}|", {name: prefix + name for name in names}, True, text, text, units)]


def panels_of(run: Run, known: Mapping[str, Array]) -> list[Panel]:
    """Every panel of a run, those that are zero throughout too.

    `known`: states, inputs and outputs of every row by name.
    """
    columns = {**known, **{f"residual_{name}": np.abs(values) for name, values in run.residual.items()}, **run.watched}
    units = {each.name: each.unit for each in run.closed_loop.residuals}
    description = run.closed_loop.machine.description
    specs = panel_specs(description, list(run.residual), units) + _watch_specs(run)
    if run.estimate is not None:
        columns |= {f"true_residual_{name}": np.abs(values) for name, values in run.estimate.residual.items()}
        columns |= (found := estimate_columns(run))
        specs += _sizes("true residual", "true residuals", list(run.estimate.residual), units)
        specs += estimate_specs(description.state, found, window_s(run))
    scales = _scales((*description.state, *description.outputs, *description.inputs), known)
    return [_panel(each, columns, scales) for each in specs]


def _panel(spec: PanelSpec, columns: Mapping[str, Array], scales: Mapping[str, float]) -> Panel:
    units = {name: spec.units.get(name, "1") for name in spec.curves}
    floors = {name: limits.floor_of(unit, scales.get(unit, 0.0)) for name, unit in units.items()}
    shown, expected = ({name: columns[each[name]] for name in each} for each in (spec.curves, spec.expected))
    return Panel(spec, shown, floors, expected)


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
    power = "$10^{-12}$" if maths else "10⁻¹²"
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
    notes += [f"zero to rounding (below {power} of the largest of its unit): {', '.join(rounding)}"] * bool(rounding)
    text = "; ".join(notes)
    return text[:1].upper() + text[1:] + "." if text else ""


def _watch_specs(run: Run) -> list[PanelSpec]:
    """What the program watches, an axis for each unit."""
    control = run.closed_loop.control
    watches = control.law.description.watches if control else ()
    known = {each.name: each for each in watches}
    return [_spec([known[name] for name in names]) for names in _by_unit(watches)]


def estimate_specs(states: Sequence[Quantity], columns: Collection[str], window: float) -> list[PanelSpec]:
    """The errors of an estimate, an axis for each unit, and its squared errors as means over a window [s].

    columns: what is known of it, see `estimate_columns`.
    """
    units = {each.name: each.unit for each in states}
    known = [each for each in states if f"error_{each.name}" in columns]
    specs = [_errors(names, units) for names in _by_unit(known)]
    words = f"squared errors per dimension, mean of {window:.2g} s, expected 1"
    means = {name: column for name, column in (("NIS", "nis_mean"), ("NEES", "nees_mean")) if column in columns}
    return [*specs, PanelSpec(", ".join(means), means, True, words, words)]


def _errors(names: Sequence[str], units: Mapping[str, str]) -> PanelSpec:
    """The errors of states of one unit, with those that the filter expects."""
    curves, expected = ({name: f"{word}_{name}" for name in names} for word in ("error", "expected"))
    unit = unit_text(units[names[0]])
    words, maths = (
        f"RMS error of {f'estimated {symbol(names[0])}' if len(names) == 1 else 'estimates'}, dashed: σ{unit}"
        for symbol in (plain, mathtext)
    )
    return PanelSpec(f"error{unit}", curves, True, words, maths, units, expected)


def _by_unit(quantities: Sequence[Quantity]) -> list[tuple[str, ...]]:
    """Names that may share an axis: of the same unit, as many as there are colours."""
    by_unit: dict[str, list[str]] = {}
    for quantity in quantities:
        by_unit.setdefault(quantity.unit, []).append(quantity.name)
    return [
        tuple(names[i : i + len(PALETTE)]) for names in by_unit.values() for i in range(0, len(names), len(PALETTE))
    ]


def _label(names: Sequence[str], units: dict[str, str]) -> str:
    """The quantity's name where it stands alone; where there are several the legend names them."""
    return f"{names[0] if len(names) == 1 else ''} [{units[names[0]]}]".strip()
