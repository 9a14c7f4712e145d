"""Panels as web/assets/plots.js takes them: titles and names in Unicode, colours by number, limits of an axis."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.views.limits import FLAT, floor_of, log_limits, round_limits
from servonode.views.panels import Panel, PanelSpec
from servonode.views.symbols import plain

Array = npt.NDArray[np.float64]


def live_panel(spec: PanelSpec) -> dict[str, Any]:
    """A panel of a run that continues: its limits follow its curves, and what hardly varies is drawn as a constant."""
    floor = min(floor_of(spec.units.get(name, "1"), 0.0) for name in spec.curves)
    return {**_layout(spec, spec.title or spec.label, list(spec.curves)), "flat": FLAT, "floor": floor}


def run_panel(panel: Panel) -> dict[str, Any]:
    """A panel of a run that is over, with the limits that the report picture gives it; it must show something."""
    floor = min(panel.floors.values())
    limits = limits_of(list(panel.seen.values()), panel.spec.logarithmic, floor)
    return {**_layout(panel.spec, panel.words, list(panel.seen)), "limits": limits, "floor": floor}


def limits_of(columns: Sequence[Array], logarithmic: bool, floor: float) -> list[float]:
    """The ends of an axis for a whole run. floor: the size below which a value is zero to rounding."""
    found = log_limits(columns, floor) if logarithmic else round_limits(columns)
    return [found.low, found.high]


def _layout(spec: PanelSpec, title: str, names: Sequence[str]) -> dict[str, Any]:
    places = {name: i for i, name in enumerate(spec.curves)}
    curves = [{"name": plain(name), "column": spec.curves[name], "color": places[name]} for name in names]
    return {"title": title, "curves": curves, "logarithmic": spec.logarithmic}
