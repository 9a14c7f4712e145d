"""A machine's views as JSON, for the JavaScript that draws them: what stays, what is drawn at one instant, limits."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.mechanics.machine import Machine
from servonode.plants.view import View
from servonode.views.scene import ROUNDING, Instant, usual

Array = npt.NDArray[np.float64]
FINE = 4  # decimal places of a coordinate behind the first digit of the largest extent
GROWTH = 1.5  # of the size that an arrow of full length stands for to the largest one so far


def view_layout(view: View, goals: Collection[str]) -> dict[str, Any]:
    """What of a view stays the same in a whole run; `goals` are the names of the run's targets.

    Trails and goal name columns: a path is drawn from the columns of its two values.
    """
    goal = [f"target_{name}" for name in view.goal] if view.goal and set(view.goal) <= set(goals) else None
    return {
        "title": view.title,
        "axes": list(view.axes),
        "strip": view.strip,
        "unit": view.arrow_unit,
        "trails": [{"name": name, "columns": list(pair)} for name, pair in view.trails.items()],
        "goal": goal,
    }


def view_shapes(view: View, instant: Instant) -> dict[str, Any]:
    """What a view draws at one instant: polylines [[x, y], ...], arrows with foot and vector, a caption."""
    arrows = instant.arrows(view)
    return {
        "lines": [line.tolist() for line in instant.lines(view.outline)],
        "guides": [line.tolist() for line in instant.lines(view.guides)],
        "arrows": [{"name": name, "foot": foot.tolist(), "vector": to.tolist()} for name, (foot, to) in arrows.items()],
        "caption": instant.given(view.caption) if view.caption else "",
    }


class ArrowScale:
    """The size that an arrow of full length stands for, in one view of a run that continues; 0 before there is any."""

    def __init__(self, view: View, machine: Machine) -> None:
        self._units, self._machine = {view.arrow_unit}, machine
        self.largest = 0.0

    def follow(self, shapes: Mapping[str, Any], columns: Mapping[str, Array]) -> float:
        """The size after the arrows of these shapes; what is but rounding beside the columns does not count."""
        largest = _largest([shapes])
        if largest > self.largest and largest > ROUNDING * usual(self._machine, columns, self._units):
            self.largest = GROWTH * largest
        return self.largest


def whole_run(
    view: View, machine: Machine, columns: Mapping[str, Array], shapes: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Limits {"x": [low, high], "y": [low, high]} and arrow size {"largest"} that hold for a whole run.

    columns: of all its rows; shapes: of instants spread over it.
    """
    layout = view_layout(view, [name.removeprefix("target_") for name in columns if name.startswith("target_")])
    pairs = [trail["columns"] for trail in layout["trails"]] + ([layout["goal"]] if layout["goal"] else [])
    paths = [np.column_stack([columns[name] for name in pair]) for pair in pairs]
    drawn = [line for each in shapes for line in (*each["lines"], *(each["guides"] if view.strip else ()))]
    points = np.concatenate([np.zeros((0, 2)), *paths, *(np.reshape(line, (-1, 2)) for line in drawn)])
    points = points[np.isfinite(points).all(axis=1)]
    low, high = (points.min(axis=0), points.max(axis=0)) if len(points) else (np.full(2, -1.0), np.full(2, 1.0))
    largest = _largest(shapes)
    seen = largest > ROUNDING * usual(machine, columns, {view.arrow_unit})
    return {
        "x": [float(low[0]), float(high[0])],
        "y": [float(low[1]), float(high[1])],
        "largest": largest if seen else 0.0,
    }


def corners(limits: Mapping[str, Any]) -> tuple[Array, Array]:
    """The lower and the upper corner (2,) [m] of limits."""
    low, high = np.array([limits["x"], limits["y"]]).T
    return low, high


def decimals(extent: float) -> int:
    """How many decimal places tell points apart that can be seen apart in something of this extent [m]."""
    return int(np.clip(FINE - np.floor(np.log10(extent)), 0, 12)) if extent > 0 else FINE


def _largest(shapes: Sequence[Mapping[str, Any]]) -> float:
    """The length of the longest arrow, in its unit."""
    sizes = [float(np.hypot(*arrow["vector"])) for each in shapes for arrow in each["arrows"]]
    return max((size for size in sizes if np.isfinite(size)), default=0.0)
