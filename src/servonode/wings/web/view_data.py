"""Views and panels as JSON for the JavaScript that draws them: what stays, what is drawn at one instant, the paths that
a program asks for; of panels titles and names in Unicode, colours by number, limits of an axis.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.view import View
from servonode.views.forbidden import WORD, Forbidden
from servonode.views.limits import FLAT, floor_of, log_limits, round_limits
from servonode.views.panel_specs import PanelSpec
from servonode.views.panels import Panel
from servonode.views.shapes import LONGEST, LONGEST_IN_STRIP, UNSEEN, USED, Shapes, corners, wanted_in_space
from servonode.views.symbols import plain

NEEDED, ASKED = 1.0, 2.0  # of the extent, beyond what is drawn on each side: at least, and when it is asked for
SPARE = 4.0  # times what is asked for, above which it is asked for anew: a line has few points in a large region
FINER = 200  # pieces of the region of forbidden sets
NEAR = 0.8  # of the extent, as far as those go beyond it that move
FINE = 4  # decimal places of a coordinate behind the first digit of the largest extent

Line = dict[str, Any]  # {"name": legend name, "points": [[x, y], ...], or [[x, y, z], ...] in space}; "areas": rings
EXPECTED: dict[str, Any] = {"dash": [4, 2], "width": 0.8}  # as in the report picture
GOAL: dict[str, Any] = {"color": "goal", "dash": [5, 3]}


def view_layout(view: View, goals: Collection[str]) -> dict[str, Any]:
    """What of a view stays the same in a whole run; `goals` are the names of the run's targets.

    Trails and goal name columns: a path is drawn from the columns of its values. With a projection everything that is
    drawn has points [x, y, z], which the page projects, and turns as it is dragged.
    """
    goal = [f"target_{name}" for name in view.goal] if view.goal and set(view.goal) <= set(goals) else None
    return {
        "title": view.title,
        "axes": list(view.axes),
        "strip": view.strip,
        "unit": view.arrow_unit,
        "trails": [{"name": name, "columns": list(pair)} for name, pair in view.trails.items()],
        "goal": goal,
        "projection": None if view.projection is None else np.asarray(view.projection, float).tolist(),
        "longest": LONGEST_IN_STRIP if view.strip else LONGEST,
        "unseen": UNSEEN,
        "used": USED,
    }


def path_columns(layout: dict[str, Any]) -> list[list[str]]:
    """The columns of the values of each path in a layout, the goal's last."""
    return [*(trail["columns"] for trail in layout["trails"]), *([layout["goal"]] if layout["goal"] else ())]


def shapes_data(shapes: Shapes, digits: int | None = None) -> dict[str, Any]:
    """Polylines [[x, y], ...], arrows with foot and vector, a caption; lines with so many decimal places, or all."""

    def points(line: Array) -> Any:
        return (line if digits is None else np.round(line, digits)).tolist()

    return {
        "lines": list(map(points, shapes.lines)),
        "guides": list(map(points, shapes.guides)),
        "inertias": list(map(points, shapes.inertias)),
        "arrows": [
            {"name": name, "foot": foot.tolist(), "vector": vector.tolist()}
            for name, (foot, vector) in shapes.arrows.items()
        ],
        "caption": shapes.caption,
    }


def decimals(extent: float) -> int:
    """How many decimal places tell points apart that can be seen apart in something of this extent [m]."""
    return int(np.clip(FINE - np.floor(np.log10(extent)), 0, 12)) if extent > 0 else FINE


def lines_around(closed_loop: ClosedLoop, view: View, low: Array, high: Array) -> list[Line]:
    """The wanted paths of a view, with room around the corners (2,) [m] of what is drawn; none that is not seen."""
    extent = _extent(low, high)
    paths = wanted_in_space(closed_loop, view, low - ASKED * extent, high + ASKED * extent)
    near = (low - NEEDED * extent, high + NEEDED * extent)
    return [
        {"name": name, "points": np.round(line, decimals(extent)).tolist()}
        for name, line in paths.items()
        if _meets(view.flat(line), *near)
    ]


def areas_around(forbidden: Forbidden, t: float, low: Array, high: Array) -> list[list[Any]]:
    """The forbidden sets at a time, with room around the corners (2,) [m] of what is drawn: of each area its rings."""
    extent = _extent(low, high)
    beyond = extent * (0.0 if forbidden.in_space else NEAR if forbidden.moves else ASKED)
    digits = decimals(extent)
    found = forbidden.areas(t, low - beyond, high + beyond, FINER)
    return [[np.round(ring, digits).tolist() for ring in area] for area in found]


