"""The report picture: the machine's views, and what it did over time."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from servonode.controllers import InlineProgram
from servonode.plants.view import View
from servonode.record.run import Run
from servonode.views.curves import Curves
from servonode.views.layout import FULL, Placed, placed_rows
from servonode.views.palette import FAULT, INK, SHADE, WARNING
from servonode.views.panels import Panel, panels_of, room_note, shown_panels, zero_note
from servonode.views.planes import Map
from servonode.views.scene import Scene
from servonode.views.sheet import LEFT, PIXELS, PRINT, TICKS, WIDTH, Cell, Row, figure_of
from servonode.views.sheet import STYLE as STYLE
from servonode.views.snapshots import side_by_side
from servonode.views.static_views import Strip
from servonode.views.titles import LINE, Head

BANDS = "Pale areas reach from the lowest to the highest value, their lines are means."
PEAKS = "Peak magnitudes: the largest values between the zero crossings, joined."
CONTROLS = {"sampled": "simulated", "continuous": "simulated, control without a period", "recorded": "recorded"}
WARNINGS = 4  # in the head of a picture
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
        kept, left = shown_panels(panels, len(scene.views()))
        shown = [(each, _curves(run, each)) for each in kept]
        rows = _rows(scene, [_placed(scene, panel, drawn) for panel, drawn in shown])
        notes = [_source(run, name), zero_note(panels), room_note(left)]
        notes += [BANDS] if any(any(drawn.bands) for _, drawn in shown) else []
        notes += [PEAKS] if any(drawn.peaks for _, drawn in shown) else []
        remarks = [(text, FAULT) for text in _fault(scene)] + [(text, WARNING) for text in warnings_shown(run)]
        return figure_of(rows, _title(run), " ".join(filter(None, notes)), remarks)


def _rows(scene: Scene, panels: Sequence[Placed]) -> list[Row]:
    """From top to bottom: planes by their shape, snapshots, panels; a single plane has panels beside it."""
    views = scene.run.closed_loop.views
    numbered = any(view.strip for view in views)
    scene = side_by_side(scene, views) if numbered else scene
    strips, planes = ([view for view in scene.views() if view.strip is wanted] for wanted in (True, False))
    return placed_rows([Map.of(scene, view, numbered) for view in planes], panels, _strip_rows(scene, strips))


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


def _curves(run: Run, panel: Panel) -> Curves:
    floor, fault = min(panel.floors.values()), run.fault["t"] if run.fault else None
    return Curves.of(run.t, panel.curves(), panel.spec.logarithmic, floor, bool(run.fault), fault)


def _placed(scene: Scene, panel: Panel, drawn: Curves) -> Placed:
    """A panel of the run, with a line where a fault was met, and a shade from where the machine is beyond its model."""
    run = scene.run
    names = [each.name for each in drawn.curves if not each.name.startswith("_")]
    names = names if len(panel.columns) > 1 or panel.goals else []
    title = drawn.entitled(panel.title)

    def draw(axis: Any, head: Head) -> None:
        power = drawn.draw(axis)
        if power:
            axis.annotate(
                f"$10^{{{power}}}$", (0.0, 1.0), (-4, 3), "axes fraction", textcoords="offset points", ha="right"
            )
        if scene.beyond is not None:
            axis.axvspan(run.t[scene.beyond], run.t[-1], color=SHADE, linewidth=0, zorder=0)
        if run.fault:
            axis.axvline(run.fault["t"], color=INK, linewidth=0.8, linestyle=":", zorder=1)
        head.draw(axis, [line for line in axis.lines if not line.get_label().startswith("_")])

    return Placed(lambda width: Head.of(title, names, width), draw, drawn.brief)


def _title(run: Run) -> str:
    law = run.closed_loop.control
    program = law.law.description.name.replace("_", " ") if law and not isinstance(law.source, InlineProgram) else ""
    words = run.closed_loop.machine.description.description or run.closed_loop.machine.description.name
    return f"{words[:1].upper()}{words[1:]}{f', program {program}' if program else ''}"


def _source(run: Run, name: str) -> str:
    """The name of the run, and how it was controlled, for the foot of a picture."""
    period = run.closed_loop.launch.controller.period if run.closed_loop.launch.controller else None
    sampled = f", a command every {period * 1e3:g} ms" if period and run.control != "continuous" else ""
    return f"{name}: {CONTROLS.get(run.control, run.control)}{sampled}."


def warnings_shown(run: Run) -> list[str]:
    """The run's warnings for the head of a picture, which has room for a few."""
    more = len(run.warnings) - WARNINGS
    texts = [f"Warning: {each}" for each in run.warnings[:WARNINGS]]
    return texts + ([f"{more} more warnings in the run's summary"] if more > 0 else [])


def _fault(scene: Scene) -> list[str]:
    """The fault that ended the run, and from when on a fault condition was met to the end; empty without both."""
    run = scene.run
    texts = [f"fault at {run.fault['t']:.2f} s: {run.fault['name']} (dotted line)"] if run.fault else []
    if scene.beyond is not None and scene.beyond < len(run.t) - 1:
        texts.append(f"{scene.beyond_name} from {run.t[scene.beyond]:.2f} s on (shaded)")
    text = ", ".join(texts)
    return [text[:1].upper() + text[1:]] if text else []
