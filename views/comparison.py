"""The picture of several runs: their paths in one plane, and each quantity in an axis with a curve for every run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from servonode.analysis.compared import RESIDUAL, Compared, CompareError, by_index
from servonode.analysis.comparison import common, differing, inputs_of, unit_of
from servonode.errors import did_you_mean
from servonode.plants.view import View
from servonode.views.panels import Curve, draw_curves
from servonode.views.report import STYLE
from servonode.views.scene import Scene
from servonode.views.static_views import INK, draw_line

COLORS = ("#00798c", "#d1495b", "#edae49", "#5c4d7d", "#66a182", "#1b2733", "#a0522d", "#7fb4d8")  # of the sources
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.")  # of the names in one panel
TARGET = "#7b8894"
WIDEST, THINNEST = 2.4, 1.1
SAME = 1e-3  # of two targets' distance to the size of their path, below which they are one
MOST = 4  # quantities shown of those that differ
WIDTH, PANEL_HEIGHT, HEAD = 14.0, 1.75, 0.55  # in
MAP = 3  # panels that are as high as a map


@dataclass(frozen=True)
class ComparedPanel:
    """One axis: its label and curves, the names that it shows; in logarithmic ones only sizes."""

    label: str
    names: tuple[str, ...]
    curves: tuple[Curve, ...]
    logarithmic: bool = False


def check_sources(sources: Sequence[object]) -> None:
    """Refuse more sources than there are colours.

    Raises:
        CompareError: there are.
    """
    if not 2 <= len(sources) <= len(COLORS):
        raise CompareError(f"{len(sources)} sources are given; compare 2 to {len(COLORS)} of them")


def compared_panels(sources: Sequence[Compared], wanted: Sequence[str] = ()) -> list[ComparedPanel]:
    """The panels asked for as "NAME,NAME", else what differs most, residuals and inputs.

    Raises:
        CompareError: nothing is common, or there is no such name.
    """
    names = common(sources)
    if wanted:
        return [_panel(sources, _named(text, names)) for text in wanted]
    inputs = [name for name in inputs_of(sources) if name in names]
    residuals = [name for name in names if name.startswith(RESIDUAL)]
    others = [name for name in names if name not in (*inputs, *residuals, "energy")]
    return [_panel(sources, [name]) for name in (*differing(sources, others)[:MOST], *residuals, *inputs)]


def _named(text: str, names: Sequence[str]) -> list[str]:
    chosen = [by_index(name.strip()) for name in text.split(",")]
    for name in chosen:
        if name not in names:
            near = did_you_mean(name, names)
            raise CompareError(
                f"panel {text!r}: no two sources have {name!r}; {near}{'C' if near else 'c'}hoose {', '.join(names)}"
            )
    if len(chosen) > len(DASHES):
        raise CompareError(f"panel {text!r} has {len(chosen)} names; give at most {len(DASHES)} to one panel")
    return chosen


def _panel(sources: Sequence[Compared], names: Sequence[str]) -> ComparedPanel:
    sized = all(name.startswith(RESIDUAL) for name in names)
    units = ", ".join(dict.fromkeys(unit for name in names if (unit := unit_of(sources, name))))
    word = names[0].removeprefix(RESIDUAL) if len(names) == 1 else ", ".join(names)
    label = f"|{word}|" if sized else word
    curves = [
        Curve(
            _title(source, name, names),
            source.t,
            _shown(source, name, sized),
            COLORS[i],
            dashes,
            width_of(i, len(sources)),
        )
        for name, dashes in zip(names, DASHES, strict=False)
        for i, source in enumerate(sources)
        if name in source.columns
    ]
    return ComparedPanel(f"{label} [{units}]" if units else label, tuple(names), tuple(curves), sized)


def _title(source: Compared, name: str, names: Sequence[str]) -> str:
    return source.name if len(names) == 1 else f"{name}, {source.name}"


def _shown(source: Compared, name: str, sized: bool) -> Any:
    return np.abs(source.columns[name]) if sized else source.columns[name]


# the picture


def write_comparison(sources: Sequence[Compared], panels: Sequence[ComparedPanel], file: Path) -> None:
    """Draw the comparison into `file` (PNG or another format that matplotlib knows by its ending)."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcParams.update(STYLE)
        comparison_figure(sources, panels).savefig(file, dpi=110)


