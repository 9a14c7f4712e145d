"""Choice of the panels of a window or movie: the default ones, or the user's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from servonode.bus.durations import EXTRA
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.mechanics.description import Quantity
from servonode.views.panels import PALETTE, PanelSpec, panel_specs
from servonode.views.symbols import plain, titles, unit_text

TIMING = {
    "round trip": "timing_round_trip",
    "lateness": "timing_lateness",
    "law": "timing_law",
    "age": "timing_age",
}  # legend name -> column [ms]


class FieldError(ServonodeError, ValueError):
    """A panel was asked for that cannot be shown; the text says why."""


def usual_panels(closed_loop: ClosedLoop, timing: bool) -> list[PanelSpec]:
    """The panels of the report picture, with one of times where these are known."""
    units = {each.name: each.unit for each in closed_loop.residuals}
    panels = panel_specs(closed_loop.machine.description, residual_names(closed_loop), units)
    return (
        [*panels, PanelSpec("[ms]", timing_curves(closed_loop), True, "times [ms]", "times [ms]")] if timing else panels
    )


def timing_curves(closed_loop: ClosedLoop) -> dict[str, str]:
    """The times of TIMING that a run of this has; without a controller there is nothing to wait for."""
    realtime = closed_loop.launch.run.mode == "realtime"
    return {
        name: column
        for name, column in TIMING.items()
        if (realtime if name == "lateness" else closed_loop.control is not None)
    }


def residual_names(closed_loop: ClosedLoop) -> list[str]:
    """Of the constraints that the machine's reactions hold, then of the program."""
    return [each.name for each in closed_loop.residuals]


def chosen_panels(closed_loop: ClosedLoop, fields: Sequence[str], timing: bool) -> list[PanelSpec]:
    """A panel for each "NAME,NAME"; where all its names are residuals, or times, on a logarithmic axis.

    Raises:
        FieldError: no such name, or more of them in one panel than there are colours.
    """
    units = _units(closed_loop, timing) | (
        dict.fromkeys(extra_columns(closed_loop, fields), "its unit") if timing else {}
    )
    alias = dict(zip(closed_loop.machine.description.columns, closed_loop.machine.description.state_names, strict=True))
    description = closed_loop.machine.description
    known = {each.name: each for each in (*description.state, *description.outputs, *description.inputs)}
    return [_worded(_chosen(text, units, alias), known) for text in fields]


def extra_columns(closed_loop: ClosedLoop, fields: Sequence[str]) -> list[str]:
    """The names in the panels that an external plant measures beside its state; which ones it has only it knows."""
    if not closed_loop.driver.outside:
        return []
    names = [name.strip() for text in fields for name in text.split(",")]
    return [name for name in dict.fromkeys(names) if name.startswith(EXTRA) and name != EXTRA]


def _chosen(text: str, units: Mapping[str, str], alias: Mapping[str, str]) -> PanelSpec:
    names = [alias.get(name.strip(), name.strip()) for name in text.split(",")]
    for name in names:
        if name not in units:
            raise FieldError(f"panel {text!r}: unknown name {name!r}; choose from {', '.join(units)}")
    if len(names) > len(PALETTE):
        raise FieldError(f"panel {text!r} has {len(names)} names; give at most {len(PALETTE)} to one panel")
    of = list(dict.fromkeys(units[name] for name in names))
    sized = all(name.startswith("residual_") for name in names) or all(name.startswith("timing_") for name in names)
    word = names[0] if len(names) == 1 else ""
    label = f"|{word or 'residual'}|" if sized and names[0].startswith("residual_") else word
    return PanelSpec(f"{label} [{', '.join(of)}]".strip(), {name: name for name in names}, sized)


def _worded(spec: PanelSpec, known: Mapping[str, Quantity]) -> PanelSpec:
    """The panel with its title in words; residuals and times by their own names."""
    columns = list(spec.curves.values())
    if all(name in known for name in columns):
        maths, words = titles([known[name] for name in columns])
        return replace(spec, maths=maths, title=words)
    if spec.logarithmic:
        kind, _, only = columns[0].partition("_")
        word = f"{kind} {plain(only)}" if len(columns) == 1 else f"{kind}s"
        unit = spec.label.partition("[")[2].rstrip("]")
        words = f"{word.replace('timing', 'time')}{', magnitude' if kind == 'residual' else ''}{unit_text(unit)}"
        curves = {name.removeprefix(f"{kind}_"): name for name in columns}
        return replace(spec, maths=words, title=words, curves=curves)
    return spec


def _units(closed_loop: ClosedLoop, timing: bool) -> dict[str, str]:
    """Every column that a panel may show, with its unit."""
    description = closed_loop.machine.description
    units = {each.name: each.unit for each in (*description.state, *description.outputs, *description.inputs)}
    units |= {f"residual_{each.name}": each.unit for each in closed_loop.residuals}
    units |= {f"target_{name}": "target" for name in closed_loop.targets.names}
    return units | (dict.fromkeys(timing_curves(closed_loop).values(), "ms") if timing else {})
