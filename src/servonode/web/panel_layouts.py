"""Panels as web/assets/plots.js takes them: titles and names in Unicode, colours by number, limits of an axis."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from servonode.views.limits import FLAT, floor_of, log_limits, round_limits
from servonode.views.panel_specs import PanelSpec
from servonode.views.panels import Panel
from servonode.views.symbols import plain

EXPECTED: dict[str, Any] = {"dash": [4, 2], "width": 0.8}  # as in the report picture
GOAL: dict[str, Any] = {"color": "goal", "dash": [5, 3]}


def live_panel(spec: PanelSpec, estimated: Collection[str] = ()) -> dict[str, Any]:
    """A panel of a run that continues: its limits follow its curves, and what hardly varies is drawn as a constant.

    estimated: the states that are drawn as they are estimated too, with a band around them.
    """
    floor = min(floor_of(spec.units.get(name, "1"), 0.0) for name in spec.curves)
    panel = {**_layout(spec, spec.title or spec.label, list(spec.curves)), "flat": FLAT, "floor": floor}
    panel["curves"] += [_estimate_of(each) for each in panel["curves"] if each["column"] in estimated]
    return panel


def _estimate_of(curve: Mapping[str, Any]) -> dict[str, Any]:
    """The curve of a state as it is estimated, with its band, in the same colour."""
    column = curve["column"]
    band = [f"low_{column}", f"high_{column}"]
    return {**curve, "name": f"{curve['name']} estimated", "column": f"estimate_{column}", "band": band}


def run_panel(panel: Panel) -> dict[str, Any]:
    """A panel of a run that is over, with the limits that the report picture gives it; it must show something.

    What a curve is expected to be is a thin dashed curve of its colour.
    """
    floor = min(panel.floors.values())
    layout = _layout(panel.spec, panel.words, list(panel.seen))
    drawn = [each for each in panel.seen if each in panel.expected]
    columns = [*panel.seen.values(), *(panel.expected[name] for name in drawn), *panel.goals.values()]
    limits = log_limits(columns, floor) if panel.spec.logarithmic else round_limits(columns)
    places = {name: i for i, name in enumerate(panel.spec.curves)}
    layout["curves"] += [
        {"name": f"σ of {plain(name)}", "column": panel.spec.expected[name], "color": places[name], **EXPECTED}
        for name in drawn
    ]
    return {**layout, "limits": [limits.low, limits.high], "floor": floor}


def _layout(spec: PanelSpec, title: str, names: Sequence[str]) -> dict[str, Any]:
    places = {name: i for i, name in enumerate(spec.curves)}
    curves = [{"name": plain(name), "column": spec.curves[name], "color": places[name]} for name in names]
    goals = [spec.goals[name] for name in names if name in spec.goals]
    curves += [{"name": "goal" if i == 0 else "", "column": column, **GOAL} for i, column in enumerate(goals)]
    return {"title": title, "curves": curves, "logarithmic": spec.logarithmic}