def comparison_figure(sources: Sequence[Compared], panels: Sequence[ComparedPanel]) -> Any:
    """The comparison as a matplotlib Figure: the map, and the panels below and beside it in two columns."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    view = shared_view(sources)
    above = MAP if view else 0
    high = max(-(-(len(panels) + above) // 2), above, 1)
    left = panels[len(panels) - (high - above) :] if high > above else []
    right = panels[: len(panels) - len(left)]
    figure = Figure(figsize=(WIDTH, HEAD + PANEL_HEIGHT * max(high, len(right))), layout="constrained")
    FigureCanvasAgg(figure)
    parts: Any = figure.subfigures(1, 2, width_ratios=(1.05, 1.0))
    axes = _column(parts[0], [*([above] if view else []), *([1] * len(left))])
    if view:
        draw_paths(axes.pop(0), sources, view)
    for axis, panel in zip([*axes, *_column(parts[1], [1] * len(right))], [*left, *right], strict=True):
        _draw_panel(axis, panel)
    _entitle(figure, sources)
    return figure


def _column(part: Any, heights: list[int]) -> list[Any]:
    """The axes of a column by their heights, with one axis of time; a map stands above it."""
    if not heights:
        return []
    axes = list(part.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
    timed = [axis for axis, height in zip(axes, heights, strict=True) if height == 1]
    for axis in timed[:-1]:
        axis.sharex(timed[-1])
        axis.tick_params(labelbottom=False)
    if timed:
        timed[-1].set_xlabel("t [s]")
    return axes


def _draw_panel(axis: Any, panel: ComparedPanel) -> None:
    draw_curves(axis, panel.label, panel.curves, panel.logarithmic)
    if len(panel.names) > 1:
        from matplotlib.lines import Line2D

        marks: list[Any] = [
            Line2D([], [], color=INK, ls=dashes) for _, dashes in zip(panel.names, DASHES, strict=False)
        ]
        axis.legend(marks, panel.names, loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=len(marks), fontsize=8)


def _entitle(figure: Any, sources: Sequence[Compared]) -> None:
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], color=color, linewidth=2.4) for _, color in zip(sources, COLORS, strict=False)]
    names = [f"{each.name} (fault)" if each.run and each.run.fault else each.name for each in sources]
    figure.legend(marks, names, loc="outside upper left", ncols=min(len(names), 3), fontsize=11)


# the map


def shared_view(sources: Sequence[Compared]) -> View | None:
    """The first view with a path that at least two sources have; strips stand beside each other, not in one plane."""
    views = [view for source in sources if source.run for view in source.run.closed_loop.source.views()]
    return next((view for view in views if not view.strip and sum(has_path(each, view) for each in sources) > 1), None)


def has_path(source: Compared, view: View) -> bool:
    """Whether a source has the first path of a view."""
    return bool(view.trails) and set(next(iter(view.trails.values()))) <= source.columns.keys()


def draw_paths(axis: Any, sources: Sequence[Compared], view: View) -> None:
    """The first path of each source, its machine at the start and at the end, and the path of the target."""
    pair = next(iter(view.trails.values()))
    for number, (_, path) in enumerate(goal_paths(sources, view)):
        label = "" if number else "target"
        axis.plot(*path, color=TARGET, linewidth=1.0, linestyle="--", label=label, zorder=1)
    for i, (source, color) in enumerate(zip(sources, COLORS, strict=False)):
        if not has_path(source, view):
            continue
        axis.plot(*(source.columns[name] for name in pair), color=color, linewidth=width_of(i, len(sources)), zorder=2)
        for line in _outline(source, view):
            draw_line(axis, line, color=color, linewidth=1.0, zorder=3)
    axis.set_aspect("equal", adjustable="datalim")
    axis.set_xlabel(view.axes[0])
    axis.set_ylabel(view.axes[1])
    axis.set_title(view.title or "paths", loc="left", fontsize=9, color=INK)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), fontsize=8, borderpad=0.2)


def width_of(number: int, of: int) -> float:
    """The width of a source's curves: later ones are thinner, so that equal ones can be seen behind each other."""
    return WIDEST - (WIDEST - THINNEST) * number / max(of - 1, 1)


def goal_paths(sources: Sequence[Compared], view: View) -> list[tuple[Any, Any]]:
    """Times and paths (2, rows) of the targets; of those that take one path the longest."""
    paths: list[tuple[Any, Any]] = []
    followed = [each for each in sources if view.goal and set(view.goal) <= each.goals.keys()]
    for source in sorted(followed, key=lambda each: -float(each.t[-1])):
        path = np.array([source.goals[name] for name in view.goal or ()])
        if not any(_same((source.t, path), each) for each in paths):
            paths.append((source.t, path))
    return paths


def _same(part: tuple[Any, Any], whole: tuple[Any, Any]) -> bool:
    """Whether a target goes where another one goes at the same times."""
    t, path = part
    other = np.array([np.interp(t, whole[0], values) for values in whole[1]])
    size = float(np.nanmax(np.abs(other), initial=1.0))
    return bool(np.allclose(path, other, rtol=0.0, atol=SAME * size, equal_nan=True))


def own_view(source: Compared, view: View) -> View | None:
    """The view of the same paths that a source's own machine has; None where its machine is not known."""
    views = source.run.closed_loop.source.views() if source.run else ()
    return next((each for each in views if each.trails == view.trails), None)


def _outline(source: Compared, view: View) -> list[Any]:
    """The machine at the end of its run."""
    own = own_view(source, view)
    return Scene.of(source.run).lines(len(source.t) - 1, own.outline) if source.run and own else []
