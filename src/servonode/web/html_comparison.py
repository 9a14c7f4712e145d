"""A comparison as one HTML file: the curves of all sources, their machines at any time, the table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.analysis.compared import RESIDUAL, Compared
from servonode.analysis.comparison import Measures
from servonode.plants.view import View
from servonode.version import VERSION
from servonode.views.comparison import ComparedPanel, goal_paths, has_path, own_view, shared_view, width_of
from servonode.views.comparison_table import comparison_rows
from servonode.views.decimation import Decimation
from servonode.views.scene import Scene
from servonode.views.symbols import plain
from servonode.web.embedded import escaped, numbers, page
from servonode.web.html_report import HINT, PIECES
from servonode.web.panel_layouts import limits_of
from servonode.web.recorded_scene import BETWEEN, INSTANTS, rounded
from servonode.web.report_tables import Table
from servonode.web.shapes import corners, decimals, view_layout, view_shapes, whole_run
from servonode.web.wanted_lines import Line, lines_around

Array = npt.NDArray[np.float64]
DASHES = ((), (7, 4), (2, 3), (8, 3, 2, 3))  # pixels on and off, of the names in one panel


def write_html_comparison(
    sources: Sequence[Compared], panels: Sequence[ComparedPanel], found: Sequence[Measures], file: Path
) -> None:
    """Write a comparison into `file`; OSError where that cannot be."""
    file.write_text(html_comparison(sources, panels, found), encoding="utf-8")


def html_comparison(sources: Sequence[Compared], panels: Sequence[ComparedPanel], found: Sequence[Measures]) -> str:
    """The comparison as a text."""
    view = shared_view(sources)
    motion = _motion(sources, view) if view else {"views": [], "paths": {}, "instants": "", "ends": []}
    data = {**motion, **_curves(sources, panels), "marks": []}
    table = Table(
        "Numbers", ("", *(each.name for each in sources)), [(t, *v) for t, v in comparison_rows(sources, found)]
    )
    keys = "".join(
        f'<span class="key" style="--key: var(--curve-{i})">{escaped(each.name)}</span>'
        for i, each in enumerate(sources)
    )
    body = [
        f'<header id="bar"><div id="who"><h1>Comparison</h1></div><div id="names">{keys}</div></header>',
        *(f'<p class="note bad">{escaped(text)}</p>' for text in _faults(sources)),
        '<main id="report"><div id="run"><div id="views"></div><div id="curves"></div></div>',
        f'<div id="numbers" class="one">{table.html()}</div></main>',
        f"<footer><span>servonode {escaped(VERSION)}</span>",
        f"<span>{HINT}</span></footer>",
    ]
    title = " · ".join(each.name for each in sources)
    return page(f"{title} · servonode", "\n".join(body), data)


def _faults(sources: Sequence[Compared]) -> list[str]:
    faults = [(each.name, each.run.fault) for each in sources if each.run]
    return [f"{name}: {fault['name']} at t = {fault['t']:.3f} s: {fault['text']}" for name, fault in faults if fault]


def _curves(sources: Sequence[Compared], panels: Sequence[ComparedPanel]) -> dict[str, Any]:
    """The times of each source, and the columns that the panels show."""
    pieces = [Decimation.of(each.t, float(each.t[-1] - each.t[0]), PIECES) for each in sources]
    columns, shown = {}, []
    for panel in (each for each in panels if each.seen):
        curves = []
        for name, dash in zip(panel.names, DASHES, strict=False):
            for i, source in enumerate(sources):
                if name not in source.columns:
                    continue
                _, values = pieces[i].curve(source.columns[name])
                columns[f"{i}/{name}"] = numbers(
                    values if len(values) == len(pieces[i].times) else np.repeat(values, 2)
                )
                title = source.name if len(panel.names) == 1 else f"{name}, {source.name}"
                width = width_of(i, len(sources))
                look = {
                    "key": "" if len(panel.names) == 1 else plain(name.removeprefix(RESIDUAL)),
                    "color": i,
                    "dash": list(dash) or None,
                    "width": width,
                }
                curves.append({"name": title, "column": f"{i}/{name}", "time": i, **look})
        limits = limits_of([each.values for each in panel.curves], panel.logarithmic, panel.floor)
        axis = {"limits": limits, "floor": panel.floor, "logarithmic": panel.logarithmic}
        shown.append({"title": panel.words, "curves": curves, **axis})
    zero = ", ".join(each.words for each in panels if not each.seen)
    note = f"Zero to rounding: {zero}." if zero else ""
    return {"times": [numbers(each.times, "f8") for each in pieces], "columns": columns, "panels": shown, "zero": note}


def _motion(sources: Sequence[Compared], view: View) -> dict[str, Any]:
    """The machines of all sources in one plane, at instants that they share."""
    end = max(float(each.t[-1]) for each in sources)
    start = min(float(each.t[0]) for each in sources)
    instants = np.linspace(start, end, INSTANTS)
    times = np.linspace(start, end, (INSTANTS - 1) * BETWEEN + 1)  # holds the instants
    columns = _paths(sources, view, times)
    goals = [(f"target_{i}x", f"target_{i}y") for i in range(len(goal_paths(sources, view)))]
    trails = {sources[i].name: (f"{i}/x", f"{i}/y") for i in range(len(sources)) if f"{i}/x" in columns}
    both = replace(view, trails=trails, goal=("0x", "0y") if goals else None, arrows=None, caption=None)
    shapes = _shapes(sources, view, instants)
    machine = next(each.run.closed_loop.machine for each in sources if each.run)
    whole = whole_run(both, machine, columns, shapes)
    low, high = corners(whole)
    digits = decimals(float(max(high - low)))
    layout = {**view_layout(both, ["0x", "0y"]), "goals": goals, "title": view.title or "paths"}
    layout["trails"] = [{**each, "color": int(each["columns"][0].split("/")[0])} for each in layout["trails"]]
    recorded = [rounded(each, digits) for each in shapes]
    limits = {"x": whole["x"], "y": whole["y"]}
    wanted = _wanted(sources, view, low, high)
    return {
        "views": [{"layout": layout, "wanted": wanted, "limits": limits, "largest": 0.0, "shapes": recorded}],
        "paths": {name: numbers(values) for name, values in columns.items()},
        "instants": numbers(instants, "f8"),
        "ends": [i * BETWEEN + 1 for i in range(INSTANTS)],
    }


def _wanted(sources: Sequence[Compared], view: View, low: Array, high: Array) -> list[Line]:
    """The fixed paths that are wanted, each once."""
    owned = [(each.run, own) for each in sources if each.run and (own := own_view(each, view))]
    lines = [line for run, own in owned for line in lines_around(run.closed_loop, own, low, high)]
    return [line for i, line in enumerate(lines) if line not in lines[:i]]


def _paths(sources: Sequence[Compared], view: View, times: Array) -> dict[str, Array]:
    """The paths at times that all share; not a number before the beginning and behind the end of a source."""
    pair = next(iter(view.trails.values()))
    columns: dict[str, Array] = {}
    for i, source in enumerate(sources):
        if has_path(source, view):
            for axis, name in zip("xy", pair, strict=True):
                columns[f"{i}/{axis}"] = _at(times, source.t, source.columns[name])
    for i, (t, path) in enumerate(goal_paths(sources, view)):
        for axis, values in zip("xy", path, strict=True):
            columns[f"target_{i}{axis}"] = _at(times, t, values)
    return columns


def _at(times: Array, t: Array, values: Array) -> Array:
    found: Array = np.interp(times, t, values, left=np.nan, right=np.nan)
    return found


def _shapes(sources: Sequence[Compared], view: View, instants: Array) -> list[dict[str, Any]]:
    """What is drawn at each instant; behind its end a machine stays."""
    drawn = [(i, each, own) for i, each in enumerate(sources) if (own := own_view(each, view))]
    scenes = {i: Scene.of(each.run) for i, each, _ in drawn if each.run}
    shapes = []
    for t in instants:
        lines: list[Any] = []
        whose: list[int] = []
        for i, source, own in drawn:
            row = int(np.clip(np.searchsorted(source.t, t, side="right") - 1, 0, len(source.t) - 1))
            found = view_shapes(replace(own, arrows=None, caption=None), scenes[i].instant(row))["lines"]
            lines += found
            whose += [i] * len(found)
        shapes.append({"lines": lines, "guides": [], "arrows": [], "caption": "", "sources": whose})
    return shapes
