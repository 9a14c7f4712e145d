"""The paths that a program asks a machine to follow, as its view draws them."""

from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ModelError
from servonode.plants.view import View, Wanted


def wanted_paths(closed_loop: ClosedLoop, view: View, low: Array, high: Array) -> dict[str, Array]:
    """Legend name -> polyline (n, 2) [m] of each path that is wanted, in the region between two corners (2,) [m].

    Raises as `wanted_in_space`.
    """
    return {name: view.flat(line) for name, line in wanted_in_space(closed_loop, view, low, high).items()}


def wanted_in_space(closed_loop: ClosedLoop, view: View, low: Array, high: Array) -> dict[str, Array]:
    """The same as polylines (n, size), before they are projected.

    {} where there is no controller or the view knows no path of its program.

    Raises:
        ModelError: what the view's source raises, with its line; a path is not made of points (n, size).
    """
    control, paths = closed_loop.control, view.paths
    if control is None or paths is None:
        return {}
    settings: dict[str, Any] = {**control.options, **control.law.parameters}
    start = dict(zip(closed_loop.machine.description.state_names, map(float, closed_loop.start), strict=False))
    wanted = Wanted(control.law.description.name, settings, start, np.asarray(low, float), np.asarray(high, float))
    found = closed_loop.source.definition.run(lambda: dict(paths(wanted)))
    file = closed_loop.source.definition.file.name
    words = {name: f"{file}: a view's path {name!r}" for name in found}
    return {name: points_of(line, words[name], view.size) for name, line in found.items()}


def points_of(line: Any, word: str, size: int = 2) -> Array:
    """A polyline (n, size) of a view; an empty one of any shape is (0, size).

    Raises:
        ModelError: it is not made of such points; the text begins with `word`.
    """
    try:
        points = np.asarray(line, float)
    except (TypeError, ValueError):
        raise ModelError(f"{word} is {str(line)[:40]!r}, not made of numbers; give points (n, {size})") from None
    if not points.size:
        return np.zeros((0, size))
    if points.ndim != 2 or points.shape[1] != size:
        raise ModelError(f"{word} has the shape {points.shape}; give points (n, {size})")
    return points
