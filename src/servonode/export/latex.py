"""A shown document as LaTeX: amsmath and nothing else, lines that fit into a column of LINE."""

import re
from collections.abc import Iterator
from typing import assert_never

from servonode.export.blocks import Block, Expr, Formula, Heading, Line, Lines, Math, Matrix, Table, Words
from servonode.export.notation import MathPrinter, Notation, latex_math, latex_number

_DISPLAYED = (Formula, Lines, Matrix)  # no paragraph ends before these
_SYMBOLS = 26.0  # pt; the least width of a table's first column
LINE = 335.0  # pt; article sets 345 pt at 10 pt
_PREAMBLE = "\\documentclass{article}\n\\usepackage{amsmath}\n\\allowdisplaybreaks\n\\begin{document}\n\n"
_NEEDS = "% needs \\usepackage{amsmath}; \\allowdisplaybreaks lets long systems cross pages\n"
_RELATIONS = {"<=": r"\le", ">=": r"\ge"}
_SPECIAL = {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
_SPECIAL |= {each: f"\\{each}" for each in "%&_#${}"} | {"<": "$<$", ">": "$>$", "|": "$|$"}

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[^\s]")
_WIDTHS = {"+": 12.0, "-": 12.0, "=": 12.5, "(": 4.5, ")": 4.5, ",": 4.5, ".": 3.0, r"\,": 2.0, r"\quad": 10.0}
_WIDTHS |= {r"\sin": 15.0, r"\cos": 16.5, r"\tan": 17.0, r"\operatorname": 3.0}
_WIDTHS |= dict.fromkeys((r"\left", r"\right", r"\mathrm", r"\dot", r"\ddot", r"\dddot"), 0.0)


def latex_document(blocks: list[Block], notation: Notation, standalone: bool) -> str:
    """The document; `standalone` with its class and preamble, else to be pasted."""
    printer = MathPrinter(notation)
    body = "".join(("\n" if isinstance(block, _DISPLAYED) else "\n\n") + _block(block, printer) for block in blocks)
    body = body.strip()
    return f"{_PREAMBLE}{body}\n\n\\end{{document}}\n" if standalone else f"{_NEEDS}{body}\n"


def width(latex: str) -> float:
    """How wide LaTeX mathematics is set, in pt at 10 pt, roughly and rather too much."""
    return _width(iter(_TOKEN.findall(latex)))


def unit(text: str) -> str:
    r"""`kg m^2` -> $\mathrm{kg\,m^{2}}$; a pure number has none."""
    if text in ("", "1"):
        return "--"
    powers = re.sub(r"\^(-?\d+)", r"^{\1}", text)
    return rf"$\mathrm{{{powers.replace(' ', chr(92) + ',')}}}$"


def escaped(words: str) -> str:
    """Words with all characters that LaTeX would read as commands made harmless."""
    parts = re.split(r'"([^"]*)"|`([^`]*)`', words)
    texts = ["".join(_SPECIAL.get(character, character) for character in part or "") for part in parts]
    for i in range(1, len(parts), 3):  # what stood in quotes, what stood in backticks
        texts[i] = "" if parts[i] is None else f"``{texts[i]}''"
        texts[i + 1] = "" if parts[i + 1] is None else rf"\texttt{{{texts[i + 1]}}}"
    return "".join(texts)


def _block(block: Block, printer: MathPrinter) -> str:
    match block:
        case Heading(title, major):
            return rf"\{'section' if major else 'subsection'}*{{\raggedright {escaped(title)}}}"
        case Words():
            return rf"\noindent {_words(block)}"
        case Formula(statements):
            return "\\begin{gather*}\n" + " \\\\\n".join(map(latex_math, statements)) + "\n\\end{gather*}"
        case Table():
            return _table(block, printer)
        case Lines(lines):
            return _equations(lines, printer)
        case Matrix():
            return _matrix(block, printer)
        case _:
            assert_never(block)


def _words(words: Words) -> str:
    return "".join(f"${latex_math(each)}$" if isinstance(each, Math) else escaped(each) for each in words.parts)


def _name(what: str | Expr, printer: MathPrinter) -> str:
    if isinstance(what, Math):
        return latex_math(what)
    return rf"\text{{{escaped(what)}}}" if isinstance(what, str) else str(printer.doprint(what))


def _table(table: Table, printer: MathPrinter) -> str:
    names = [_name(each.symbol, printer) for each in table.entries]
    rows = []
    for name, each in zip(names, table.entries, strict=True):
        row = rf"${name}$ & \raggedright {escaped(each.meaning)} & {unit(each.unit)}"
        if table.value:
            row += " & " + ("at start" if each.value is None else f"${latex_number(each.value)}$")
        rows.append(row + r" \\")
    head = rf"\multicolumn{{2}}{{@{{}}l}}{{\textbf{{{_words(table.title)}}}}} & unit & {table.value} \\[2pt] \hline"
    symbols = max([_SYMBOLS, *map(width, names)])
    columns = rf"@{{}}p{{{symbols:.0f}pt}}p{{\dimexpr 0.66\linewidth-{symbols:.0f}pt\relax}}p{{0.135\linewidth}}l@{{}}"
    begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
    return "\n".join([r"\par\medskip\noindent", begin, head, r"\rule{0pt}{2.6ex}%", *rows, end, r"\par\medskip"])


def _equations(lines: tuple[Line, ...], printer: MathPrinter) -> str:
    """The equations aligned at their relation signs, long right sides continued below."""
    lefts = [_name(line.left, printer) for line in lines]
    room = LINE - max(map(width, lefts)) - width("=")
    shown = []
    for left, line in zip(lefts, lines, strict=True):
        tail = f" {_relation(line.tail[0])} {printer.doprint(line.tail[1])}" if line.tail else ""
        first, *rest = _filled(printer.terms(line.right), room - width(tail))
        relation = rf"{left}{line.relation}\quad &" if line.relation == ":" else f"{left} &{_relation(line.relation)} "
        parts = [relation + first, *(rf"&\quad {{}} {each}" for each in rest)]
        shown += [*parts[:-1], parts[-1] + tail]
    return "\\begin{align*}\n" + " \\\\\n".join(shown) + "\n\\end{align*}"


def _relation(sign: str) -> str:
    return _RELATIONS.get(sign, sign)


def _filled(terms: list[str], room: float) -> list[str]:
    """A sum in lines of `room` pt; each line but the first begins with its sign."""
    lines, used = [terms[0]], width(terms[0])
    for term in terms[1:]:
        signed = term if term.startswith("-") else f"+ {term}"
        if used + width(signed) > room:
            lines.append(signed)
            used = width(r"\quad" + signed)
        else:
            lines[-1] += f" {signed}"
            used += width(signed)
    return lines


def _matrix(matrix: Matrix, printer: MathPrinter) -> str:
    """A matrix of numbers as such, of any other the entries that are not 0."""
    name = latex_math(Math(matrix.name))
    if not matrix.shown():
        return rf"\[ {name} = 0 \]"
    if matrix.is_of_numbers:
        return rf"\[ {name} = {printer.doprint(matrix.entries)} \]"
    below = " on and below the diagonal" if matrix.symmetric else ""
    rest = f"\n\\noindent All other entries{below} of ${name}$ are 0.\n" if matrix.omits_zeros else ""
    return _equations(matrix.lines(), printer) + rest


def _width(tokens: Iterator[str]) -> float:
    """The width up to the brace that closes the group."""
    total = 0.0
    for token in tokens:
        if token == "}":
            break
        total += _token_width(token, tokens)
    return total


def _token_width(token: str, tokens: Iterator[str]) -> float:
    if token == "{":
        return _width(tokens)
    if token in "_^":
        return 0.75 * _token_width(next(tokens), tokens)
    if token == r"\frac":
        return 3.0 + max(_token_width(next(tokens), tokens), _token_width(next(tokens), tokens))
    if token == r"\sqrt":
        return 9.0 + _token_width(next(tokens), tokens)
    return _WIDTHS.get(token, 5.8)
