"""How a machine's expressions are written for a reader: sympy's printers with the names of the model.

In text a rate is `psi'` and a power `^`; in LaTeX a name becomes a letter with subscripts, a rate has dots.
"""

import re
from typing import Any

from sympy.printing.latex import LatexPrinter, greek_letters_set
from sympy.printing.str import StrPrinter

from servonode.controllers.engine.program import Signal
from servonode.controllers.engine.servo import Servo
from servonode.export.blocks import Math
from servonode.mechanics.description import MOST_DERIVATIVES, derivative_name
from servonode.mechanics.equations import Equations

Expr = Any
_CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"  # that do not look like Latin letters
_GREEK = {*greek_letters_set, *_CAPITALS.split()} - {"omicron"}
_VARIANTS = {"epsilon": "varepsilon", "phi": "varphi"}
_DOTS = ("", r"\dot", r"\ddot", r"\dddot")
_MATH_TOKEN = re.compile(r"(?P<name>[A-Za-z]\w*)(?P<primes>'*)(?:\[(?P<place>[\d,]+)\])?|\^(?P<power>-?\w+|\(\w+\))|.")
_WORDS_OF_MATH = {"int": r"\int", "dt": "dt", "KI": "K_I"}


class Notation:
    """The table of symbols: which names are derivatives of which, and which symbols must be told apart."""

    def __init__(self, equations: Equations, servo: Servo | None) -> None:
        model = equations.model
        moving = [*model.coordinates, *model.velocities, *model.inputs]
        if servo is not None:
            moving += [*servo.program.targets, *servo.program.signals]
        self._inputs = {u.name for u in model.inputs}
        self.multipliers = {each.multiplier.name for each in model.constraints}
        self._derivatives = {
            derivative_name(each.name, order): (each.name, order)
            for each in moving
            for order in range(1, MOST_DERIVATIVES + 1)
        }
        parameters = [*model.parameters, *(servo.program.parameters if servo else ())]
        self.names = {each.name for each in (*moving, *parameters)} | {*self._derivatives, *self.multipliers, "t"}

    def derivative(self, symbol: Expr) -> tuple[str, int]:
        """The name of what a symbol is the derivative of, and the order (0: the symbol itself)."""
        return self._derivatives.get(symbol.name, (symbol.name, 0))

    def argument(self, symbol: Expr) -> str:
        """`(t)` for a signal that bears the name of an input, and must be told from it."""
        return "(t)" if isinstance(symbol, Signal) and symbol.name in self._inputs else ""


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

    def _print_root(self, expr: Expr) -> str:
        return f"sqrt({self._print(expr.args[0])})"

    def _print_choose(self, expr: Expr) -> str:
        margin, a, b = map(self._print, expr.args)
        return f"({a} if {margin} >= 0 else {b})"


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
        return token[0]
    name = _WORDS_OF_MATH.get(token["name"]) or latex_name(token["name"], len(token["primes"]))
    if token["place"]:
        return f"({name})_{{{token['place']}}}" if "_" in name else f"{name}_{{{token['place']}}}"
    return name


def latex_number(value: float) -> str:
    """A number as LaTeX mathematics, with a power of ten where it is far from 1."""
    digits, _, power = f"{value:.6g}".partition("e")
    return rf"{digits} \cdot 10^{{{int(power)}}}" if power else digits
