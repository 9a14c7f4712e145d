"""The report picture of a run: the machine's path from above, and what it did over time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.mechanics.description import ModelError, Quantity
from servonode.nodes.assembly import Assembly
from servonode.nodes.machines import parameters_at
from servonode.nodes.result import Run
from servonode.plants.view import View

Array = npt.NDArray[np.float64]
WIDE = 2.2  # width over height from which the path stands above the panels
SNAPSHOTS = 9  # instants at which the outline is drawn
INK, GOAL = "#1b2733", "#d1495b"
PALETTE = ("#00798c", "#edae49", "#5c4d7d", "#66a182")
STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a97a3",
    "axes.labelcolor": INK,
    "axes.grid": True,
    "grid.color": "#e4e9ed",
    "xtick.color": "#5b6873",
    "ytick.color": "#5b6873",
    "font.size": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
}


def write_report(run: Run, name: str, file: Path) -> None:
    """Draw the report picture of a run into `file` (PNG or another format that matplotlib knows by its ending)."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    view = run.assembly.source.view()
    with mpl.rc_context():
        mpl.rcParams.update(STYLE)
        panels = _panels(run)
        figure = Figure(figsize=(14, 8.2), layout="constrained")
        FigureCanvasAgg(figure)
        if view is None:
            axes = _columns(figure, len(panels))
        else:
            place, axes = _layout(figure, len(panels), _is_wide(run, view))
            _draw_path(place, run, view)
        for axis, (title, curves, logarithmic) in zip(axes, panels, strict=False):
            _draw_panel(axis, run.t, title, curves, logarithmic)
        figure.suptitle(_title(run, name), color=INK, fontsize=12, x=0.01, ha="left")
        figure.savefig(file, dpi=110)


def check_view(assembly: Assembly) -> None:
    """Try out the machine's view at the start, so that a run is not followed by a picture that cannot be drawn.

    Raises:
        ModelError: the view names what the machine does not have, or its outline fails.
    """
    view = assembly.source.view()
    if view is None:
        return
    machine, file = assembly.machine, assembly.source.definition.file.name
    known = [*machine.description.state_names, *(each.name for each in machine.description.outputs)]
    unknown = [name for pair in view.trails.values() for name in pair if name not in known]
    if unknown:
        raise ModelError(f"{file}: VIEW has a trail of {unknown[0]!r}; choose from {', '.join(known)}")
    state = dict(zip(machine.description.state_names, map(float, assembly.start), strict=False))
    lines = assembly.source.definition.run(lambda: list(view.outline(state, machine.parameters)))
    for i, line in enumerate(lines):
        if np.ndim(line) != 2 or np.shape(line)[1] != 2:
            text = f"{file}: VIEW's outline gave an array of shape {np.shape(line)} as line {i}; give points (n, 2)"
            raise ModelError(text)
    if view.goal is not None and (isinstance(view.goal, str) or len(view.goal) != 2):
        raise ModelError(f"{file}: VIEW has the goal {view.goal!r}; name two targets, or leave it out")


