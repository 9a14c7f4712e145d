"""What panels a picture may have: an axis for each group of curves, those of outputs with their goals first."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType

from servonode.mechanics.description import MachineDescription, Quantity, Tracked
from servonode.views.palette import PALETTE
from servonode.views.symbols import mathtext, plain, titles, unit_text

GOAL, INPUT, RESIDUAL, ESTIMATE, REST = range(5)  # what a panel shows: the first ones are drawn where not all have room
MOST = 8  # axes of a picture that nobody chose, its views among them
FEWEST = 3  # panels beside views, however many these are


@dataclass(frozen=True)
class PanelSpec:
    """What one axis shows: its label, its curves by legend name with the column of each.

    logarithmic: of the values only the size is shown, on a logarithmic axis. title: what they are in words, with
    symbol and unit; maths: the same for matplotlib. units: by legend name. expected: by legend name the column of what
    a curve is expected to be, which is drawn beside it; goals: that of its goal. kind: one of GOAL, ..., REST.
    """

    label: str
    curves: dict[str, str]
    logarithmic: bool = False
    title: str = ""
    maths: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    expected: Mapping[str, str] = field(default_factory=dict)
    goals: Mapping[str, str] = field(default_factory=dict)
    kind: int = REST


def panel_specs(
    description: MachineDescription, residuals: Sequence[Quantity], tracked: Sequence[Tracked] = ()
) -> list[PanelSpec]:
    """Outputs with their goals, the machine's other panels, the inputs that they do not show, then the residuals.

    tracked: the residuals that are an output less its goal (columns `output_NAME`, `goal_NAME`, `residual_NAME`).
    """
    known = {each.name: each for each in (*description.state, *description.outputs, *description.inputs)}
    goals = {each.column: f"goal_{each.residual}" for each in tracked if each.column}
    inputs = [each for each in description.inputs if each.name not in {*chain(*description.panels)}]
    groups = [tuple(names) for names in description.panels]
    shown = {name for names in groups for name in names}
    groups += by_unit([known[name] for name in goals if name not in shown])
    groups += [] if description.panels else by_unit([each for each in description.state if each.name not in goals])
    specs = [
        *_of_expressions(residuals, tracked),
        *(spec_of([known[name] for name in names], goals) for names in groups),
    ]
    specs += [spec_of([known[name] for name in names], {}, INPUT) for names in by_unit(inputs)]
    specs = [replace(each, kind=INPUT) if {*each.curves} & {*description.input_names} else each for each in specs]
    return [*sorted(specs, key=lambda each: each.kind != GOAL), *sizes("residual", "residuals", residuals)]


def _of_expressions(residuals: Sequence[Quantity], tracked: Sequence[Tracked]) -> list[PanelSpec]:
    """Outputs that no state or output of the machine is, with their goals; they are called as their residuals."""
    known = {each.name: each for each in residuals}
    names = [each.residual for each in tracked if not each.column]
    stated = {name: Quantity(name, name.replace("_", " "), known[name].unit) for name in names}
    specs = [
        spec_of([stated[name] for name in group], {name: f"goal_{name}" for name in group})
        for group in by_unit(list(stated.values()))
    ]
    return [replace(each, curves={name: f"output_{name}" for name in each.curves}) for each in specs]


def spec_of(
    quantities: Sequence[Quantity], goals: Mapping[str, str] = MappingProxyType({}), kind: int = REST
) -> PanelSpec:
    """The panel of quantities that share an axis. goals: the columns of goals by name."""
    units = {each.name: each.unit for each in quantities}
    maths, words = titles(quantities)
    found = {name: goals[name] for name in units if name in goals}
    kind = GOAL if found else kind
    label, curves = _label(list(units), units), {name: name for name in units}
    return PanelSpec(label, curves, False, words, maths, units, goals=found, kind=kind)


def most_important(specs: Sequence[PanelSpec], most: int) -> list[PanelSpec]:
    """As many of the panels as there is room for, in their order: outputs with goals, then inputs, then residuals."""
    kept = sorted(range(len(specs)), key=lambda i: specs[i].kind)[: max(most, FEWEST)]
    return [specs[i] for i in sorted(kept)]


def sizes(word: str, title: str, residuals: Sequence[Quantity]) -> list[PanelSpec]:
    """Panels of residuals, of which the sizes are shown: as many in each as there are colours."""
    return [
        _sizes_together(word, title, residuals[i : i + len(PALETTE)]) for i in range(0, len(residuals), len(PALETTE))
    ]


def _sizes_together(word: str, title: str, residuals: Sequence[Quantity]) -> PanelSpec:
    prefix, units = f"{word.replace(' ', '_')}_", {each.name: each.unit for each in residuals}
    unit = unit_text(", ".join(dict.fromkeys(each for each in units.values() if each not in ("", "1"))))
    if len(residuals) == 1:
        title = f"{word} {plain(residuals[0].name)}"
    text = f"{title}, magnitude{unit}"
    return PanelSpec(f"|{word}|", {name: prefix + name for name in units}, True, text, text, units, kind=RESIDUAL)


def estimate_specs(states: Sequence[Quantity], columns: Collection[str], window: float) -> list[PanelSpec]:
    """The errors of an estimate, an axis for each unit, and its squared errors as means over a window [s].

    columns: what is known of it, see `estimate_columns`.
    """
    units = {each.name: each.unit for each in states}
    known = [each for each in states if f"error_{each.name}" in columns]
    specs = [_errors(names, units) for names in by_unit(known)]
    words = f"squared errors per dimension, mean of {window:.2g} s, expected 1"
    means = {name: column for name, column in (("NIS", "nis_mean"), ("NEES", "nees_mean")) if column in columns}
    return [*specs, PanelSpec(", ".join(means), means, True, words, words, kind=RESIDUAL)]


def _errors(names: Sequence[str], units: Mapping[str, str]) -> PanelSpec:
    """The errors of states of one unit, with those that the filter expects."""
    curves, expected = ({name: f"{word}_{name}" for name in names} for word in ("error", "expected"))
    unit = unit_text(units[names[0]])
    words, maths = (
        f"RMS error of {f'estimated {symbol(names[0])}' if len(names) == 1 else 'estimates'}, dashed: σ{unit}"
        for symbol in (plain, mathtext)
    )
    return PanelSpec(f"error{unit}", curves, True, words, maths, units, expected, kind=ESTIMATE)


def by_unit(quantities: Sequence[Quantity]) -> list[tuple[str, ...]]:
    """Names that may share an axis: of the same unit, as many as there are colours."""
    by_unit: dict[tuple[str, str], list[str]] = {}
    for quantity in quantities:
        what, entry, _ = quantity.description.partition(", entry ")  # a vector, as a spin, stands alone
        by_unit.setdefault((quantity.unit, what if entry else ""), []).append(quantity.name)
    return [
        tuple(names[i : i + len(PALETTE)]) for names in by_unit.values() for i in range(0, len(names), len(PALETTE))
    ]


def _label(names: Sequence[str], units: dict[str, str]) -> str:
    """The quantity's name where it stands alone; where there are several the legend names them."""
    return f"{names[0] if len(names) == 1 else ''} [{units[names[0]]}]".strip()
