"""A page of axes with sizes in inches: rows from top to bottom, in each of them axes side by side or in columns.

Sizes are known before anything is drawn, so that axes have the shape of what they show and nothing overlaps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from servonode.arrays import Array
from servonode.views.palette import INK
from servonode.views.titles import LINE, SIZE, Head, readable, shortened, size_of, wrapped

WIDTH = 6.7  # in; 17 cm, as wide as a page's text
PIXELS = 900  # of that width where a picture is shown on a page
LEFT, RIGHT = 0.66, 0.12  # in; beside an axis, for its ticks
Remark = tuple[str, str]  # a text and its colour
LINE_WIDTH = 6.2  # in; of text across the page: on a screen letters are wider than in print
TICKS, NAMED = 0.1, 0.4  # in; below an axis: its ticks alone, or with numbers and label
BETWEEN = 0.1  # in; between rows
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
PRINT: Any = {
    **STYLE,
    "font.size": SIZE,
    "axes.labelsize": SIZE,
    "xtick.labelsize": SIZE,
    "ytick.labelsize": SIZE,
    "xtick.color": "#3f4b57",
    "ytick.color": "#3f4b57",
    "axes.linewidth": 0.7,
    "grid.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.labelpad": 2.0,
    "mathtext.fontset": "dejavusans",
    "pdf.fonttype": 42,  # fonts as they are, so that words can be found and copied
    "svg.fonttype": "none",  # words as words
}
FULL = WIDTH - LEFT - RIGHT  # in; of an axis as wide as the page
WIDE = 1.7  # width over height from which a plane wants the whole width
HALF = (WIDTH - 2 * (LEFT + RIGHT)) / 2  # in; of an axis in one of two columns
HIGHEST, LOWEST = 3.4, 1.6  # in; of a plane's axis, and of one of two that share a row
NARROWEST, BESIDE = 2.15, 1.9  # in; of a plane's axis beside another one, and beside panels
HEIGHT, LEAST = 0.78, 0.62  # in; of a panel's axis where there is room, and at least
APART = 0.06  # in; between a panel and the words above the next one


def label_axes(axis: Any, across: str, up: str) -> None:
    """Name both axes."""
    width, height = size_of(axis)
    axis.set_xlabel(shortened(readable(across), width + 0.3))
    axis.set_ylabel(shortened(readable(up), max(height, 0.8)))


def save(figure: Any, file: Path) -> None:
    """Draw a page into `file` (PNG or another format that matplotlib knows by its ending)."""
    import matplotlib as mpl

    with mpl.rc_context(PRINT):
        figure.savefig(file, dpi=2 * PIXELS / WIDTH)


@dataclass(frozen=True)
class Cell:
    """An axis: its left end, the distance of its top from that of its row, its size [in], and what draws into it."""

    left: float
    top: float
    width: float
    height: float
    draw: Callable[[Any], None]


@dataclass(frozen=True)
class Row:
    """Axes that stand side by side, and the height that they take with all that belongs to them [in]."""

    height: float
    cells: Sequence[Cell]


def wide(draw: Callable[[Any], None], height: float, above: float = 0.0, below: float = NAMED) -> Row:
    """An axis as wide as the page, with this room [in] above and below it."""
    return Row(above + height + below, [Cell(LEFT, above, FULL, height, draw)])


def places(count: int) -> tuple[float, list[float]]:
    """The width of so many axes that stand side by side, and the left end of each [in]."""
    width = (WIDTH - count * (LEFT + RIGHT)) / count
    return width, [LEFT + i * (LEFT + width + RIGHT) for i in range(count)]


def even(draws: Sequence[Callable[[Any], None]], count: int, height: float, above: float) -> Row:
    """Axes side by side, as wide as so many of them have room for."""
    width, lefts = places(count)
    cells = [Cell(left, above, width, height, draw) for left, draw in zip(lefts, draws, strict=False)]
    return Row(above + height + NAMED, cells)


def legend(names: Sequence[str], marks: Sequence[Any]) -> Row:
    """A legend by itself."""
    head = Head.of("", names, FULL)

    def draw(axis: Any) -> None:
        axis.set_axis_off()
        head.draw(axis, marks)

    return wide(draw, 0.01, head.height, below=-0.01)


def figure_of(rows: Sequence[Row], title: str, note: str = "", remarks: Sequence[Remark] = ()) -> Any:
    """The page as a matplotlib Figure: title, remarks in lines of their own, the rows, and a note at the end."""
    from servonode.views.picture import Picture

    heads = wrapped(readable(title), LINE_WIDTH, SIZE + 1)
    notes = wrapped(readable(note), LINE_WIDTH) if note else []
    lines = [(line, colour) for text, colour in remarks for line in wrapped(readable(text), LINE_WIDTH)]
    above = 0.08 + 0.19 * len(heads) + LINE * len(lines)
    rows_height = sum(row.height for row in rows) + BETWEEN * (len(rows) - 1)
    height = above + 0.08 + rows_height + LINE * len(notes) + 0.06
    figure = Picture(figsize=(WIDTH, height))
    words: Any = {"ha": "left", "va": "top", "color": INK}
    figure.text(0.1 / WIDTH, 1 - 0.07 / height, "\n".join(heads), fontsize=SIZE + 1, linespacing=1.25, **words)
    for i, (line, colour) in enumerate(lines):
        look = words | {"color": colour, "fontsize": SIZE}
        figure.text(0.1 / WIDTH, 1 - (0.08 + 0.19 * len(heads) + LINE * i) / height, line, **look)
    top = above + 0.08
    for row in rows:
        for cell in row.cells:
            bottom = height - top - cell.top - cell.height
            box = (cell.left / WIDTH, bottom / height, cell.width / WIDTH, cell.height / height)
            cell.draw(figure.add_axes(box))
        top += row.height + BETWEEN
    if notes:
        look = words | {"va": "bottom", "fontsize": SIZE, "linespacing": 1.25}
        figure.text(0.1 / WIDTH, 0.05 / height, "\n".join(notes), **look)
    return figure


@dataclass(frozen=True)
class Placed:
    """A panel that is to be placed: the words above it for a certain width, and what draws it with them.

    has_own_time: its time ends elsewhere than that of the others.
    """

    head: Callable[[float], Head]
    draw: Callable[[Any, Head], None]
    has_own_time: bool = False


def column(panels: Sequence[Placed], left: float, width: float, height: float) -> list[Cell]:
    """The axes of one column [in], which share its height evenly."""
    heads, below = [each.head(width) for each in panels], _below(panels)
    free = height - sum(head.height for head in heads) - sum(below)
    each_height, top, cells = free / len(panels), 0.0, []
    for number, (panel, head) in enumerate(zip(panels, heads, strict=True)):
        timed = panel.has_own_time or number == len(panels) - 1

        def draw(axis: Any, panel: Placed = panel, head: Head = head, timed: bool = timed) -> None:
            axis.tick_params(labelbottom=timed)
            if timed:
                axis.set_xlabel("time $t$ [s]")
            panel.draw(axis, head)

        cells.append(Cell(left, top + head.height, width, each_height, draw))
        top += head.height + each_height + below[number]
    return cells


def needed(panels: Sequence[Placed], width: float, height: float = HEIGHT) -> float:
    """The height [in] that a column wants, with axes of this height."""
    return sum(each.head(width).height + height for each in panels) + sum(_below(panels))


def _below(panels: Sequence[Placed]) -> list[float]:
    """The room [in] below each axis of a column."""
    return [*((NAMED if each.has_own_time else TICKS) + APART for each in panels[:-1]), NAMED]


def block(panels: Sequence[Placed]) -> Row:
    """All panels in two columns, a single one as wide as the page."""
    size = -(-len(panels) // 2)
    parts = [panels[i : i + size] for i in range(0, len(panels), size)]
    width, lefts = places(len(parts))
    height = max(needed(part, width) for part in parts)
    cells = [column(part, left, width, height) for part, left in zip(parts, lefts, strict=True)]
    return Row(height, [*chain(*cells)])


def beside(panels: Sequence[Placed], left: float, height: float) -> tuple[list[Cell], Sequence[Placed]]:
    """As many panels as fit into a column at the right of the page, and the rest of them."""
    width = WIDTH - RIGHT - left
    count = next((n for n in range(len(panels), 1, -1) if needed(panels[:n], width, LEAST) <= height), 1)
    return column(panels[:count], left, width, height), panels[count:]


class Plane(Protocol):
    """A view with equal scales of the region [m] between two corners."""

    low: Array
    high: Array

    @property
    def aspect(self) -> float:
        """Width over height."""
        width, height = self.high - self.low
        return float(width / height)

    def head(self, width: float) -> Head:
        """What stands above an axis of this width [in]."""
        ...

    def draw(self, axis: Any) -> None:
        """Draw it into an axis."""
        ...


def placed_rows(planes: Sequence[Plane], panels: Sequence[Placed], between: Sequence[Row] = ()) -> list[Row]:
    """Planes, wide ones first, then rows that stand between, then panels; a single plane has panels beside it."""
    both = len(planes) == 2 and _shared(planes)[0] >= LOWEST
    across = [each for each in planes if each.aspect >= WIDE and not both]
    others = [each for each in planes if each.aspect < WIDE or both]
    heights = [min(FULL / each.aspect, HIGHEST) for each in across]
    rows = [wide(each.draw, height, each.head(FULL).height) for each, height in zip(across, heights, strict=True)]
    if len(others) == 1 and panels:
        row, panels = plane_and_panels(others[0], panels)
        rows.append(row)
    else:
        rows += [planes_row(others[i : i + 2]) for i in range(0, len(others), 2)]
    rows += between
    return [*rows, block(panels)] if panels else rows


def _shared(planes: Sequence[Plane]) -> tuple[float, list[float]]:
    """The height [in] of planes that share a row, and their widths, none so narrow that its words have no room."""
    free, aspects = WIDTH - len(planes) * (LEFT + RIGHT), [each.aspect for each in planes]
    wide = [each for each in aspects if free * each >= NARROWEST * sum(aspects)]
    height = min((free - NARROWEST * (len(aspects) - len(wide))) / sum(wide), HIGHEST)
    return height, [max(height * each, NARROWEST) for each in aspects]


def planes_row(planes: Sequence[Plane]) -> Row:
    """Planes side by side, of the same height."""
    height, widths = _shared(planes)
    heads = [each.head(width).height for each, width in zip(planes, widths, strict=True)]
    left, cells = LEFT, []
    for plane, width in zip(planes, widths, strict=True):
        cells.append(Cell(left, max(heads), width, height, plane.draw))
        left += width + RIGHT + LEFT
    return Row(max(heads) + height + NAMED, cells)


def plane_and_panels(plane: Plane, panels: Sequence[Placed]) -> tuple[Row, Sequence[Placed]]:
    """A plane with panels at its right, where those below have their second column, and the panels that are left."""
    width = max(min(HALF, HIGHEST * 1.2 * plane.aspect), BESIDE)
    height = min(width / plane.aspect, HIGHEST * 1.2)
    head = plane.head(width).height
    right, rest = beside(panels, LEFT + HALF + RIGHT + LEFT, head + height + NAMED)
    return Row(head + height + NAMED, [Cell(LEFT, head, width, height, plane.draw), *right]), rest