def _columns(figure: Any, n: int) -> list[Any]:
    """The axes of n panels in two columns, for a machine without a view."""
    grid = figure.subplots(-(-n // 2), 2, sharex=True, squeeze=False)
    axes = [*grid[:, 0], *grid[:, 1]]
    for spare in axes[n:]:
        spare.set_axis_off()
    for axis in (grid[-1, 0], axes[n - 1]):
        axis.set_xlabel("t [s]")
        axis.tick_params(labelbottom=True)
    return axes


def _is_wide(run: Run, view: View) -> bool:
    """Whether the paths are much wider than high, so that they want the whole width."""
    known = {**run.state, **run.outputs()}
    if not view.trails:
        return False
    across, up = (np.concatenate([known[pair[i]] for pair in view.trails.values()]) for i in (0, 1))
    return bool(np.ptp(across) > WIDE * np.ptp(up))


def _layout(figure: Any, n: int, wide: bool) -> tuple[Any, list[Any]]:
    """The axes of the path and of n panels: beside each other, or the path above two columns of panels."""
    if wide:
        top, bottom = figure.subfigures(2, 1, height_ratios=(1.0, 1.6))
        return top.add_subplot(), _columns(bottom, n)
    left, right = figure.subfigures(1, 2, width_ratios=(1.05, 1.0))
    axes = list(right.subplots(n, 1, sharex=True, squeeze=False)[:, 0])
    axes[-1].set_xlabel("t [s]")
    return left.add_subplot(), axes


def _title(run: Run, name: str) -> str:
    law = run.assembly.control
    program = f", {law.law.description.name}" if law else ""
    text = f"{name}: {run.assembly.machine.description.description}{program} ({run.control})"
    return f"{text}\nFAULT at {run.fault['t']:.2f} s: {run.fault['name']}" if run.fault else text


Panel = tuple[str, dict[str, Array], bool]


def _panels(run: Run) -> list[Panel]:
    """Axis label, curves by name, logarithmic or not: the machine's own panels, the inputs, the residuals."""
    description = run.assembly.machine.description
    known = {**run.state, **run.outputs(), **run.input}
    units = {each.name: each.unit for each in (*description.state, *description.outputs, *description.inputs)}
    panels: list[Panel] = []
    for names in description.panels or _default_panels(run):
        panels.append((_label(names, units), {name: known[name] for name in names}, False))
    shown = {name for names in description.panels for name in names}
    for names in _by_unit([each for each in description.inputs if each.name not in shown]):
        panels.append((_label(names, units), {name: run.input[name] for name in names}, False))
    if run.residual:
        sizes = {name: np.abs(values) for name, values in run.residual.items()}
        panels.append(("|residual|", sizes, True))
    return panels


def _default_panels(run: Run) -> list[tuple[str, ...]]:
    """Coordinates and velocities, for a machine that names no panels."""
    return _by_unit(run.assembly.machine.description.state)


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


def _draw_panel(axis: Any, t: Array, title: str, curves: dict[str, Array], logarithmic: bool) -> None:
    for color, (name, values) in zip(PALETTE, curves.items(), strict=False):
        shown = np.where(values > 0, values, np.nan) if logarithmic else values
        axis.plot(t, shown, color=color, label=name)
    if logarithmic and any(np.nanmax(values, initial=0.0) > 0 for values in curves.values()):
        axis.set_yscale("log")
        highest = max(float(np.nanmax(values, initial=0.0)) for values in curves.values())
        axis.set_ylim(bottom=max(axis.get_ylim()[0], 1e-9 * highest))
    else:
        axis.ticklabel_format(useOffset=False)
    axis.set_ylabel(title)
    axis.margins(x=0)
    if len(curves) > 1:
        axis.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=len(curves), fontsize=8, borderpad=0)


def _draw_path(axis: Any, run: Run, view: View) -> None:
    """Paths of machine and goal, with the machine's outline at a few instants, later ones darker."""
    known = {**run.state, **run.outputs()}
    for color, (label, (across, up)) in zip(PALETTE, view.trails.items(), strict=False):
        axis.plot(known[across], known[up], color=color, label=label, zorder=2)
    instants = _snapshots(run)
    goals = run.targets()
    if view.goal and set(view.goal) <= goals.keys():
        x, y = (goals[name] for name in view.goal)
        axis.plot(x, y, color=GOAL, linewidth=1.0, linestyle="--", label="target", zorder=1)
        axis.plot(x[instants], y[instants], "o", color=GOAL, markersize=4, zorder=4)
        for across, up in list(view.trails.values())[:1]:
            for i in instants:
                axis.plot([known[across][i], x[i]], [known[up][i], y[i]], color=GOAL, linewidth=0.5, alpha=0.6)
    for number, i in enumerate(instants):
        state = {name: float(values[i]) for name, values in run.state.items()}
        shade = 0.35 + 0.65 * number / max(len(instants) - 1, 1)
        for line in _outline(run, view, state, float(run.t[i])):
            axis.plot(line[:, 0], line[:, 1], color=INK, linewidth=0.9, alpha=shade, zorder=3)
    axis.set_aspect("equal", adjustable="datalim")
    axis.set_xlabel(view.axes[0])
    axis.set_ylabel(view.axes[1])
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc="upper left")


def _outline(run: Run, view: View, state: dict[str, float], t: float) -> list[Array]:
    """The machine's outline; what its source raises names the line."""
    source = run.assembly.source
    parameters = parameters_at(run.assembly.machine, source, t)
    lines: list[Array] = source.definition.run(lambda: list(view.outline(state, parameters)))
    return lines


def _snapshots(run: Run) -> list[int]:
    """Rows spread evenly over time, both ends included."""
    return sorted({int(i) for i in np.linspace(0, len(run.t) - 1, SNAPSHOTS)})
