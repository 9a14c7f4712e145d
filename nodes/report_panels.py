"""The panels of a report picture: what the machine did over time, an axis for each group of curves."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.mechanics.description import Quantity
from servonode.nodes.result import Run

Array = npt.NDArray[np.float64]
Panel = tuple[str, dict[str, Array], bool]
PALETTE = ("#00798c", "#edae49", "#5c4d7d", "#66a182")


def panels_of(run: Run, known: dict[str, Array]) -> list[Panel]:
    """Axis label, curves by name, logarithmic or not: the machine's own panels, the inputs, the residuals.

    `known`: states, inputs and outputs of every row by name.
    """
    description = run.assembly.machine.description
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


def draw_panel(axis: Any, t: Array, panel: Panel) -> None:
    """Curves over time, with a legend above the axis where there are several."""
    title, curves, logarithmic = panel
    sizes = np.concatenate([values[np.isfinite(values) & (values > 0)] for values in curves.values()])
    logarithmic = logarithmic and len(sizes) > 0 and sizes.max() > 10 * sizes.min()  # else its ticks say nothing
    for color, (name, values) in zip(PALETTE, curves.items(), strict=False):
        shown = np.where(values > 0, values, np.nan) if logarithmic else values
        axis.plot(t, shown, color=color, label=name)
    if logarithmic:
        axis.set_yscale("log")
        axis.set_ylim(bottom=max(axis.get_ylim()[0], 1e-9 * float(sizes.max())))
    else:
        axis.ticklabel_format(useOffset=False)
    axis.set_ylabel(title)
    axis.margins(x=0)
    if len(curves) > 1:
        axis.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=len(curves), fontsize=8, borderpad=0)


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
