"""A shown document as LaTeX: amsmath and nothing else, lines that fit into a column of LINE."""

import re
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
from servonode.export.escape import escaped
from servonode.export.notation import MathPrinter, Notation, joined, latex_number
from servonode.export.width import width

_DISPLAYED = (Formula, Lines, Matrix)  # no paragraph ends before these
_SYMBOLS = 26.0  # pt; the least width of a table's first column
_SHORT = 60.0  # pt; a matrix with a wider entry is shown by its entries
LINE = 335.0  # pt; article sets 345 pt at 10 pt
_PREAMBLE = "\\documentclass{article}\n\\usepackage{amsmath}\n\\allowdisplaybreaks\n\\begin{document}\n\n"
_NEEDS = "% needs \\usepackage{amsmath}; \\allowdisplaybreaks lets long systems cross pages\n"


def latex_document(blocks: list[Block], notation: Notation, standalone: bool) -> str:
    """The document; `standalone` with its class and preamble, else to be pasted."""
    printer = MathPrinter(notation)
    body = "".join(("\n" if isinstance(block, _DISPLAYED) else "\n\n") + _block(block, printer) for block in blocks)
    body = body.strip()
    return f"{_PREAMBLE}{body}\n\n\\end{{document}}\n" if standalone else f"{_NEEDS}{body}\n"


def unit(text: str) -> str:
    r"""`kg m^2` -> $\mathrm{kg\,m^{2}}$; a pure number has none."""
    if text in ("", "1"):
        return "--"
    powers = re.sub(r"\^(-?\d+)", r"^{\1}", text)
    return rf"$\mathrm{{{powers.replace(' ', chr(92) + ',')}}}$"


def _block(block: Block, printer: MathPrinter) -> str:
    match block:
        case Heading(title, major):
            return rf"\{'section' if major else 'subsection'}*{{\raggedright {escaped(title)}}}"
        case Words(text, latex):
            return rf"\noindent {latex or escaped(text)}"
        case Formula(statements):
            return "\\begin{gather*}\n" + " \\\\\n".join(each.latex for each in statements) + "\n\\end{gather*}"
        case Table():
            return _table(block, printer)
        case Lines(lines):
            return _equations(lines, printer)
        case Matrix():
            return _matrix(block, printer)
        case _:
            assert_never(block)


def _table(table: Table, printer: MathPrinter) -> str:
    rows = []
    for each in table.entries:
        row = rf"${_said(each.symbol, printer)}$ & \raggedright {escaped(each.meaning)} & {unit(each.unit)}"
        if table.value:
            row += " & " + ("at start" if each.value is None else f"${latex_number(each.value)}$")
        rows.append(row + r" \\")
    head = rf"\multicolumn{{2}}{{@{{}}l}}{{\textbf{{{table.title.latex}}}}} & unit & {table.value} \\[2pt] \hline"
    symbols = max([_SYMBOLS, *(width(_said(each.symbol, printer)) for each in table.entries)])
    columns = rf"@{{}}p{{{symbols:.0f}pt}}p{{\dimexpr 0.66\linewidth-{symbols:.0f}pt\relax}}p{{0.135\linewidth}}l@{{}}"
    begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
    return "\n".join([r"\par\medskip\noindent", begin, head, r"\rule{0pt}{2.6ex}%", *rows, end, r"\par\medskip"])


def _said(what: Phrase | Expr, printer: MathPrinter) -> str:
    return what.latex if isinstance(what, Phrase) else str(printer.doprint(what))


def _equations(lines: tuple[Line, ...], printer: MathPrinter) -> str:
    """The equations aligned at their relation signs, long right sides continued below."""
    lefts = [_said(line.left, printer) for line in lines]
    room = LINE - max(map(width, lefts)) - width("=")
    shown = []
    for left, line in zip(lefts, lines, strict=True):
        tail = f" {line.tail[0]} {printer.doprint(line.tail[1])}" if line.tail else ""
        first, *rest = _filled(printer.terms(line.right), room - width(tail))
        relation = rf"{left}{line.relation}\quad &" if line.relation == ":" else f"{left} &{line.relation} "
        parts = [relation + first, *(rf"&\quad {each}" for each in rest)]
        shown += [*parts[:-1], parts[-1] + tail]
    return "\\begin{align*}\n" + " \\\\\n".join(shown) + "\n\\end{align*}"


def _filled(terms: list[tuple[str, str]], room: float) -> list[str]:
    """A sum in lines of `room` pt; each line but the first begins with its sign."""
    lines: list[list[tuple[str, str]]] = [[]]
    used = 0.0
    for sign, term in terms:
        wide = width(term) + width("+")
        if lines[-1] and used + wide > room:
            lines.append([])
            used = width(r"\quad")
        lines[-1].append((sign, term))
        used += wide
    first, *rest = lines
    return [joined(first), *("{} " + joined(line) if line[0][0] == "-" else f"+ {joined(line)}" for line in rest)]


def _matrix(matrix: Matrix, printer: MathPrinter) -> str:
    """As a matrix where it fits into a line, else by its entries that are not 0."""
    name = matrix.name.latex
    if not matrix.shown():
        return rf"\[ {name} = 0 \]"
    texts = [[printer.doprint(entry) for entry in row] for row in matrix.entries.tolist()]
    widths = [max(_in_line(text) for text in column) for column in zip(*texts, strict=True)]
    if (
        (not matrix.vector or matrix.is_of_numbers)
        and max(widths) <= _SHORT
        and sum(widths) + 10.0 * len(widths) + 60.0 <= LINE
    ):
        tall = any(r"\frac" in text for row in texts for text in row)
        rows = (r" \\[1ex] " if tall else r" \\ ").join(" & ".join(row) for row in texts)
        return rf"\[ {name} = \begin{{bmatrix}} {rows} \end{{bmatrix}} \]"
    lines = tuple(Line(_entry(matrix, i, k), matrix.entries[i, k]) for i, k in matrix.shown())
    rest = f"\n\\noindent All other entries of ${name}$ are 0.\n" if matrix.omits_zeros else ""
    if matrix.symmetric:
        rest = rest.replace("All other entries", "All other entries on and below the diagonal")
    return _equations(lines, printer) + rest


def _in_line(latex: str) -> float:
    """The width of an entry of a matrix; fractions are small there and should be short."""
    return width(latex) * (2.0 if r"\frac" in latex else 1.0)


def _entry(matrix: Matrix, i: int, k: int) -> Phrase:
    place = str(i + 1) if matrix.vector else f"{i + 1}{k + 1}" if matrix.entries.rows < 10 else f"{i + 1},{k + 1}"
    name = matrix.name.latex
    return Phrase("", f"({name})_{{{place}}}" if "_" in name else f"{name}_{{{place}}}")
