"""A page of axes with sizes in inches: rows from top to bottom, in each of them axes side by side or in columns.

Sizes are known before anything is drawn, so that axes have the shape of what they show and nothing overlaps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from servonode.views.palette import INK
from servonode.views.titles import LINE, SIZE, readable, shortened, wrapped

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


def label_axes(axis: Any, across: str, up: str) -> None:
    """Name both axes."""
    box, (page_width, page_height) = axis.get_position(), axis.figure.get_size_inches()
    width, height = box.width * page_width, box.height * page_height
    axis.set_xlabel(shortened(readable(across), width + 0.3))
    axis.set_ylabel(shortened(readable(up), max(height, 0.8)))


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


def figure_of(rows: Sequence[Row], title: str, note: str = "", remarks: Sequence[Remark] = ()) -> Any:
    """The page as a matplotlib Figure: title, remarks in lines of their own, the rows, and a note at the end."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heads = wrapped(readable(title), LINE_WIDTH, SIZE + 1)
    notes = wrapped(readable(note), LINE_WIDTH) if note else []
    lines = [(line, colour) for text, colour in remarks for line in wrapped(readable(text), LINE_WIDTH)]
    above = 0.08 + 0.19 * len(heads) + LINE * len(lines)
    rows_height = sum(row.height for row in rows) + BETWEEN * (len(rows) - 1)
    height = above + 0.08 + rows_height + LINE * len(notes) + 0.06
    figure = Figure(figsize=(WIDTH, height))
    FigureCanvasAgg(figure)
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
