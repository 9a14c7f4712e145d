"""A machine's views as JSON, for the JavaScript that draws them: what stays, and what is drawn at one instant."""

from collections.abc import Collection
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.plants.view import View
from servonode.views.shapes import LONGEST, LONGEST_IN_STRIP, UNSEEN, USED, Shapes

FINE = 4  # decimal places of a coordinate behind the first digit of the largest extent


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
