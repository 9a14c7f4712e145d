"""The paths that a program asks a machine to follow, as its view draws them."""

from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ModelError
from servonode.plants.view import View, Wanted


def wanted_paths(closed_loop: ClosedLoop, view: View, low: Array, high: Array) -> dict[str, Array]:
    """Legend name -> polyline (n, 2) [m] of each path that is wanted, in the region between two corners (2,) [m].

    {} where there is no controller or the view knows no path of its program.

    Raises:
        ModelError: what the view's source raises, with its line; a path is not made of points (n, 2).
    """
    control, paths = closed_loop.control, view.paths
    if control is None or paths is None:
        return {}
    settings: dict[str, Any] = {**control.options, **control.law.parameters}
    start = dict(zip(closed_loop.machine.description.state_names, map(float, closed_loop.start), strict=False))
    wanted = Wanted(control.law.description.name, settings, start, np.asarray(low, float), np.asarray(high, float))
    found = closed_loop.source.definition.run(lambda: dict(paths(wanted)))
    file = closed_loop.source.definition.file.name
    return {name: points_of(line, f"{file}: a view's path {name!r}") for name, line in found.items()}


def points_of(line: Any, word: str) -> Array:
    """A polyline (n, 2) of a view; an empty one of any shape is (0, 2).

    Raises:
        ModelError: it is not made of points (n, 2); the text begins with `word`.
    """
    try:
        points = np.asarray(line, float)
    except (TypeError, ValueError):
        raise ModelError(f"{word} is {str(line)[:40]!r}, not made of numbers; give points (n, 2)") from None
    if not points.size:
        return np.zeros((0, 2))
    if points.ndim != 2 or points.shape[1] != 2:
        raise ModelError(f"{word} has the shape {points.shape}; give points (n, 2)")
    return points
