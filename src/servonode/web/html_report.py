"""The report of a run as one HTML file: curves that can be zoomed, tables, the machine at any time, the launch file."""

from pathlib import Path
from typing import Any

import numpy as np

from servonode.analysis.compared import Compared
from servonode.arrays import Array
from servonode.closed_loop.launch_text import launch_text
from servonode.record.run import Run
from servonode.version import VERSION
from servonode.views.decimation import Decimation
from servonode.views.estimates import estimate_columns
from servonode.views.panels import panels_of, room_note, shown_panels, tracked_columns, zero_note
from servonode.views.scene import Scene
from servonode.views.symbols import titles, unit_text
from servonode.web.embedded import escaped, numbers, page
from servonode.web.panel_layouts import run_panel
from servonode.web.recorded_scene import Motion, paths, recorded_views
from servonode.web.report_tables import tables

HINT = "Drag over a curve to zoom in, double-click to see all of it, click to show that time."
PIECES = 1500  # of the time; of each the lowest and the highest value are drawn


def write_html_report(run: Run, name: str, file: Path) -> None:
    """Write the report of a run into `file`; OSError where that cannot be."""
    file.write_text(html_report(run, name), encoding="utf-8")


def html_report(run: Run, name: str) -> str:
    """The report as a text."""
    columns = columns_of(run)
    kept = kept_points(run.t, columns)
    data = {**_motion(run, columns), **kept, **_panels(run, columns), "marks": _marks(run)}
    return page(f"{name} · servonode", _body(run, name, len(run.t), kept["kept"]), data)


def columns_of(run: Run) -> dict[str, Array]:
    """Everything that a run knows at every row, by name; targets as `target_NAME`, without the time."""
    known = {**run.state, **run.outputs, **run.input} if len(run.t) else {}
    more = {name: values for name, values in run.columns.items() if name != "t" and "[" not in name}
    goals = {f"target_{name}": values for name, values in run.targets.items()} if len(run.t) else {}
    watched = run.watched if len(run.t) else {}
    return {**known, **watched, **more, **estimate_columns(run), **goals, **tracked_columns(run)}


def kept_points(t: Array, columns: dict[str, Array]) -> dict[str, Any]:
    """The columns with one time for all of them: every row, or the lowest and the highest value of each piece."""
    if not len(t):
        return {"t": "", "columns": {}, "kept": 0}
    decimation = Decimation.of(t, float(t[-1] - t[0]), PIECES)
    curves = {name: decimation.curve(values) for name, values in columns.items()}
    times = decimation.times
    return {
        "t": numbers(times, "f8"),
        "columns": {
            name: numbers(values if len(values) == len(times) else np.repeat(values, 2))
            for name, (_, values) in curves.items()
        },
        "kept": len(times),
    }


def _motion(run: Run, columns: dict[str, Array]) -> dict[str, Any]:
    if not len(run.t):
        return {"views": [], "paths": {}, "instants": "", "ends": []}
    scene, motion = Scene.of(run), Motion.of(run.t)
    views = recorded_views(scene, motion, columns)
    return {"views": views, "paths": paths(columns, views, motion), **motion.as_data(run.t)}


def _panels(run: Run, columns: dict[str, Array]) -> dict[str, Any]:
    """The panels of the report picture, what they leave out, and a title for every column, which a reader may add."""
    if not len(run.t):
        return {"panels": [], "titles": {}}
    panels = panels_of(run, {**run.state, **run.outputs, **run.input})
    kept, left = shown_panels(panels, len(Scene.of(run).views()))
    notes = [zero_note(panels, maths=False), room_note(left, maths=False)]
    return {
        "panels": [run_panel(each) for each in kept],
        "zero": " ".join(filter(None, notes)),
        "titles": {name: _title(run, name) for name in columns},
    }


def _title(run: Run, name: str) -> str:
    """A column in words with symbol and unit."""
    description = run.closed_loop.machine.description
    known = (*description.state, *description.outputs, *description.inputs)
    found = [each for each in known if each.name == name]
    return titles(found)[1] if found else name + unit_text(run.units.get(name, ""))


def _marks(run: Run) -> list[dict[str, Any]]:
    return [{"t": float(fault["t"]), "text": f"{fault['name']}: {fault['text']}"} for fault in run.faults]


def _body(run: Run, name: str, rows: int, kept: int) -> str:
    source = Compared.of_run(name, run) if rows else None
    what = " · ".join(filter(None, [run.closed_loop.machine.description.description, _program(run), run.control]))
    points = f"{kept:,} of {rows:,} rows" if kept != rows else f"all {rows:,} rows"
    peaks = ", lowest and highest values kept" if kept < rows else ""
    return "\n".join(
        [
            _header(run, name, what),
            '<main id="report"><div id="run"><div id="views"></div><div id="curves"></div></div><div id="numbers">',
            *(each.html() for each in tables(run, name, source)),
            "</div>",
            '<details class="card" id="launch"><summary>Launch file as resolved</summary>',
            f"<pre>{escaped(launch_text(run.closed_loop.launch))}</pre></details></main>",
            f"<footer><span>servonode {escaped(VERSION)} · curves of {points}{peaks}</span>",
            f"<span>{HINT}</span></footer>",
        ]
    )


def _program(run: Run) -> str:
    return run.closed_loop.control.law.description.name if run.closed_loop.control else ""


def _header(run: Run, name: str, what: str) -> str:
    chips = [("bad", "fault")] if run.faults else []
    warned = len(run.warnings)
    chips += [("warn", f"{warned} warning{'s' if warned > 1 else ''}")] if warned else []
    chips = chips or [("good", "no fault, no warning")]
    end = f"{float(run.t[-1]):g} s" if len(run.t) else "no row"
    notes = [("bad", f"{each['name']} at t = {each['t']:.3f} s: {each['text']}") for each in run.faults]
    notes += [("warn", str(each)) for each in run.warnings]
    shown = "".join(f'<span class="chip {look}">{text}</span>' for look, text in chips)
    return "\n".join(
        [
            f'<header id="bar"><div id="who"><h1>{escaped(name)}</h1><p id="what">{escaped(what)}</p></div>',
            f'<div id="chips">{shown}<span class="chip">{end}</span></div></header>',
            *(f'<p class="note {look}">{escaped(each)}</p>' for look, each in notes),
        ]
    )
