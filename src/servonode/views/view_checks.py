"""Whether the views of a machine can be drawn: tried out before a run, not after it."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ModelError
from servonode.plants.view import Values, View
from servonode.views.shapes import wanted_paths

COUNTS = {2: "two", 3: "three"}


def check_view(closed_loop: ClosedLoop) -> None:
    """Try out the machine's views at the start, so that a run is not followed by a picture that cannot be drawn.

    Raises:
        ModelError: a view names what the machine does not have, or one of its functions fails.
    """
    views = closed_loop.views if closed_loop.source.views() else ()  # a skeleton and a drawing need no check
    for number, view in enumerate(views):
        word = "VIEW" if len(views) == 1 else f"VIEW[{number}]"
        _check_view(closed_loop, view, f"{closed_loop.source.definition.file.name}: {word}")


def _check_view(closed_loop: ClosedLoop, view: View, word: str) -> None:
    _check_words(view, word)
    machine, run = closed_loop.machine, closed_loop.source.definition.run
    known = [*machine.description.state_names, *(each.name for each in machine.description.outputs)]
    unknown = [name for pair in view.trails.values() for name in pair if name not in known]
    if unknown:
        raise ModelError(f"{word} has a trail of {unknown[0]!r}; choose from {', '.join(known)}")
    u = np.zeros(machine.n_inputs)
    values = dict(zip(machine.description.state_names, map(float, closed_loop.start), strict=False))
    values |= dict.fromkeys(machine.description.input_names, 0.0) | machine.outputs(0.0, closed_loop.start, u)
    shapes: dict[str, list[tuple[int, ...]]] = run(lambda: _shapes_of(view, values, machine.parameters))
    for name in ("outline", "guides", "inertias"):
        for i, shape in enumerate(shapes.pop(name)):
            if len(shape) != 2 or shape[1] != view.size:
                text = f"gave an array of shape {shape} as line {i}; give points (n, {view.size})"
                raise ModelError(f"{word}'s {name} {text}")
    for name, pair in shapes.items():
        if pair != [(view.size,)] * 2:
            text = f"is not a foot and a vector; give two arrays of shape ({view.size},)"
            raise ModelError(f"{word}'s {name} {text}")
    caption = run(lambda: view.caption(values, machine.parameters) if view.caption else "")
    if not isinstance(caption, str):
        raise ModelError(f"{word}'s caption gave {caption!r}; give a text")
    run(lambda: view.lean(values, machine.parameters) if view.lean else 0.0)
    for name, frame in run(lambda: dict(view.frames(values, machine.parameters)) if view.frames else {}).items():
        if np.shape(frame) not in ((3,), (3, 4)):
            text = f"is of shape {np.shape(frame)}; give (x, y, angle), or rotation and place as (3, 4)"
            raise ModelError(f"{word}'s frame {name!r} {text}")
    wanted_paths(closed_loop, view, np.full(2, -1.0), np.full(2, 1.0))
    if view.goal is not None and not _is_pair(view.goal, view.size):
        raise ModelError(f"{word} has the goal {view.goal!r}; name {COUNTS[view.size]} targets, or leave it out")


def _check_words(view: View, word: str) -> None:
    """Refuse what is not a text or not a pair."""
    if not isinstance(view.title, str):
        raise ModelError(f"{word} has the title {view.title!r}; give a text")
    if not _is_pair(view.axes):
        raise ModelError(f"{word} has the axes {view.axes!r}; give two labels")
    if view.projection is not None and np.shape(view.projection) != (2, 3):
        text = f"a projection of shape {np.shape(view.projection)}; give the directions across and up, (2, 3)"
        raise ModelError(f"{word} has {text}")
    for name, values in view.trails.items():
        if not _is_pair(values, view.size):
            raise ModelError(f"{word} has the trail {name!r} of {values!r}; name {COUNTS[view.size]} values")


def _is_pair(given: Any, n: int = 2) -> bool:
    return isinstance(given, (tuple, list)) and len(given) == n and all(isinstance(each, str) for each in given)


def _shapes_of(view: View, values: Values, parameters: Values) -> dict[str, list[tuple[int, ...]]]:
    """The shapes of what a view's functions give: of its lines, and of its arrows by name."""
    given: dict[str, Iterable[Any]] = {
        name: lines(values, parameters) if lines else ()
        for name, lines in (("outline", view.outline), ("guides", view.guides), ("inertias", view.inertias))
    }
    arrows = view.arrows(values, parameters) if view.arrows else {}
    given |= {f"arrow {name!r}": pair for name, pair in arrows.items()}
    return {name: [np.shape(each) for each in arrays] for name, arrays in given.items()}
