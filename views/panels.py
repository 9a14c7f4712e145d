"""The panels of a picture: what the machine did over time, an axis for each group of curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.closed_loop.run import Run
from servonode.mechanics.description import MachineDescription, Quantity

Array = npt.NDArray[np.float64]
Panel = tuple[str, dict[str, Array], bool]
PALETTE = ("#00798c", "#edae49", "#5c4d7d", "#66a182")
LEAST = 1e-9  # of what is smallest on a logarithmic axis to what is largest


@dataclass(frozen=True)
class PanelSpec:
    """What one axis shows: its label, its curves by legend name with the column of each.

    logarithmic: of the values only the size is shown, on a logarithmic axis.
    """

    label: str
    curves: dict[str, str]
    logarithmic: bool = False


def panel_specs(description: MachineDescription, residuals: Sequence[str]) -> list[PanelSpec]:
    """The machine's own panels, then the inputs that they do not show, then the residuals (`residual_NAME`)."""
    units = {each.name: each.unit for each in (*description.state, *description.outputs, *description.inputs)}
    groups = [tuple(names) for names in description.panels or _by_unit(description.state)]
    shown = {name for names in description.panels for name in names}
    groups += _by_unit([each for each in description.inputs if each.name not in shown])
    specs = [PanelSpec(_label(names, units), {name: name for name in names}) for names in groups]
    if residuals:
        specs.append(PanelSpec("|residual|", {name: f"residual_{name}" for name in residuals}, True))
    return specs


def panels_of(run: Run, known: dict[str, Array]) -> list[Panel]:
    """Axis label, curves by name, logarithmic or not, of each panel of a run.

    `known`: states, inputs and outputs of every row by name.
    """
    columns = {**known, **{f"residual_{name}": np.abs(values) for name, values in run.residual.items()}}
    specs = panel_specs(run.closed_loop.machine.description, list(run.residual))
    if run.estimate is not None:
        specs += estimate_specs(list(run.estimate.residual))
        columns |= {name: np.abs(values) for name, values in run.estimate.columns.items()}
    return [
        (each.label, {name: columns[column] for name, column in each.curves.items()}, each.logarithmic)
        for each in specs
    ]


def estimate_specs(residuals: Sequence[str]) -> list[PanelSpec]:
    """What the residuals truly were, where the law worked on an estimate, and its squared errors."""
    return [
        PanelSpec("|true residual|", {name: f"true_residual_{name}" for name in residuals}, True),
        PanelSpec("NIS, NEES", {"NIS": "nis", "NEES": "nees"}, True),
    ]


@dataclass(frozen=True)
class Curve:
    """A column over its own time [s], and how it is drawn."""

    name: str
    t: Array
    values: Array
    color: str
    dashes: str = "-"
    width: float = 1.3


def draw_panel(axis: Any, t: Array, panel: Panel) -> None:
    """Curves over time, with a legend above the axis where there are several."""
    title, columns, logarithmic = panel
    draw_curves(
        axis,
        title,
        [Curve(name, t, values, color) for color, (name, values) in zip(PALETTE, columns.items(), strict=False)],
        logarithmic,
    )
    entitle_panel(axis, len(columns))


def draw_curves(axis: Any, title: str, curves: Sequence[Curve], logarithmic: bool) -> None:
    """Curves over time, their positive values on a logarithmic axis where that is wanted and has ticks to show."""
    positive = positive_sizes([each.values for each in curves])
    logarithmic = spans_decades(positive, logarithmic)
    for each in curves:
        shown = np.where(each.values > 0, each.values, np.nan) if logarithmic else each.values
        axis.plot(each.t, shown, color=each.color, linestyle=each.dashes, linewidth=each.width, label=each.name)
    if logarithmic:
        axis.set_yscale("log")
        axis.set_ylim(bottom=max(axis.get_ylim()[0], LEAST * float(positive.max())))
    else:
        axis.ticklabel_format(useOffset=False)
    axis.set_ylabel(title)
    axis.margins(x=0)


def positive_sizes(columns: Sequence[Array]) -> Array:
    """The values above zero of all columns."""
    return np.concatenate([values[np.isfinite(values) & (values > 0)] for values in columns])


def spans_decades(sizes: Array, logarithmic: bool) -> bool:
    """Whether a logarithmic axis is wanted and would say something: over less than a decade it has no ticks."""
    return logarithmic and len(sizes) > 0 and bool(sizes.max() > 10 * sizes.min())


def entitle_panel(axis: Any, curves: int, **look: Any) -> None:
    """A legend above the axis where there are several curves."""
    if curves > 1:
        axis.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=curves, fontsize=8, borderpad=0, **look)


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
