"""What panels a picture may have, an axis for each group of curves; those of a window or movie, or a user's own."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType

from servonode.bus.durations import EXTRA
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.mechanics.description import Quantity, Tracked
from servonode.views.palette import PALETTE
from servonode.views.symbols import mathtext, plain, titles, unit_text

# what a panel shows: the first ones are drawn where not all have room
GOAL, INPUT, MARGIN, RESIDUAL, ESTIMATE, REST = range(6)
MOST = 8  # axes of a picture that nobody chose, its views among them
FEWEST = 3  # panels beside views, however many these are
TIMES = "round trip", "lateness", "law", "age"
TIMING = {name: f"timing_{name.replace(' ', '_')}" for name in TIMES}  # legend name -> column [ms]


@dataclass(frozen=True)
class PanelSpec:
    """What one axis shows: its label, its curves by legend name with the column of each.

    logarithmic: of the values only the size is shown, on a logarithmic axis. title: what they are in words, with
    symbol and unit; maths: the same for matplotlib. units: by legend name. expected: by legend name the column of what
    a curve is expected to be, which is drawn beside it; goals: that of its goal; active: of a margin, which stays above
    0, that of whether it acts. kind: one of GOAL, ..., REST.
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
    active: Mapping[str, str] = field(default_factory=dict)


def panel_specs(closed_loop: ClosedLoop, residuals: Sequence[Quantity]) -> list[PanelSpec]:
    """Outputs with their goals, the machine's other panels, the inputs that they do not show, margins, then residuals.

    Columns are `output_NAME`, `goal_NAME` and `residual_NAME`, `margin_NAME` and `active_NAME`.
    """
    description, tracked, keeps = closed_loop.machine.description, closed_loop.tracked, closed_loop.keeps
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
    known = {each.name: each for each in keeps}
    margins = [_margins([known[name] for name in names]) for names in by_unit(keeps)]
    margins = [replace(each, kind=ESTIMATE) if i else each for i, each in enumerate(margins)]  # a robot's are many
    return [*sorted(specs, key=lambda each: each.kind != GOAL), *margins, *sizes("residual", "residuals", residuals)]


def _margins(keeps: Sequence[Quantity]) -> PanelSpec:
    """The panel of what is kept in one unit."""
    curves, active = ({each.name: f"{word}_{each.name}" for each in keeps} for word in ("margin", "active"))
    word = f"margin {plain(keeps[0].name)}" if len(keeps) == 1 else "margins"
    text = f"{word}, kept above 0{unit_text(keeps[0].unit)}"
    units = {each.name: each.unit for each in keeps}
    return PanelSpec(f"margin [{keeps[0].unit}]", curves, False, text, text, units, kind=MARGIN, active=active)


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


class FieldError(ServonodeError, ValueError):
    """A panel was asked for that cannot be shown; the text says why."""


def usual_panels(closed_loop: ClosedLoop, timing: bool, most: int) -> list[PanelSpec]:
    """The panels of the report picture for so many axes, with one of times where these are known."""
    panels = most_important(panel_specs(closed_loop, closed_loop.residuals), most)
    times = PanelSpec("[ms]", timing_curves(closed_loop), True, "times [ms]", "times [ms]")
    return [*panels, times] if timing else panels


def timing_curves(closed_loop: ClosedLoop) -> dict[str, str]:
    """The times of TIMING that a run of this has; without a controller there is nothing to wait for."""
    realtime = closed_loop.launch.run.mode == "realtime"
    return {
        name: column
        for name, column in TIMING.items()
        if (realtime if name == "lateness" else closed_loop.control is not None)
    }


def chosen_panels(closed_loop: ClosedLoop, fields: Sequence[str], timing: bool) -> list[PanelSpec]:
    """A panel for each "NAME,NAME"; where all its names are residuals, or times, on a logarithmic axis.

    Raises:
        FieldError: no such name, or more of them in one panel than there are colours.
    """
    description = closed_loop.machine.description
    known = {each.name: each for each in (*description.state, *description.outputs, *description.inputs)}
    units = {each.name: each.unit for each in known.values()}
    units |= {f"residual_{each.name}": each.unit for each in closed_loop.residuals}
    keeps = {f"margin_{each.name}": each for each in closed_loop.keeps}
    units |= {name: each.unit for name, each in keeps.items()}
    units |= {f"target_{name}": "target" for name in closed_loop.targets.names}
    if timing:
        units |= dict.fromkeys(timing_curves(closed_loop).values(), "ms")
        units |= dict.fromkeys(extra_columns(closed_loop, fields), "its unit")
    alias = dict(zip(description.columns, description.state_names, strict=True))
    return [_chosen(text, units, alias, known, keeps) for text in fields]


def extra_columns(closed_loop: ClosedLoop, fields: Sequence[str]) -> list[str]:
    """The names in the panels that an external plant measures beside its state; which ones it has only it knows."""
    if not closed_loop.driver.outside:
        return []
    names = [name.strip() for text in fields for name in text.split(",")]
    return [name for name in dict.fromkeys(names) if name.startswith(EXTRA) and name != EXTRA]


def _chosen(
    text: str,
    units: Mapping[str, str],
    alias: Mapping[str, str],
    known: Mapping[str, Quantity],
    keeps: Mapping[str, Quantity],
) -> PanelSpec:
    """The panel of a text, its title in words; residuals, margins and times by their own names."""
    names = [alias.get(name.strip(), name.strip()) for name in text.split(",")]
    for name in names:
        if name not in units:
            raise FieldError(f"panel {text!r}: unknown name {name!r}; choose from {', '.join(units)}")
    if len(names) > len(PALETTE):
        raise FieldError(f"panel {text!r} has {len(names)} names; give at most {len(PALETTE)} to one panel")
    if keeps.keys() - known.keys() >= {*names} and len({keeps[name].unit for name in names}) == 1:
        return _margins([keeps[name] for name in names])
    unit = ", ".join(dict.fromkeys(units[name] for name in names))
    only, kind = names[0] if len(names) == 1 else "", names[0].partition("_")[0]
    sized = kind in ("residual", "timing") and all(name.startswith(f"{kind}_") for name in names)
    label = f"|{only or kind}|" if sized and kind == "residual" else only
    curves, maths, title = {name: name for name in names}, "", ""
    if known.keys() >= {*names}:  # first: a machine may have a state of such a name
        maths, title = titles([known[name] for name in names])
    elif sized:
        word = f"{kind} {plain(only.removeprefix(f'{kind}_'))}" if only else f"{kind}s"
        word = f"{word}, magnitude" if kind == "residual" else word.replace("timing", "time")
        title = maths = f"{word}{unit_text(unit)}"
        curves = {name.removeprefix(f"{kind}_"): name for name in names}
    return PanelSpec(f"{label} [{unit}]".strip(), curves, sized, title, maths)
