"""The picture of several runs: their paths in one plane, and each quantity in an axis with a curve for every run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import matplotlib as mpl
import numpy as np
from matplotlib.lines import Line2D

from servonode.analysis.comparison import (
    RESIDUAL,
    Compared,
    CompareError,
    by_index,
    common,
    differing,
    inputs_of,
    unit_of,
)
from servonode.arrays import Array
from servonode.errors import did_you_mean
from servonode.mechanics.description import Quantity
from servonode.plants.view import View
from servonode.views import limits
from servonode.views.curves import THICK, Curve, Curves
from servonode.views.palette import INK, SOURCES
from servonode.views.planes import AROUND, DASHED, framed, rounded_ticks
from servonode.views.scene import Scene, draw_line
from servonode.views.shapes import box_of, wanted_paths
from servonode.views.sheet import PRINT, Placed, Plane, Row, figure_of, label_axes, legend, placed_rows, save
from servonode.views.symbols import mathtext, titles, unit_text
from servonode.views.titles import Head, size_of

COLORS = SOURCES
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.")  # of the names in one panel
WIDEST, THINNEST = 1.9 * THICK, 0.9 * THICK
SAME = 1e-3  # of two targets' distance to the size of their path, below which they are one
MOST = 4  # quantities shown of those that differ


@dataclass(frozen=True)
class ComparedPanel:
    """One axis: its title, the names that it shows and their curves; in logarithmic ones only sizes.

    floor: the size below which all of it is nearly zero.
    """

    title: str
    names: tuple[str, ...]
    curves: tuple[Curve, ...]
    logarithmic: bool
    floor: float

    @property
    def seen(self) -> bool:
        """Whether there is something to see."""
        return limits.largest([each.values for each in self.curves]) > self.floor


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
    curves = [
        Curve(
            source.name if len(names) == 1 else f"{name}, {source.name}",
            np.abs(source.columns[name]) if sized else source.columns[name],
            COLORS[i],
            dashes,
            width_of(i, len(sources)),
            source.t,
        )
        for name, dashes in zip(names, DASHES, strict=False)
        for i, source in enumerate(sources)
        if name in source.columns
    ]
    floor = min(_floor(sources, unit_of(sources, name)) for name in names)
    return ComparedPanel(_panel_title(sources, names, units), tuple(names), tuple(curves), sized, floor)


def _panel_title(sources: Sequence[Compared], names: Sequence[str], units: str) -> str:
    """What a panel shows, in words with symbols and units."""
    quantities: dict[str, Quantity] = {}
    for source in sources:
        if source.run:
            described = source.run.closed_loop.machine.description
            quantities |= {each.name: each for each in (*described.state, *described.outputs, *described.inputs)}
    known = [quantities[name] for name in names if name in quantities]
    if len(known) == len(names):
        return titles(known)[0]
    shown = ", ".join(mathtext(name.removeprefix(RESIDUAL)) for name in names)
    if all(name.startswith(RESIDUAL) for name in names):
        return f"residual {shown}, magnitude{unit_text(units)}"
    return f"{shown}{unit_text(units)}"


def _floor(sources: Sequence[Compared], unit: str) -> float:
    """The size below which a quantity of this unit is nearly zero, beside all that the sources have of it."""
    columns = [
        values
        for source in sources
        for name, values in source.columns.items()
        if not name.startswith(RESIDUAL) and source.units.get(name) == unit
    ]
    return limits.floor_of(unit or "1", limits.largest(columns))


# the picture


def write_comparison(sources: Sequence[Compared], panels: Sequence[ComparedPanel], file: Path) -> None:
    """Draw the comparison into `file` (PNG or another format that matplotlib knows by its ending)."""
    save(comparison_figure(sources, panels), file)


@mpl.rc_context(PRINT)
def comparison_figure(sources: Sequence[Compared], panels: Sequence[ComparedPanel]) -> Any:
    """The comparison as a matplotlib Figure, 17 cm wide: names, the map, the panels."""
    view = shared_view(sources)
    planes = [ComparedPlane.of(sources, view)] if view else []
    rows = placed_rows(planes, [_placed(sources, each) for each in panels if each.seen])
    zero = ", ".join(each.title for each in panels if not each.seen)
    return figure_of([_names_row(sources), *rows], "Comparison", f"Nearly zero: {zero}." if zero else "")


def _names_row(sources: Sequence[Compared]) -> Row:
    """The names of the sources with their colours."""
    names = [f"{each.name} (fault)" if each.run and each.run.fault else each.name for each in sources]
    marks = [Line2D([], [], color=color, linewidth=2.2) for _, color in zip(sources, COLORS, strict=False)]
    return legend([name.replace("$", r"\$") for name in names], marks)


def _placed(sources: Sequence[Compared], panel: ComparedPanel) -> Placed:
    names = [mathtext(name.removeprefix(RESIDUAL)) for name in panel.names] if len(panel.names) > 1 else []
    t = max((each.t for each in sources), key=lambda each: float(each[-1]))
    drawn = Curves.of(
        t, panel.curves, panel.logarithmic, panel.floor, any(each.run and each.run.fault for each in sources)
    )
    title = drawn.entitled(panel.title)

    def draw(axis: Any, head: Head) -> None:
        drawn.draw(axis)
        head.draw(axis, [Line2D([], [], color=INK, ls=dashes) for _, dashes in zip(names, DASHES, strict=False)])

    return Placed(lambda width: Head.of(title, names, width), draw, drawn.brief)


# the map


def shared_view(sources: Sequence[Compared]) -> View | None:
    """The first view with a path that at least two sources have; strips stand beside each other, not in one plane."""
    views = [view for source in sources if source.run for view in source.run.closed_loop.views]
    return next((view for view in views if not view.strip and sum(has_path(each, view) for each in sources) > 1), None)


def has_path(source: Compared, view: View) -> bool:
    """Whether a source has the first path of a view."""
    return bool(view.trails) and set(next(iter(view.trails.values()))) <= source.columns.keys()


@dataclass(frozen=True)
class ComparedPlane(Plane):
    """The first path of each source, its machine at the end, and the paths that are wanted; the region shown [m]."""

    sources: Sequence[Compared]
    view: View
    low: Array
    high: Array
    wanted: list[tuple[str, Array]]  # legend name and path (n, 2) of what is wanted: of targets, and fixed ones

    @classmethod
    def of(cls, sources: Sequence[Compared], view: View) -> Self:
        """What the sources that have the path take up."""
        drawn = [path for _, path in cls._paths(sources, view)] + [path.T for _, path in goal_paths(sources, view)]
        drawn += [line for source in sources if has_path(source, view) for line in _outline(source, view)]
        low, high = framed(*box_of(drawn), AROUND)
        return cls(sources, view, low, high, _wanted(sources, view, low, high))

    @staticmethod
    def _paths(sources: Sequence[Compared], view: View) -> list[tuple[int, Array]]:
        pair = next(iter(view.trails.values()))
        return [(i, view.path(each.columns, pair)) for i, each in enumerate(sources) if has_path(each, view)]

    def head(self, width: float) -> Head:
        """What stands above an axis of this width [in]."""
        return Head.of(self.view.title or "paths", list(dict(self.wanted)), width)

    def draw(self, axis: Any) -> None:
        """Draw it into an axis."""
        width, height = size_of(axis)
        marks = {name: axis.plot(*path.T, **DASHED)[0] for name, path in self.wanted}
        for i, path in self._paths(self.sources, self.view):
            look: Any = {"color": COLORS[i], "zorder": 2}
            axis.plot(*path.T, linewidth=width_of(i, len(self.sources)), **look)
            for line in _outline(self.sources[i], self.view):
                draw_line(axis, line, linewidth=0.9, **look | {"zorder": 3})
        axis.set_xlim(self.low[0], self.high[0])
        axis.set_ylim(self.low[1], self.high[1])
        axis.set_aspect("equal", adjustable="datalim" if width / height > self.aspect * 1.01 else "box")
        rounded_ticks(axis)
        label_axes(axis, *self.view.axes)
        self.head(width).draw(axis, list(marks.values()))


def _wanted(sources: Sequence[Compared], view: View, low: Array, high: Array) -> list[tuple[str, Array]]:
    """Legend names and paths of what is wanted in a region."""
    fixed: dict[str, Array] = {}
    for source in sources:
        own = own_view(source, view)
        if source.run and own:
            fixed |= wanted_paths(source.run.closed_loop, own, low, high)
    return [*(("target", path.T) for _, path in goal_paths(sources, view)), *fixed.items()]


def width_of(number: int, of: int) -> float:
    """The width of a source's curves: later ones are thinner, so that equal ones can be seen behind each other."""
    return WIDEST - (WIDEST - THINNEST) * number / max(of - 1, 1)


def goal_paths(sources: Sequence[Compared], view: View) -> list[tuple[Any, Any]]:
    """Times and paths (2, rows) of the targets; of those that take one path the longest."""
    paths: list[tuple[Any, Any]] = []
    followed = [each for each in sources if view.goal and set(view.goal) <= each.goals.keys()]
    for source in sorted(followed, key=lambda each: -float(each.t[-1])):
        path = view.path(source.goals, view.goal or ()).T
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
    views = source.run.closed_loop.views if source.run else ()
    return next((each for each in views if each.trails == view.trails), None)


def _outline(source: Compared, view: View) -> list[Any]:
    """The machine at the end of its run."""
    own = own_view(source, view)
    return Scene.of(source.run).shapes(len(source.t) - 1, own).lines if source.run and own else []
