"""A shown document as plain text of at most 100 columns."""

import re
import textwrap
from collections.abc import Iterator
from typing import assert_never

from servonode.export.blocks import (
    Block,
    Expr,
    Formula,
    Heading,
    Line,
    Lines,
    Matrix,
    Phrase,
    Table,
    Words,
)
from servonode.export.notation import Notation, TextPrinter

COLUMNS = 100
_INDENT = "  "


def text_document(blocks: list[Block], notation: Notation) -> str:
    """The document, blocks divided by empty lines."""
    printer = TextPrinter(notation)
    return "\n\n".join("\n".join(_block(block, printer)) for block in blocks) + "\n"


def _block(block: Block, printer: TextPrinter) -> list[str]:
    match block:
        case Heading(title, major):
            return [title, ("=" if major else "-") * len(title)]
        case Words(text):
            return textwrap.wrap(text, COLUMNS)
        case Formula(statements):
            return [_INDENT + each.text for each in statements]
        case Table():
            return _table(block, printer)
        case Lines(lines):
            return _equations(lines, printer)
        case Matrix():
            return _grid(block, printer) if block.is_of_numbers else _entries(block, printer)
        case _:
            assert_never(block)


def _table(table: Table, printer: TextPrinter) -> list[str]:
    rows = [[_said(each.symbol, printer), each.meaning, f"[{each.unit}]"] for each in table.entries]
    if table.value:
        for row, each in zip(rows, table.entries, strict=True):
            row.append("initial" if each.value is None else f"{each.value:g}")
    title = f"{table.title.text} (symbol, meaning, unit{', ' + table.value if table.value else ''})"
    return [title, *(_INDENT + line for line in _columns(rows))]


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows]


def _said(what: Phrase | Expr, printer: TextPrinter) -> str:
    return what.text if isinstance(what, Phrase) else str(printer.doprint(what))


def _equations(lines: tuple[Line, ...], printer: TextPrinter) -> list[str]:
    """The equations with their relation signs below each other, long right sides continued."""
    lefts = [_said(line.left, printer) + (":" if line.relation == ":" else "") for line in lines]
    margin = max(map(len, lefts))
    shown = []
    for left, line in zip(lefts, lines, strict=True):
        tail = f" {line.tail[0]} {printer.doprint(line.tail[1])}" if line.tail else ""
        begin = f"{_INDENT}{left.ljust(margin)} " + ("" if line.relation == ":" else f"{line.relation} ")
        shown += _filled(begin, printer.doprint(line.right) + tail)
    return shown


def _grid(matrix: Matrix, printer: TextPrinter) -> list[str]:
    """A matrix of numbers, row below row."""
    if not matrix.shown():
        return [f"{_INDENT}{matrix.name.text} = 0"]
    begin = f"{_INDENT}{matrix.name.text} = "
    rows = _columns([[printer.doprint(entry) for entry in row] for row in matrix.entries.tolist()])
    widest = max(map(len, rows))
    return [(" " * len(begin) if i else begin) + f"[{row.ljust(widest)}]" for i, row in enumerate(rows)]


def _entries(matrix: Matrix, printer: TextPrinter) -> list[str]:
    """The entries that are not 0, one equation each."""
    lines = tuple(Line(_entry(matrix, i, k), matrix.entries[i, k]) for i, k in matrix.shown())
    rest = [f"{_INDENT}(all other entries of {matrix.name.text} are 0)"] if matrix.omits_zeros else []
    return _equations(lines, printer) + rest


def _entry(matrix: Matrix, i: int, k: int) -> Phrase:
    return Phrase(f"{matrix.name.text}[{i + 1}]" if matrix.vector else f"{matrix.name.text}[{i + 1},{k + 1}]")


def _filled(begin: str, expression: str) -> list[str]:
    """`begin` and an expression in lines of COLUMNS, broken at its outermost + and - that make it fit."""
    room = COLUMNS - len(begin)
    lines = [""]
    for piece in _pieces(expression, room, 0):
        if lines[-1] and len(lines[-1]) + 1 + len(piece) > room:
            lines.append("")
        lines[-1] += f" {piece}" if lines[-1] else piece
    return [begin + lines[0], *(" " * len(begin) + line for line in lines[1:])]


def _pieces(expression: str, room: int, depth: int) -> Iterator[str]:
    """Parts of a sum that begin with their sign; what is longer than a line is parted at inner signs."""
    inside, start = 0, 0
    ends = []
    for sign in re.finditer(r"[()]| (?=[+-] )", expression):
        inside += {"(": 1, ")": -1}.get(sign[0], 0)
        if sign[0] == " " and inside <= depth:
            ends.append(sign.start())
    for end in [*ends, len(expression)]:
        piece = expression[start:end].strip()
        start = end
        if len(piece) > room and re.search(r" [+-] ", piece) and depth < expression.count("("):
            yield from _pieces(piece, room, depth + 1)
        else:
            yield piece
