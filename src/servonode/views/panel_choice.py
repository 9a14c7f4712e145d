"""Choice of the panels of a window or movie: the default ones, or the user's."""

from collections.abc import Mapping, Sequence

from servonode.bus.durations import EXTRA
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.mechanics.description import Quantity
from servonode.views.palette import PALETTE
from servonode.views.panel_specs import PanelSpec, most_important, panel_specs
from servonode.views.symbols import plain, titles, unit_text

TIMING = {
    "round trip": "timing_round_trip",
    "lateness": "timing_lateness",
    "law": "timing_law",
    "age": "timing_age",
}  # legend name -> column [ms]


class FieldError(ServonodeError, ValueError):
    """A panel was asked for that cannot be shown; the text says why."""


def usual_panels(closed_loop: ClosedLoop, timing: bool, most: int) -> list[PanelSpec]:
    """The panels of the report picture for so many axes, with one of times where these are known."""
    specs = panel_specs(closed_loop.machine.description, closed_loop.residuals, closed_loop.tracked)
    panels = most_important(specs, most)
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


def chosen_panels(closed_loop: ClosedLoop, fields: Sequence[str], timing: bool) -> list[PanelSpec]:
    """A panel for each "NAME,NAME"; where all its names are residuals, or times, on a logarithmic axis.

    Raises:
        FieldError: no such name, or more of them in one panel than there are colours.
    """
    description = closed_loop.machine.description
    known = {each.name: each for each in (*description.state, *description.outputs, *description.inputs)}
    units = {each.name: each.unit for each in known.values()}
    units |= {f"residual_{each.name}": each.unit for each in closed_loop.residuals}
    units |= {f"target_{name}": "target" for name in closed_loop.targets.names}
    if timing:
        units |= dict.fromkeys(timing_curves(closed_loop).values(), "ms")
        units |= dict.fromkeys(extra_columns(closed_loop, fields), "its unit")
    alias = dict(zip(description.columns, description.state_names, strict=True))
    return [_chosen(text, units, alias, known) for text in fields]


def extra_columns(closed_loop: ClosedLoop, fields: Sequence[str]) -> list[str]:
    """The names in the panels that an external plant measures beside its state; which ones it has only it knows."""
    if not closed_loop.driver.outside:
        return []
    names = [name.strip() for text in fields for name in text.split(",")]
    return [name for name in dict.fromkeys(names) if name.startswith(EXTRA) and name != EXTRA]


def _chosen(
    text: str, units: Mapping[str, str], alias: Mapping[str, str], known: Mapping[str, Quantity]
) -> PanelSpec:  # fmt: skip
    """The panel of a text, its title in words; residuals and times by their own names."""
    names = [alias.get(name.strip(), name.strip()) for name in text.split(",")]
    for name in names:
        if name not in units:
            raise FieldError(f"panel {text!r}: unknown name {name!r}; choose from {', '.join(units)}")
    if len(names) > len(PALETTE):
        raise FieldError(f"panel {text!r} has {len(names)} names; give at most {len(PALETTE)} to one panel")
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
