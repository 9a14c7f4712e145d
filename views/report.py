"""The report picture of a run: the machine's views, and what it did over time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.run import Run
from servonode.mechanics.description import ModelError
from servonode.plants.view import Values, View
from servonode.views.panels import Panel, draw_panel, panels_of
from servonode.views.scene import Scene
from servonode.views.static_views import INK, Strip, draw_map, draw_strip

WIDTH, HEIGHT = 14.0, 8.2  # in; strips add to the height
MAP_HEIGHT, STRIP_HEIGHT = 3.15, (1.3, 2.6)  # in; of a map as wide as the picture, of a strip at least and at most
AROUND = (0.9, 0.8)  # in; what stands beside and below an axis
BELOW_FIRST = 0.6  # height of a further map to that of the first
STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a97a3",
    "axes.labelcolor": INK,
    "axes.grid": True,
    "grid.color": "#e4e9ed",
    "xtick.color": "#5b6873",
    "ytick.color": "#5b6873",
    "font.size": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
}


def write_report(run: Run, name: str, file: Path) -> None:
    """Draw the report picture of a run into `file` (PNG or another format that matplotlib knows by its ending)."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcParams.update(STYLE)
        report_figure(run, name).savefig(file, dpi=110)


def report_figure(run: Run, name: str) -> Any:
    """The report picture as a matplotlib Figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = _rows(Scene.of(run), run.closed_loop.source.views())
    heights = [row.height for row in rows]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    parts = figure.subfigures(len(rows), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, row in zip(parts, rows, strict=True):
        row.draw(part)
    figure.suptitle(_title(run, name), color=INK, fontsize=12, x=0.01, ha="left")
    _settle(figure)
    return figure


def _settle(figure: Any) -> None:
    """Fit the limits of maps and strips to their places.

    While the places are being found, equal scales widen the limits more and more; so the places are found once, the
    limits fitted to them, and from there on the places follow the limits.
    """
    figure.draw_without_rendering()
    layout = figure.get_layout_engine()
    figure.set_layout_engine("none")
    for axis in figure.axes:
        if axis.get_aspect() != "auto":
            axis.autoscale_view()
            axis.apply_aspect()
            axis.autoscale(enable=False)
            axis.set_adjustable("box")
    figure.set_layout_engine(layout)


def check_view(closed_loop: ClosedLoop) -> None:
    """Try out the machine's views at the start, so that a run is not followed by a picture that cannot be drawn.

    Raises:
        ModelError: a view names what the machine does not have, or one of its functions fails.
    """
    views = closed_loop.source.views()
    for number, view in enumerate(views):
        word = "VIEW" if len(views) == 1 else f"VIEW[{number}]"
        _check_view(closed_loop, view, f"{closed_loop.source.definition.file.name}: {word}")


def _check_view(closed_loop: ClosedLoop, view: View, word: str) -> None:
    machine, run = closed_loop.machine, closed_loop.source.definition.run
    known = [*machine.description.state_names, *(each.name for each in machine.description.outputs)]
    unknown = [name for pair in view.trails.values() for name in pair if name not in known]
    if unknown:
        raise ModelError(f"{word} has a trail of {unknown[0]!r}; choose from {', '.join(known)}")
    u = np.zeros(machine.n_inputs)
    values = dict(zip(machine.description.state_names, map(float, closed_loop.start), strict=False))
    values |= dict.fromkeys(machine.description.input_names, 0.0) | machine.outputs(0.0, closed_loop.start, u)
    shapes: dict[str, list[tuple[int, ...]]] = run(lambda: _shapes_of(view, values, machine.parameters))
    for name in ("outline", "guides"):
        for i, shape in enumerate(shapes.pop(name)):
            if len(shape) != 2 or shape[1] != 2:
                raise ModelError(f"{word}'s {name} gave an array of shape {shape} as line {i}; give points (n, 2)")
    for name, pair in shapes.items():
        if pair != [(2,), (2,)]:
            raise ModelError(f"{word}'s {name} is not a foot and a vector; give two arrays of shape (2,)")
    caption = run(lambda: view.caption(values, machine.parameters) if view.caption else "")
    if not isinstance(caption, str):
        raise ModelError(f"{word}'s caption gave {caption!r}; give a text")
    if view.goal is not None and (isinstance(view.goal, str) or len(view.goal) != 2):
        raise ModelError(f"{word} has the goal {view.goal!r}; name two targets, or leave it out")


def _shapes_of(view: View, values: Values, parameters: Values) -> dict[str, list[tuple[int, ...]]]:
    """The shapes of what a view's functions give: of its lines, and of its arrows by name."""
    given: dict[str, Iterable[Any]] = {"outline": view.outline(values, parameters)}
    given["guides"] = view.guides(values, parameters) if view.guides else ()
    arrows = view.arrows(values, parameters) if view.arrows else {}
    given |= {f"arrow {name!r}": pair for name, pair in arrows.items()}
    return {name: [np.shape(each) for each in arrays] for name, arrays in given.items()}