def forbidden_line(forbidden: Forbidden, areas: list[Any]) -> list[Line]:
    """What is forbidden, beside the wanted paths."""
    return [{"name": WORD, "points": [], "areas": areas}] if forbidden else []


def _extent(low: Array, high: Array) -> float:
    return float(np.max(high - low)) or 1.0


def _meets(line: Array, low: Array, high: Array) -> bool:
    """Whether a polyline has a part in the box, to judge by its corners and the middles between them."""
    points = np.concatenate([line, (line[1:] + line[:-1]) / 2]) if len(line) else line
    return bool(((points >= low) & (points <= high)).all(axis=1).any())


class LiveLines:
    """The wanted paths of one view of a run that continues, of the region that it shows."""

    def __init__(self, closed_loop: ClosedLoop, view: View) -> None:
        self._closed_loop, self._view, self._forbidden = closed_loop, view, Forbidden(closed_loop, view)
        self._columns = [tuple(each) for each in path_columns(view_layout(view, closed_loop.targets.names))]
        self._low = self._high = np.full(2, np.nan)  # of the box that was asked for
        self.lines: list[Line] = []
        self._paths: list[Line] = []

    def follow(self, columns: Mapping[str, Array], shapes: Shapes) -> bool:
        """Ask anew where what is drawn, paths of these columns and an outline [m], needs it; whether lines changed."""
        if self._view.paths is None and not self._forbidden:
            return False
        box = corners([*(self._view.path(columns, names) for names in self._columns), *shapes.lines])
        if box is None or (self._suffices(*box) and not self._forbidden.moves):
            return False
        before, extent = self.lines, _extent(*box)
        if not self._suffices(*box):
            self._low, self._high = box[0] - ASKED * extent, box[1] + ASKED * extent
            self._paths = lines_around(self._closed_loop, self._view, *box)
        areas = areas_around(self._forbidden, float(columns["t"][-1]), *box)
        self.lines = [*self._paths, *forbidden_line(self._forbidden, areas)]
        return self.lines != before

    def _suffices(self, low: Array, high: Array) -> bool:
        extent = _extent(low, high)
        inside = (self._low <= low - NEEDED * extent).all() and (high + NEEDED * extent <= self._high).all()
        return bool(inside and _extent(self._low, self._high) <= SPARE * (1 + 2 * ASKED) * extent)


def live_panel(spec: PanelSpec, estimated: Collection[str] = ()) -> dict[str, Any]:
    """A panel of a run that continues: its limits follow its curves, and what hardly varies is drawn as a constant.

    estimated: the states that are drawn as they are estimated too, with a band around them.
    """
    floor = min(floor_of(spec.units.get(name, "1"), 0.0) for name in spec.curves)
    panel = {**_layout(spec, spec.title or spec.label, list(spec.curves)), "flat": FLAT, "floor": floor}
    known = [(each, each["column"]) for each in panel["curves"] if each["column"] in estimated]
    panel["curves"] += [
        {**each, "name": f"{each['name']} estimated", "column": f"estimate_{of}", "band": [f"low_{of}", f"high_{of}"]}
        for each, of in known
    ]
    return panel


def run_panel(panel: Panel) -> dict[str, Any]:
    """A panel of a run that is over, with the limits that the report picture gives it; it must show something.

    What a curve is expected to be is a thin dashed curve of its colour.
    """
    layout = _layout(panel.spec, panel.words, list(panel.seen))
    drawn = [each for each in panel.seen if each in panel.expected]
    columns = [*panel.seen.values(), *(panel.expected[name] for name in drawn), *panel.goals.values()]
    columns += [np.zeros(1)] if panel.acts else []
    limits = log_limits(columns, panel.floor) if panel.spec.logarithmic else round_limits(columns)
    places = {name: i for i, name in enumerate(panel.spec.curves)}
    layout["curves"] += [
        {"name": f"σ of {plain(name)}", "column": panel.spec.expected[name], "color": places[name], **EXPECTED}
        for name in drawn
    ]
    return {**layout, "limits": [limits.low, limits.high], "floor": panel.floor}


def _layout(spec: PanelSpec, title: str, names: Sequence[str]) -> dict[str, Any]:
    places = {name: i for i, name in enumerate(spec.curves)}
    curves = [{"name": plain(name), "column": spec.curves[name], "color": places[name]} for name in names]
    goals = {name: spec.goals[name] for name in names if name in spec.goals}
    words = {name: f"goal of {plain(name)}" if len(goals) > 1 else "goal" for name in goals}
    curves += [{"name": words[name], "column": column, **GOAL} for name, column in goals.items()]
    acts = {"acts": [spec.active[name] for name in names]} if spec.active else {}
    return {"title": title, "curves": curves, "logarithmic": spec.logarithmic} | acts
