"""A shown document as LaTeX: amsmath and nothing else, lines that fit into a column of LINE."""

import re
from collections.abc import Iterator
from typing import assert_never

from sympy.printing.latex import LatexPrinter, greek_letters_set

from servonode.export.blocks import Block, Expr, Formula, Heading, Line, Lines, Math, Matrix, Notation, Table, Words

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
_CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"  # that do not look like Latin letters
_GREEK = {*greek_letters_set, *_CAPITALS.split()} - {"omicron"}
_VARIANTS = {"epsilon": "varepsilon", "phi": "varphi"}
_DOTS = ("", r"\dot", r"\ddot", r"\dddot")
_MATH_TOKEN = re.compile(
    r"(?P<name>[A-Za-z]\w*)(?P<primes>'*)(?:\[(?P<place>[\d,]+)\])?|\^(?P<power>-?\w+|\(\w+\))|>=|."
)
_WORDS_OF_MATH = {"int": r"\int", "dt": "dt", "KI": "K_I"}


class MathPrinter(LatexPrinter):  # type: ignore[misc]
    """Expressions as LaTeX mathematics of amsmath."""

    def __init__(self, notation: Notation) -> None:
        super().__init__({"fold_func_brackets": True})
        self._notation = notation

    def terms(self, expression: Expr) -> list[str]:
        """Each term of a sum, with its sign."""
        return [self.doprint(term) for term in expression.as_ordered_terms()]

    def _print_Symbol(self, expr: Expr, style: str = "plain") -> str:  # noqa: ARG002  (sympy calls it so)
        name, order = self._notation.derivative(expr)
        if name in self._notation.multipliers and not name.startswith("Lambda"):
            name = f"Lambda_{name}"
        return latex_name(name, order) + self._notation.argument(expr)

    def _print_Float(self, expr: Expr) -> str:
        return latex_number(float(expr))

    def _print_root(self, expr: Expr, exp: Expr = None) -> str:
        below = rf"\sqrt{{{self._print(expr.args[0])}}}"
        return below if exp is None else rf"\left({below}\right)^{{{exp}}}"

    def _print_wrap(self, expr: Expr, exp: Expr = None) -> str:
        power = "" if exp is None else f"^{{{exp}}}"
        return rf"\operatorname{{{expr.func.__name__}}}{power}\left({self._print(expr.args[0])}\right)"

    _print_sign = _print_wrap

    def _print_choose(self, expr: Expr, exp: Expr = None) -> str:
        margin, a, b = map(self._print, expr.args)
        cases = rf"\begin{{cases}} {a} & {margin} \ge 0 \\ {b} & \text{{else}} \end{{cases}}"
        return cases if exp is None else rf"\left({cases}\right)^{{{exp}}}"


def latex_name(name: str, order: int = 0) -> str:
    r"""`theta1` -> \theta_{1}, `c_w` -> c_{w}, `V_max` -> V_{\mathrm{max}}, `Iky` -> I_{ky}; dots for derivatives."""
    head, *subscripts = name.split("_")
    letters, digits = re.fullmatch(r"(.*?)(\d*)", head).groups()  # type: ignore[union-attr]
    if letters not in _GREEK and re.fullmatch(r"[A-Z][a-z]{1,2}|[a-z]{2}", letters):
        letters, digits = letters[0], letters[1:] + digits
    below = ",".join(part if len(part) <= 2 else _letter(part) for part in (digits, *subscripts) if part)
    subscript = f"_{{{below}}}" if below else ""
    if order >= len(_DOTS):
        return f"{{{_letter(letters)}{subscript}^{{({order})}}}}"
    return (f"{_DOTS[order]}{{{_letter(letters)}}}" if order else _letter(letters)) + subscript


def _letter(word: str) -> str:
    """A Greek letter by its name, any other word upright."""
    if word in _GREEK:
        return rf"\{_VARIANTS.get(word, word)}"
    return word if len(word) <= 1 or word.isdigit() else rf"\mathrm{{{word}}}"


def latex_math(formula: Math) -> str:
    r"""`M_r v' + h_r = B_r tau` -> M_{r} \dot{v} + h_{r} = B_{r} \tau."""
    return "".join(map(_latex_token, _MATH_TOKEN.finditer(formula)))


def _latex_token(token: re.Match[str]) -> str:
    if token["power"]:
        return f"^{{{token['power']}}}"
    if not token["name"]:
        return token[0].replace(">=", r"\ge")
    name = _WORDS_OF_MATH.get(token["name"]) or latex_name(token["name"], len(token["primes"]))
    if token["place"]:
        return f"({name})_{{{token['place']}}}" if "_" in name else f"{name}_{{{token['place']}}}"
    return name


def latex_number(value: float) -> str:
    """A number as LaTeX mathematics, with a power of ten where it is far from 1."""
    digits, _, power = f"{value:.6g}".partition("e")
    return rf"{digits} \cdot 10^{{{int(power)}}}" if power else digits


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
