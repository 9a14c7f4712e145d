"""Panels above each other in columns that end at the same height."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from servonode.views.sheet import LEFT, NAMED, RIGHT, TICKS, WIDTH, Cell, Row
from servonode.views.titles import Head

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
