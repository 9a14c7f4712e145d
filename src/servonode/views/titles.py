"""What stands above an axis: a title in words, and a legend that covers nothing; their size is known beforehand."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from servonode.views.palette import INK

SIZE = 8.0  # pt; of all text, at the size at which a picture is shown
LINE = 0.165  # in; of a line of text
ABOVE = 0.05  # in; between an axis and the lowest line above it
KEY = 0.1  # in; from the upper end of what stands above an axis to the middle of its first line
SPACING = 1.25  # of two lines, in parts of the height of one
HANDLE, PAD, BETWEEN = 1.3, 0.4, 1.1  # of a legend, in parts of the size of its text


@cache
def text_width(text: str, size: float = SIZE) -> float:
    """The width of a line of text [in]."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    shown, maths = readable(text), "$" in text.replace(r"\$", "")
    if shown != text or not maths:
        shown, maths = shown.replace(r"\$", "$"), False
    width, _, _ = text_to_path.get_text_width_height_descent(shown, FontProperties(size=size), maths)
    return float(width) / 72


@cache
def readable(text: str) -> str:
    """The text as matplotlib can write it: where its dollars are no formula that can be read, they are dollars."""
    if "$" not in text:
        return text
    from matplotlib.cbook import is_math_text
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(text)
    except ValueError:
        return re.sub(r"(?<!\\)\$", r"\\$", text)
    return text if is_math_text(text) else re.sub(r"(?<!\\)\$", r"\\$", text)


def shortened(text: str, width: float, size: float = SIZE) -> str:
    """The text, or its beginning with "…" where it is wider [in]; a formula stays whole."""
    if "$" in text or text_width(text, size) <= width:
        return text
    most = next((n for n in range(len(text), 1, -1) if text_width(f"{text[:n]}…", size) <= width), 1)
    return f"{text[:most].rstrip()}…"


def wrapped(text: str, width: float, size: float = SIZE) -> list[str]:
    """The lines of a text that are at most as wide [in] as said; a wider word is broken, but no formula."""
    lines: list[str] = []
    for word in (part for each in text.split(" ") for part in _parts(each, width, size)):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _parts(word: str, width: float, size: float) -> list[str]:
    """The word, in parts that fit where it is wider."""
    parts = [word]
    while "$" not in parts[-1] and len(parts[-1]) > 1 and text_width(parts[-1], size) > width:
        last = parts.pop()
        most = next((n for n in range(len(last) - 1, 1, -1) if text_width(last[:n], size) <= width), 1)
        parts += [last[:most], last[most:]]
    return parts


def size_of(axis: Any) -> tuple[float, float]:
    """Width and height of an axis [in]."""
    box, page = axis.get_position(), axis.figure.get_size_inches()
    return float(box.width * page[0]), float(box.height * page[1])


@dataclass(frozen=True)
class Head:
    """Title and legend above an axis of a certain width; `columns` of the legend, 0 without one.

    beside: the legend stands to the right of the last line of the title. size [pt] and colour of all words. lift [in]:
    between them and the axis, for a strip.
    """

    title: tuple[str, ...]
    names: tuple[str, ...] = ()
    columns: int = 0
    beside: bool = False
    size: float = SIZE
    colour: str = INK
    lift: float = 0.0

    @classmethod
    def of(
        cls, title: str, names: Sequence[str], width: float, right: float = 0.0, size: float = SIZE, colour: str = INK
    ) -> "Head":
        """What fits above an axis of this width [in]; the title leaves some room [in] at its right."""
        look: Any = {"size": size, "colour": colour}
        lines = tuple(wrapped(readable(title), width - right, size)) if title else ()
        names = [shortened(readable(name), width - size / 72 * (HANDLE + PAD) - 0.03, size) for name in names]
        if not names:
            return cls(lines, **look)
        left = width - right - (text_width(lines[-1], size) + 0.15 if lines else 0.0)
        if _legend_width(names, len(names), size) <= left:
            return cls(lines, tuple(names), len(names), bool(lines), **look)
        most = next((n for n in range(len(names), 1, -1) if _legend_width(names, n, size) <= width), 1)
        even = -(-len(names) // -(-len(names) // most))
        columns = even if _legend_width(names, even, size) <= width else most
        return cls(lines, tuple(names), columns, **look)

    @property
    def legend_rows(self) -> int:
        """How many lines the legend has."""
        return -(-len(self.names) // self.columns) if self.columns else 0

    @property
    def height(self) -> float:
        """The height of it all [in]."""
        return (
            ABOVE + self.lift + LINE * self.size / SIZE * (len(self.title) + (0 if self.beside else self.legend_rows))
        )

    def draw(self, axis: Any, handles: Sequence[Any], right: float = 0.0, left: float = 0.0) -> None:
        """Write it above the axis, from so far at its left on; what is drawn is measured in inches."""
        width, height = size_of(axis)
        below = 0 if self.beside else self.legend_rows
        pad = 72 * (ABOVE + self.lift + LINE * self.size / SIZE * below)
        words: Any = {"fontsize": self.size, "color": self.colour, "linespacing": SPACING}
        axis.set_title("\n".join(self.title), loc="left", x=-left / width, pad=pad, **words)
        if self.names:
            at_x = 1 - right / width if self.beside else -left / width
            look: Any = {"loc": "lower right" if self.beside else "lower left", "borderpad": 0, "borderaxespad": 0}
            look |= {"handlelength": HANDLE, "handletextpad": PAD, "columnspacing": BETWEEN, "labelspacing": 0.25}
            anchor = (at_x, 1 + (ABOVE + self.lift - 0.01) / height)
            legend = axis.legend(
                handles, self.names, bbox_to_anchor=anchor, ncols=self.columns, fontsize=self.size, **look
            )
            legend.set(frame_on=False, in_layout=False)


def _legend_width(names: Sequence[str], columns: int, size: float) -> float:
    """The width [in] of a legend; its entries fill its columns one after the other."""
    rows = -(-len(names) // columns)
    widths = [max(text_width(name, size) for name in names[i : i + rows]) for i in range(0, len(names), rows)]
    em = size / 72
    return sum(widths) + len(widths) * em * (HANDLE + PAD) + (len(widths) - 1) * em * BETWEEN + 0.03
