"""The report picture: the machine's views, and what it did over time."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from servonode.closed_loop.run import Run
from servonode.plants.view import View
from servonode.views.columns import Placed
from servonode.views.heads import LINE, Head
from servonode.views.layout import FULL, placed_rows
from servonode.views.palette import INK
from servonode.views.panels import Panel, draw_curves, panels_of, zero_note
from servonode.views.planes import Map
from servonode.views.scene import Scene
from servonode.views.sheet import LEFT, PIXELS, PRINT, TICKS, WIDTH, Cell, Row, figure_of
from servonode.views.sheet import STYLE as STYLE
from servonode.views.snapshots import side_by_side
from servonode.views.static_views import Strip

STRIP_HEIGHT = (0.6, 1.5)  # in; of a strip at least and at most


def write_report(run: Run, name: str, file: Path) -> None:
    """Draw the report picture of a run into `file` (PNG or another format that matplotlib knows by its ending)."""
    import matplotlib as mpl

    with mpl.rc_context(PRINT):
        report_figure(run, name).savefig(file, dpi=2 * PIXELS / WIDTH)


def report_figure(run: Run, name: str) -> Any:
    """The report picture as a matplotlib Figure, 17 cm wide; all its text has 8 pt at least."""
    import matplotlib as mpl

    with mpl.rc_context(PRINT):
        scene = Scene.of(run)
        panels = panels_of(run, scene.known)
        shown = [_placed(run, each) for each in panels if each.seen]
        rows = _rows(scene, scene.views(), shown)
        return figure_of(rows, _title(run, name), zero_note(panels), _fault(run))


def _rows(scene: Scene, views: Sequence[View], panels: Sequence[Placed]) -> list[Row]:
    """From top to bottom: planes by their shape, snapshots, panels; a single plane has panels beside it."""
    strips, planes = ([view for view in views if view.strip is wanted] for wanted in (True, False))
    scene = side_by_side(scene, planes) if strips else scene
    return placed_rows([Map.of(scene, view, bool(strips)) for view in planes], panels, _strip_rows(scene, strips))


def _strip_rows(scene: Scene, views: Sequence[View]) -> list[Row]:
    """The strips; arrows of one unit have one size for what is longest."""
    views = [_with_clear_arrows(scene, view) for view in views]
    rows = []
    for view in views:
        alike = [each for each in views if each.arrow_unit == view.arrow_unit]
        strip = Strip.of(scene, view, scene.largest(alike))
        height = min(max(strip.height(FULL), STRIP_HEIGHT[0]), STRIP_HEIGHT[1])
        head = strip.head(FULL, height).height
        below = TICKS + LINE * strip.below
        cell = Cell(LEFT, head, FULL, height, partial(strip.draw, width=FULL, height=height))
        rows.append(Row(head + height + below, [cell]))
    return rows


def _with_clear_arrows(scene: Scene, view: View) -> View:
    """The view, without its arrows where the machine could not be seen beside them; its title says so."""
    if Strip.of(scene, view, scene.largest([view])).clear:
        return view
    return replace(view, arrows=None, title=f"{view.title}, forces not drawn")


def _placed(run: Run, panel: Panel) -> Placed:
    """A panel of the run, with a line where a fault was met."""
    curves = panel.curves()
    names = [each.name for each in curves] if len(panel.columns) > 1 else []
    title = panel.title

    def draw(axis: Any, head: Head, _lowest: bool) -> None:
        power = draw_curves(axis, run.t, curves, panel.spec.logarithmic, min(panel.floors.values()))
        if power:
            axis.annotate(
                f"$10^{{{power}}}$", (0.0, 1.0), (-4, 3), "axes fraction", textcoords="offset points", ha="right"
            )
        if run.fault:
            axis.axvline(run.fault["t"], color=INK, linewidth=0.8, linestyle=":", zorder=1)
        head.draw(axis, axis.lines[: len(curves)])

    return Placed(lambda width: Head.of(title, names, width), draw)


def _title(run: Run, name: str) -> str:
    law = run.closed_loop.control
    program = f", program {law.law.description.name}" if law else ""
    return f"{name}: {run.closed_loop.machine.description.description}{program} ({run.control})"


def _fault(run: Run) -> str:
    return f"Fault at {run.fault['t']:.2f} s: {run.fault['name']} (dotted line)" if run.fault else ""
