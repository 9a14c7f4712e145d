"""Where planes and panels stand on a page: planes by their shape, so that equal scales leave nothing empty, panels
above each other in columns that end at the same height.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from servonode.views.sheet import LEFT, NAMED, RIGHT, TICKS, WIDTH, Cell, Row
from servonode.views.titles import Head

FULL = WIDTH - LEFT - RIGHT  # in; of an axis as wide as the page
WIDE = 1.7  # width over height from which a plane wants the whole width
HALF = (WIDTH - 2 * (LEFT + RIGHT)) / 2  # in; of an axis in one of two columns
HIGHEST, LOWEST = 3.4, 1.6  # in; of a plane's axis, and of one of two that share a row
NARROWEST, BESIDE = 2.15, 1.9  # in; of a plane's axis beside another one, and beside panels
HEIGHT, LEAST = 0.78, 0.62  # in; of a panel's axis where there is room, and at least
APART = 0.06  # in; between a panel and the words above the next one


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


def block(panels: Sequence[Placed], columns: int = 2) -> Row:
    """All panels in columns as wide as the page."""
    columns = min(columns, len(panels))
    width = (WIDTH - columns * (LEFT + RIGHT)) / columns
    size = -(-len(panels) // columns)
    parts = [panels[i : i + size] for i in range(0, len(panels), size)]
    height = max(needed(part, width) for part in parts)
    lefts = [LEFT + i * (LEFT + width + RIGHT) for i in range(columns)]
    cells = [cell for part, left in zip(parts, lefts, strict=False) for cell in column(part, left, width, height)]
    return Row(height, cells)


def beside(panels: Sequence[Placed], left: float, height: float) -> tuple[list[Cell], Sequence[Placed]]:
    """As many panels as fit into a column at the right of the page, and the rest of them."""
    width = WIDTH - RIGHT - left
    count = next((n for n in range(len(panels), 1, -1) if needed(panels[:n], width, LEAST) <= height), 1)
    return column(panels[:count], left, width, height), panels[count:]


class Plane(Protocol):
    """A view with equal scales that knows its shape."""

    @property
    def aspect(self) -> float:
        """Width over height."""
        ...

    def head(self, width: float) -> Head:
        """What stands above an axis of this width [in]."""
        ...

    def draw(self, axis: Any, width: float, height: float) -> None:
        """Draw it into an axis of this size [in]."""
        ...


def placed_rows(planes: Sequence[Plane], panels: Sequence[Placed], between: Sequence[Row] = ()) -> list[Row]:
    """Planes, wide ones first, then rows that stand between, then panels; a single plane has panels beside it."""
    both = len(planes) == 2 and _shared(planes)[0] >= LOWEST
    wide = [each for each in planes if each.aspect >= WIDE and not both]
    others = [each for each in planes if each.aspect < WIDE or both]
    rows = [wide_row(each) for each in wide]
    if len(others) == 1 and panels:
        row, panels = plane_and_panels(others[0], panels)
        rows.append(row)
    else:
        rows += [planes_row(others[i : i + 2]) for i in range(0, len(others), 2)]
    rows += between
    return [*rows, block(panels)] if panels else rows


def _plane(plane: Plane, left: float, top: float, width: float, height: float) -> Cell:
    return Cell(left, top, width, height, lambda axis: plane.draw(axis, width, height))


def wide_row(plane: Plane) -> Row:
    """A plane as wide as the page."""
    height = min(FULL / plane.aspect, HIGHEST)
    head = plane.head(FULL).height
    return Row(head + height + NAMED, [_plane(plane, LEFT, head, FULL, height)])


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
        cells.append(_plane(plane, left, max(heads), width, height))
        left += width + RIGHT + LEFT
    return Row(max(heads) + height + NAMED, cells)


def plane_and_panels(plane: Plane, panels: Sequence[Placed]) -> tuple[Row, Sequence[Placed]]:
    """A plane with panels at its right, where those below have their second column, and the panels that are left."""
    width = max(min(HALF, HIGHEST * 1.2 * plane.aspect), BESIDE)
    height = min(width / plane.aspect, HIGHEST * 1.2)
    head = plane.head(width).height
    right, rest = beside(panels, LEFT + HALF + RIGHT + LEFT, head + height + NAMED)
    return Row(head + height + NAMED, [_plane(plane, LEFT, head, width, height), *right]), rest