@dataclass(frozen=True)
class _Row:
    """A part of the picture as wide as it: its height [in], and what draws it into a subfigure."""

    height: float
    draw: Callable[[Any], None]


def _rows(scene: Scene, views: tuple[View, ...]) -> list[_Row]:
    """The picture from top to bottom: views that want the whole width, and the panels beside the other views."""
    wide = [view for view in views if scene.is_wide(view)]
    beside = [view for view in views if not any(view is each for each in wide)]
    strips = [_strip_row(scene, view, wide) for view in wide if view.strip]
    maps = [_map_row(scene, view, bool(strips)) for view in wide if not view.strip]
    panels = panels_of(scene.run, scene.known)
    height = HEIGHT - sum(row.height for row in maps[:1])

    def draw(part: Any) -> None:
        _draw_block(part, scene, beside, panels, height, bool(strips))

    block = [_Row(height, draw)]
    return [*maps, *block, *strips] if beside else [*maps, *strips, *block]


def _map_row(scene: Scene, view: View, numbered: bool) -> _Row:
    size = (WIDTH - AROUND[0], MAP_HEIGHT - AROUND[1])
    return _Row(MAP_HEIGHT, lambda part: draw_map(part.add_subplot(), scene, view, size, numbered))


def _strip_row(scene: Scene, view: View, views: Sequence[View]) -> _Row:
    alike = [each for each in views if each.strip and each.arrow_unit == view.arrow_unit]
    strip, width = Strip.of(scene, view, scene.largest(alike)), WIDTH - AROUND[0]
    height = min(max(strip.height(width), STRIP_HEIGHT[0]), STRIP_HEIGHT[1])
    return _Row(height + AROUND[1], lambda part: draw_strip(part.add_subplot(), scene, view, strip, (width, height)))


def _draw_block(
    part: Any, scene: Scene, views: list[View], panels: list[Panel], height: float, numbered: bool
) -> None:  # fmt: skip
    """The views above each other with the panels to their right; panels in two columns where there is no view."""
    if not views:
        axes = _columns(part, len(panels))
    else:
        left, right = part.subfigures(1, 2, width_ratios=(1.05, 1.0))
        ratios = [1.0] + [BELOW_FIRST] * (len(views) - 1)
        places = left.subplots(len(views), 1, height_ratios=ratios, squeeze=False)[:, 0]
        for place, view, ratio in zip(places, views, ratios, strict=True):
            size = (WIDTH / 2 - AROUND[0], height * ratio / sum(ratios) - AROUND[1])
            draw_map(place, scene, view, size, numbered)
        axes = list(right.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0])
        axes[-1].set_xlabel("t [s]")
    for axis, panel in zip(axes, panels, strict=False):
        draw_panel(axis, scene.run.t, panel)


def _columns(part: Any, n: int) -> list[Any]:
    """The axes of n panels, in two columns where there are several."""
    columns = [n - n // 2, n // 2] if n > 1 else [n]
    axes = []
    for place, size in zip(np.ravel(part.subfigures(1, len(columns))), columns, strict=True):
        axes += list(place.subplots(size, 1, sharex=True, squeeze=False)[:, 0])
        axes[-1].set_xlabel("t [s]")
    return axes


def _title(run: Run, name: str) -> str:
    law = run.closed_loop.control
    program = f", {law.law.description.name}" if law else ""
    text = f"{name}: {run.closed_loop.machine.description.description}{program} ({run.control})"
    return f"{text}\nFAULT at {run.fault['t']:.2f} s: {run.fault['name']}" if run.fault else text
