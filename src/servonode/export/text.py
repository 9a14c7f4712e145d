"""A shown document as plain text of at most 100 columns."""

import re
import textwrap
from typing import assert_never

from sympy import default_sort_key
from sympy.printing.str import StrPrinter

from servonode.export.blocks import Block, Expr, Formula, Heading, Lines, Matrix, Notation, Table, Words

COLUMNS = 100
_INDENT = "  "
_SHORT_SUM = re.compile(r"\([^()]{,60}\)")
_UNBROKEN = "\xa0"  # a space at which no line ends


class TextPrinter(StrPrinter):  # type: ignore[misc]
    """Expressions as one line of text: `d1*m1*psi'^2*sin(phi)`."""

    def __init__(self, notation: Notation) -> None:
        super().__init__()
        self._notation = notation

    def doprint(self, expr: Expr) -> str:
        return str(super().doprint(expr)).replace("**", "^")

    def _print_Symbol(self, expr: Expr) -> str:
        name, order = self._notation.derivative(expr)
        return name + "'" * order + self._notation.argument(expr)

    def _print_Float(self, expr: Expr) -> str:
        return f"{float(expr):g}"

    def _print_Min(self, expr: Expr) -> str:
        return f"min({', '.join(map(self._print, sorted(expr.args, key=default_sort_key)))})"

    def _print_root(self, expr: Expr) -> str:
        return f"sqrt({self._print(expr.args[0])})"

    def _print_choose(self, expr: Expr) -> str:
        margin, a, b = map(self._print, expr.args)
        return f"({a} if {margin} >= 0 else {b})"


def text_document(blocks: list[Block], notation: Notation) -> str:
    """The document, blocks divided by empty lines."""
    printer = TextPrinter(notation)
    return "\n\n".join("\n".join(_block(block, printer)) for block in blocks) + "\n"


def _block(block: Block, printer: TextPrinter) -> list[str]:
    match block:
        case Heading(title, major):
            return [title, ("=" if major else "-") * len(title)]
        case Words(parts):
            return textwrap.wrap("".join(parts), COLUMNS)
        case Formula(statements):
            return [_INDENT + each for each in statements]
        case Table():
            return _table(block, printer)
        case Lines():
            return _equations(block, printer)
        case Matrix():
            return _matrix(block, printer)
        case _:
            assert_never(block)


def _table(table: Table, printer: TextPrinter) -> list[str]:
    rows = [[_name(each.symbol, printer), each.meaning, f"[{each.unit}]"] for each in table.entries]
    if table.value:
        for row, each in zip(rows, table.entries, strict=True):
            row.append("initial" if each.value is None else f"{each.value:g}")
    title = f"{''.join(table.title.parts)} (symbol, meaning, unit{', ' + table.value if table.value else ''})"
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = ("  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)) for row in rows)
    return [title, *(f"{_INDENT}{line}".rstrip() for line in cells)]


def _name(what: str | Expr, printer: TextPrinter) -> str:
    return what if isinstance(what, str) else printer.doprint(what)


def _equations(block: Lines, printer: TextPrinter) -> list[str]:
    """The equations with their relation signs below each other, long right sides continued."""
    lefts = [_name(line.left, printer) + (":" if line.relation == ":" else "") for line in block.lines]
    margin = max(map(len, lefts))
    shown = []
    for left, line in zip(lefts, block.lines, strict=True):
        tail = f" {line.tail[0]} {printer.doprint(line.tail[1])}" if line.tail else ""
        begin = f"{_INDENT}{left.ljust(margin)} " + ("" if line.relation == ":" else f"{line.relation} ")
        shown += _filled(begin, printer.doprint(line.right) + tail)
    return shown


def _filled(begin: str, expression: str) -> list[str]:
    """`begin` and an expression in lines of COLUMNS, broken before its signs, where it can be outside parentheses."""
    signed = re.sub(r"(,| [+-]) ", rf"\1{_UNBROKEN}", expression)
    lines = textwrap.wrap(
        _SHORT_SUM.sub(lambda found: found[0].replace(" ", _UNBROKEN), signed),
        COLUMNS,
        initial_indent=begin,
        subsequent_indent=" " * len(begin),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_UNBROKEN, " ") for line in lines]


def _matrix(matrix: Matrix, printer: TextPrinter) -> list[str]:
    """A matrix of numbers row below row, of any other the entries that are not 0."""
    if not matrix.shown():
        return [f"{_INDENT}{matrix.name} = 0"]
    if matrix.is_of_numbers:
        begin = f"{_INDENT}{matrix.name} = "
        rows = matrix.entries.table(printer, colsep="  ", align="left").splitlines()
        return [(" " * len(begin) if i else begin) + row for i, row in enumerate(rows)]
    rest = [f"{_INDENT}(all other entries of {matrix.name} are 0)"] if matrix.omits_zeros else []
    return _equations(Lines(matrix.lines()), printer) + rest
