"""The report of a run as one HTML file: curves that can be zoomed, tables, the machine at any time, the launch file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from servonode.analysis.comparison import Compared, measures
from servonode.arrays import Array
from servonode.bus.durations import QUANTILES
from servonode.closed_loop.launch_file import read_launch, table_of
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.closed_loop.launch_text import launch_text, toml_value
from servonode.closed_loop.variation import check_number, unit_of
from servonode.errors import ServonodeError
from servonode.plants.view import View
from servonode.record.run import Run
from servonode.version import VERSION
from servonode.views.curves import Decimation
from servonode.views.forbidden import Forbidden
from servonode.views.panels import columns_of, panels_of, room_note, shown_panels, zero_note
from servonode.views.scene import Scene
from servonode.views.shapes import Shapes, corners, is_seen, longest_arrow
from servonode.views.summary import summary_rows
from servonode.views.symbols import titles, unit_text
from servonode.wings.web.computing import INSTANTS, live_of
from servonode.wings.web.embedded import escaped, numbers, page
from servonode.wings.web.sections import Reported
from servonode.wings.web.view_data import (
    areas_around,
    decimals,
    forbidden_line,
    lines_around,
    path_columns,
    run_panel,
    shapes_data,
    view_layout,
)

HINT = "Drag over a curve to zoom in, double-click to see all of it, click to show that time."
PIECES = 1500  # of the time; of each the lowest and the highest value are drawn
BETWEEN = 4  # points of a path from one to the next
SECONDS = (*QUANTILES, "max")


def write_html_report(run: Run, name: str, file: Path) -> None:
    """Write the report of a run into `file`; OSError where that cannot be."""
    file.write_text(html_report(run, name), encoding="utf-8")


def html_report(run: Run, name: str) -> str:
    """The report as a text."""
    columns = columns_of(run)
    kept = kept_points(run.t, columns)
    marks = [{"t": float(each["t"]), "text": f"{each['name']}: {each['text']}"} for each in run.faults]
    motion = _motion(run, columns)
    data = {**motion, **kept, **_panels(run, columns), "marks": marks, **_varying(run, motion["paths"])}
    return page(f"{name} · servonode", _body(run, name, len(run.t), kept["kept"]), data)


def _varying(run: Run, paths: Iterable[str]) -> dict[str, Any]:
    """What computes the run with other numbers, the numbers that are offered first, and the command of the run.

    Raises:
        LaunchError: [report] offers a key that is unknown or no number.
    """
    stated = run.closed_loop.stated.section("report", Reported)
    for key in stated.vary if stated else []:
        check_number(run.closed_loop, key)
        unit_of(run.closed_loop, key)  # both refuse a key that is unknown
    command = run_command(run.closed_loop.stated)
    return {"offered": stated.vary if stated else [], "command": command, "live": live_of(run, paths)}


def run_command(launch: LaunchFile) -> dict[str, Any]:
    """The launch file as a command names it, and what was set beside it."""
    try:
        before = dict(_leaves(table_of(read_launch(launch.file))))
    except ServonodeError:  # made by Python, or gone
        note = "save the launch file as resolved, at the end of this report, under this name"
        if launch.plant.machine is not None and str(launch.plant.machine).startswith("<"):
            note = "its machine is made in Python: there these are values={'KEY': NUMBER} of servonode.simulate"
        return {"name": f"{launch.name}.toml", "set": {}, "note": note}
    own = {key: value for key, value in _leaves(table_of(launch)) if not key.startswith("report.")}
    changed = {key: value for key, value in own.items() if before.get(key) != value}
    name = Path(launch.file).name
    return {
        "name": f"./{name}" if name.startswith("-") else name,
        "set": {key: toml_value(each) for key, each in changed.items()},
    }


def _leaves(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested tables by dotted keys."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


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


def _body(run: Run, name: str, rows: int, kept: int) -> str:
    source = Compared.of_run(name, run) if rows else None
    law = run.closed_loop.control
    program = law.law.description.name if law else ""
    what = " · ".join(filter(None, [run.closed_loop.machine.description.description, program, run.control]))
    points = f"{kept:,} of {rows:,} rows" if kept != rows else f"all {rows:,} rows"
    peaks = ", lowest and highest values kept" if kept < rows else ""
    return "\n".join(
        [
            _header(run, name, what),
            '<main id="report">',
            exercise_html(run.closed_loop.stated.section("report", Reported)),
            '<div id="run"><div id="side"><div id="views"></div><div id="vary" hidden></div></div>',
            '<div id="curves"></div></div><div id="numbers">',
            *tables(run, name, source),
            "</div>",
            '<details class="card" id="launch"><summary>Launch file as resolved</summary>',
            f"<pre>{escaped(launch_text(run.closed_loop.launch))}</pre></details></main>",
            f"<footer><span>servonode {escaped(VERSION)} · curves of {points}{peaks}</span>",
            f"<span>{HINT}</span></footer>",
        ]
    )


def exercise_html(stated: Reported | None) -> str:
    """The words that a launch file has for the readers of its report."""
    if stated is None or not (stated.title or stated.text):
        return ""
    title = f"<h2>{escaped(stated.title)}</h2>" if stated.title else ""
    paragraphs = [f"<p>{escaped(each.strip())}</p>" for each in (stated.text or "").split("\n\n") if each.strip()]
    return f'<section class="card" id="exercise">{title}{"".join(paragraphs)}</section>'


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


@dataclass(frozen=True)
class Motion:
    """The rows of a run at which its machine is drawn, and those of its paths, which hold them."""

    instants: list[int]
    rows: list[int]

    @classmethod
    def of(cls, t: Array) -> "Motion":
        """Spread evenly over time, both ends included."""
        if not len(t):
            return cls([], [])
        instants = _evenly(t, INSTANTS)
        return cls(instants, sorted({*instants, *_evenly(t, INSTANTS * BETWEEN)}))

    def as_data(self, t: Array) -> dict[str, Any]:
        """Their times, and how many points each path has at each instant."""
        ends = np.searchsorted(self.rows, self.instants, side="right")
        return {"instants": numbers(t[self.instants], "f8"), "ends": ends.tolist()}


def _evenly(t: Array, n: int) -> list[int]:
    found = np.searchsorted(t, np.linspace(t[0], t[-1], min(n, len(t))))
    return sorted({int(i) for i in np.minimum(found, len(t) - 1)} | {0, len(t) - 1})


def recorded_views(scene: Scene, motion: Motion, columns: Mapping[str, Array]) -> list[dict[str, Any]]:
    """Of each view what stays, the limits that hold for the whole run, and what is drawn at each instant.

    columns: states, inputs and outputs, and targets as `target_NAME`, of every row.
    """
    return [_recorded(view, scene, motion.instants, columns) for view in scene.views() if motion.instants]


def _recorded(view: View, scene: Scene, instants: Sequence[int], columns: Mapping[str, Array]) -> dict[str, Any]:
    shapes = [scene.shapes(i, view) for i in instants]
    layout = view_layout(view, list(scene.goals))
    drawn = [view.path(columns, tuple(names)) for names in path_columns(layout)]
    bounding = [line for each in shapes for line in each.bounding(view)]
    low, high = corners([*drawn, *bounding]) or (np.full(2, -1.0), np.full(2, 1.0))
    longest = longest_arrow(shapes)
    digits, loop = decimals(float(max(high - low))), scene.run.closed_loop
    forbidden, goal_t = Forbidden(loop, view), scene.run.goal_t.tolist()
    moving = [{"areas": areas_around(forbidden, goal_t[i], low, high)} if forbidden.moves else {} for i in instants]
    areas = areas_around(forbidden, 0.0, low, high) if forbidden and not forbidden.moves else []
    return {
        "layout": layout,
        "wanted": [*lines_around(loop, view, low, high), *forbidden_line(forbidden, areas)],
        "limits": {"x": [float(low[0]), float(high[0])], "y": [float(low[1]), float(high[1])]},
        "largest": longest if is_seen(longest, loop.machine, columns, view.arrow_unit) else 0.0,
        "shapes": [
            shapes_data(Shapes.in_space(view, scene.instant(i)), digits) | areas
            for i, areas in zip(instants, moving, strict=True)
        ],
    }


def paths(columns: Mapping[str, Array], views: Sequence[Mapping[str, Any]], motion: Motion) -> dict[str, str]:
    """The columns that the views' paths are drawn from, at the rows of the paths."""
    names = [name for view in views for pair in path_columns(view["layout"]) for name in pair]
    return {name: numbers(columns[name][motion.rows]) for name in dict.fromkeys(names)}


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]], words: int = 2) -> str:
    """A table as an HTML section, the first columns of which hold words; nothing without a row."""
    if not rows:
        return ""

    def row(tag: str, values: Sequence[object]) -> str:
        looks = [' class="word"' if i < words else "" for i in range(len(values))]
        cells = (f"<{tag}{look}>{escaped(shown(each))}</{tag}>" for look, each in zip(looks, values, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    head = f"<thead>{row('th', heads)}</thead>" if any(heads) else ""
    body = f"<table>{head}<tbody>{''.join(row('td', each) for each in rows)}</tbody></table>"
    return f'<section class="card"><h2>{escaped(title)}</h2><div class="scroll">{body}</div></section>'


def shown(value: object) -> str:
    """A number with four digits; a dash for what is not known."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def tables(run: Run, name: str, source: Compared | None) -> list[str]:
    """All tables of a run; `source`: the run as it is compared, None without a row."""
    summary = [(key, text) for key, text in summary_rows(run, name, times=False)[1:] if key not in ("fault", "warning")]
    faults = [(f"{each['t']:.3f}", each.get("node", ""), each["name"], each["text"]) for each in run.faults]
    limits = [(name, each["instants"], each["first"]) for name, each in run.limits.items()]
    return [
        table("Summary", ("", ""), summary),
        table("Faults", ("t [s]", "node", "fault", ""), faults, words=4),
        *(_measured(source) if source else ()),
        table("Limits", ("", "control instants", "first at [s]"), limits, words=1),
        table("Times [ms]", ("", "", "p50", "p99", "p99.9", "max"), _times(run.stats.get("nodes", {}))),
        table("Counts", ("", "", ""), _counts(run.stats.get("node_counts", {}))),
    ]


def _measured(source: Compared) -> list[str]:
    """Residuals, inputs and effort."""
    found = measures(source, [source])
    sizes = ("largest", "rms", "largest_late", "rms_late")
    residuals = [(name, each["unit"], *(each[key] for key in sizes)) for name, each in found.residuals.items()]
    inputs = [(name, source.units.get(name, ""), value) for name, value in found.largest_input.items()]
    effort: list[Sequence[object]] = [
        ("inputs squared, integral", f"({unit})² s", value) for unit, value in found.effort.items()
    ]
    effort += [("work, of magnitudes", "J", found.work)] if found.work is not None else []
    path = found.path or {}
    effort += [
        (f"path error, {word}", "m", path[key]) for word, key in (("RMS", "rms"), ("largest", "largest")) if path
    ]
    heads = ("", "", "largest", "RMS", "largest, 2nd half", "RMS, 2nd half")
    return [
        table("Residuals", heads, residuals),
        table("Inputs", ("", "", "largest"), inputs),
        table("Effort and path", ("", "", ""), effort),
    ]


def _times(nodes: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[Sequence[object]]:
    return _once(
        (node, name.removesuffix("_s").replace("_", " "), *(f"{each[key] * 1e3:.3f}" for key in SECONDS))
        for node, named in nodes.items()
        for name, each in named.items()
        if each.keys() >= set(SECONDS)
    )


def _counts(nodes: Mapping[str, Mapping[str, int]]) -> list[Sequence[object]]:
    return _once(
        (node, name.replace("_", " "), f"{count:,}") for node, named in nodes.items() for name, count in named.items()
    )


def _once(rows: Any) -> list[Sequence[object]]:
    """The rows, what stands first in them only where it changes."""
    found = list(rows)
    return [("" if i and found[i - 1][0] == row[0] else row[0], *row[1:]) for i, row in enumerate(found)]
