"""How a machine's expressions are written for a reader: order of terms and factors, names, as text and as LaTeX.

A product is written as on paper: numbers, constants in the model's order, moving quantities, functions, rates last;
a sum begins with its constants and, where there is one, with a positive term. In text a rate is `psi'`, a power `^`.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import sympy
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from servonode.controllers.engine.program import Signal
from servonode.controllers.engine.servo import Servo
from servonode.mechanics.description import MOST_DERIVATIVES, derivative_name
from servonode.mechanics.equations import Equations

Expr = Any
Rank = tuple[Any, ...]
_NUMBER, _CONSTANT, _CONSTANT_SUM, _MOVING, _MOVING_SUM, _FUNCTION, _RATE = range(7)
_SMALL = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi"
_GREEK = {*_SMALL.split(" "), "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi"}
_GREEK |= {"Psi", "Omega"}
_VARIANT = {"epsilon": "varepsilon", "phi": "varphi"}
_DOTS = ("", r"\dot", r"\ddot", r"\dddot")
_COMMAND = {"atan": r"\arctan", "exp": r"\exp", "log": r"\ln"}
_ANGLE = {"sin": r"\sin", "cos": r"\cos", "tan": r"\tan"}


class Notation:
    """What the printers must know of a machine and its program: ranks of symbols, which names are derivatives."""

    def __init__(self, equations: Equations, servo: Servo | None) -> None:
        model = equations.model
        constants, moving = list(model.parameters), [*model.coordinates, *model.velocities, *model.inputs]
        signals: list[Any] = []
        if servo is not None:
            constants += servo.program.parameters
            signals = [*servo.program.targets, *servo.program.signals]
        moving += [each for each in signals if each.name not in {symbol.name for symbol in moving}]
        self.constants = set(constants)
        self.inputs = {u.name for u in model.inputs}
        self.multipliers = {each.multiplier.name for each in model.constraints}
        self._rank: dict[str, Rank] = {symbol.name: (_CONSTANT, i) for i, symbol in enumerate(constants)}
        self._rank |= {symbol.name: (_MOVING, i) for i, symbol in enumerate(moving)}
        self._found: dict[tuple[str, Expr], Rank] = {}
        self.derivatives: dict[str, tuple[str, int]] = {}
        for i, symbol in enumerate(moving):
            for order in range(1, MOST_DERIVATIVES + 1):
                name = derivative_name(symbol.name, order)
                self.derivatives[name] = symbol.name, order
                self._rank[name] = (_RATE, i, order)

    @property
    def names(self) -> set[str]:
        """All names in use, derivatives included."""
        return set(self._rank) | self.multipliers | {"t"}

    def derivative(self, symbol: Expr) -> tuple[str, int]:
        """The name of what a symbol is the derivative of, and the order (0: the symbol itself)."""
        return self.derivatives.get(symbol.name, (symbol.name, 0))

    def is_function_of_time(self, symbol: Expr) -> bool:
        """Whether a symbol is a signal that bears the name of an input, and must be told from it."""
        return isinstance(symbol, Signal) and symbol.name in self.inputs

    def factors(self, product: Expr) -> tuple[Expr, list[Expr], list[Expr]]:
        """A rational number, the factors above the fraction line and those below it, each in a writer's order."""
        number, rest = product.as_coeff_Mul()
        above, below = [], []
        if not number.is_Rational:
            number, above = sympy.sign(number), [abs(number)]
        for factor in sympy.Mul.make_args(rest):
            base, exponent = factor.as_base_exp()
            if exponent.is_Rational and exponent < 0:
                below.append(base**-exponent)
            elif factor != 1:
                above.append(factor)
        by_rank = partial(self._known, self._factor_rank)
        return number, sorted(above, key=by_rank), sorted(below, key=by_rank)

    def terms(self, expression: Expr) -> list[Expr]:
        """The terms of a sum in a writer's order; anything else is its own only term."""
        terms = sorted(sympy.Add.make_args(expression), key=partial(self._known, self._term_rank))
        first = next((i for i, term in enumerate(terms) if not is_negative(term)), 0)
        return [terms[first], *terms[:first], *terms[first + 1 :]]

    def _known(self, rank: Callable[[Expr], Rank], expression: Expr) -> Rank:
        """A rank, found once: it takes the text of the expression."""
        key = rank.__name__, expression
        if key not in self._found:
            self._found[key] = rank(expression)
        return self._found[key]

    def _factor_rank(self, factor: Expr) -> Rank:
        base = factor.as_base_exp()[0]
        if base.is_Number:
            return (_NUMBER,)
        if base.is_Symbol:
            return self._rank.get(base.name, (_MOVING, len(self._rank), len(base.name), base.name))
        if base.free_symbols <= self.constants:
            return (_CONSTANT_SUM, str(base))
        if base.is_Function:
            return (_FUNCTION, str(base.args), base.func.__name__ != "sin", str(base))
        return (_MOVING_SUM, str(base))

    def _term_rank(self, term: Expr) -> Rank:
        """Constants by their length; what moves by its last factors, so that one rate's terms stand together."""
        _, above, below = self.factors(term)
        ranks = sorted(self._known(self._factor_rank, factor) for factor in (*above, *below))
        highest = ranks[-1][0] if ranks else _NUMBER
        length = len(ranks) if highest <= _CONSTANT_SUM else 0
        return (highest, length, [rank for rank in ranks if rank[0] == highest], len(ranks), ranks, str(term))


def is_negative(term: Expr) -> bool:
    """Whether a term is written with a minus."""
    return bool(term.as_coeff_Mul()[0] < 0)


class _Sums:
    """What both printers do alike: sums in the notation's order. Stands before sympy's printer in the bases."""

    _print: Any  # of sympy's printer
    _after_minus: Callable[[Expr], str]  # of each

    def __init__(self, notation: Notation) -> None:
        super().__init__()
        self._notation = notation

    def _print_Add(self, expr: Expr, order: Any = None) -> str:  # noqa: ARG002  (sympy calls it so)
        return joined(self.terms(expr))

    def terms(self, expression: Expr) -> list[tuple[str, str]]:
        """Sign and text of each term of a sum."""
        return [
            ("-", self._after_minus(-term)) if is_negative(term) else ("+", self._print(term))
            for term in self._notation.terms(expression)
        ]


class TextPrinter(_Sums, StrPrinter):  # type: ignore[misc]
    """Expressions as one line of text: `m1*d1*psi'^2*sin(phi)`."""

    def _print_Symbol(self, expr: Expr) -> str:
        name, order = self._notation.derivative(expr)
        return name + "'" * order + ("(t)" if self._notation.is_function_of_time(expr) else "")

    def _print_Mul(self, expr: Expr) -> str:
        number, above, below = self._notation.factors(expr)
        if number < 0:
            return f"-{self._after_minus(-expr)}"
        over = [str(number.p)] * (number.p != 1 or not above) + [self._within(each) for each in above]
        under = [str(number.q)] * (number.q != 1) + [self._within(each) for each in below]
        quotient = f"/{under[0]}" if len(under) == 1 else f"/({'*'.join(under)})" if under else ""
        return "*".join(over) + quotient

    def _print_Pow(self, expr: Expr, rational: bool = False) -> str:  # noqa: ARG002  (sympy calls it so)
        base, exponent = expr.as_base_exp()
        if exponent == sympy.Rational(1, 2):
            return f"sqrt({self._print(base)})"
        if exponent.is_Rational and exponent < 0:
            return f"1/{self._within(base**-exponent)}"
        above = self._print(exponent) if exponent.is_Integer or exponent.is_Symbol else f"({self._print(exponent)})"
        return f"{self._within(base) if not base.is_Pow else f'({self._print(base)})'}^{above}"

    def _print_root(self, expr: Expr) -> str:
        return f"sqrt({self._print(expr.args[0])})"

    def _print_choose(self, expr: Expr) -> str:
        margin, a, b = map(self._print, expr.args)
        return f"({a} if {margin} >= 0 else {b})"

    def _print_Float(self, expr: Expr) -> str:
        return f"{float(expr):g}"

    def _after_minus(self, term: Expr) -> str:
        return f"({self._print(term)})" if term.is_Add else str(self._print(term))

    def _within(self, factor: Expr) -> str:
        """A factor, in parentheses where it is a sum, a product or a number with a sign or a quotient."""
        text: str = self._print(factor)
        bare = (
            factor.is_Function
            or factor.is_Pow
            or factor.is_Symbol
            or (factor.is_Atom and re.fullmatch(r"[\w.]+", text))
        )
        return text if bare else f"({text})"


class MathPrinter(_Sums, LatexPrinter):  # type: ignore[misc]
    """Expressions as LaTeX mathematics of amsmath."""

    def _print_Symbol(self, expr: Expr, style: str = "plain") -> str:  # noqa: ARG002  (sympy calls it so)
        name, order = self._notation.derivative(expr)
        if name in self._notation.multipliers and not name.startswith("Lambda"):
            name = f"Lambda_{name}"
        return latex_name(name, order) + ("(t)" if self._notation.is_function_of_time(expr) else "")

    def _print_Mul(self, expr: Expr) -> str:
        number, above, below = self._notation.factors(expr)
        if number < 0:
            return f"-{self._after_minus(-expr)}"
        if not below and number.q != 1:  # 1/2 m v^2, as on paper
            return self._product(above, rf"\frac{{{number.p}}}{{{number.q}}}")
        over = self._product(above, str(number.p) if number.p != 1 or not above else "")
        under = self._product(below, str(number.q) if number.q != 1 else "")
        return rf"\frac{{{over}}}{{{under}}}" if under else over

    def _product(self, factors: list[Expr], number: str = "") -> str:
        if len(factors) == 1 and not number:
            return str(self._print(factors[0]))  # alone above or below a line, a sum needs no parentheses
        texts = [number] if number else []
        for i, factor in enumerate(factors):
            after_function = i > 0 and factors[i - 1].as_base_exp()[0].is_Function
            texts.append((r"\, " if after_function and not factor.is_Function else "") + self._within(factor))
        return " ".join(texts)

    def _print_Pow(self, expr: Expr) -> str:
        base, exponent = expr.as_base_exp()
        if exponent == sympy.Rational(1, 2):
            return rf"\sqrt{{{self._print(base)}}}"
        if exponent.is_Rational and exponent < 0:
            return rf"\frac{{1}}{{{self._print(base**-exponent)}}}"
        above = f"^{{{exponent.p}/{exponent.q}}}" if _is_fraction(exponent) else f"^{{{self._print(exponent)}}}"
        if base.func.__name__ in _ANGLE:
            return self._angle_function(base, above)
        return f"{self._within(base) if not base.is_Pow else self._parenthesised(base)}{above}"

    def _print_root(self, expr: Expr) -> str:
        return rf"\sqrt{{{self._print(expr.args[0])}}}"

    def _print_choose(self, expr: Expr) -> str:
        margin, a, b = map(self._print, expr.args)
        return rf"\begin{{cases}} {a} & {margin} \ge 0 \\ {b} & \text{{else}} \end{{cases}}"

    def _print_Function(self, expr: Expr, exp: Any = None) -> str:  # noqa: ARG002  (sympy calls it so)
        name = expr.func.__name__
        if name in _ANGLE:
            return self._angle_function(expr, "")
        arguments = ", ".join(self._print(argument) for argument in expr.args)
        command = _COMMAND.get(name, rf"\operatorname{{{name}}}")
        return command + in_parentheses(arguments)

    # sympy asks for these before it asks for _print_Function
    _print_ExpBase = _print_log = _print_Function

    def _angle_function(self, function: Expr, power: str) -> str:
        """sin, cos, tan as on paper: no parentheses around a single letter."""
        (argument,) = function.args
        text = self._print(argument)
        return f"{_ANGLE[function.func.__name__]}{power}" + (f" {text}" if argument.is_Symbol else in_parentheses(text))

    def _print_Float(self, expr: Expr) -> str:
        return latex_number(float(expr))

    def _after_minus(self, term: Expr) -> str:
        return self._parenthesised(term) if term.is_Add else str(self._print(term))

    def _parenthesised(self, factor: Expr) -> str:
        return in_parentheses(self._print(factor))

    def _within(self, factor: Expr) -> str:
        """A factor, in parentheses where it is a sum or a product."""
        return self._parenthesised(factor) if factor.is_Add or factor.is_Mul else str(self._print(factor))


def joined(terms: list[tuple[str, str]]) -> str:
    """A sum from signs and terms, on one line."""
    (sign, first), *rest = terms
    return ("-" if sign == "-" else "") + first + "".join(f" {sign} {term}" for sign, term in rest)


def in_parentheses(latex: str) -> str:
    """In parentheses that grow with what is tall, and are plain otherwise."""
    return rf"\left({latex}\right)" if r"\frac" in latex or r"\sqrt" in latex else f"({latex})"


def latex_name(name: str, order: int = 0) -> str:
    r"""`theta1` -> \theta_{1}, `c_w` -> c_{w}, `V_max` -> V_{\mathrm{max}}, `Iky` -> I_{ky}; dots for derivatives."""
    head, *subscripts = name.split("_")
    letters, digits = re.fullmatch(r"(.*?)(\d*)", head).groups()  # type: ignore[union-attr]
    if letters not in _GREEK and re.fullmatch(r"[A-Z][a-z]{1,2}|[a-z]{2}", letters):
        letters, digits = letters[0], letters[1:] + digits
    parts = [part for part in (digits, *subscripts) if part]
    base = rf"\{_VARIANT.get(letters, letters)}" if letters in _GREEK else _word(letters)
    below = "_{" + ",".join(_subscript(part) for part in parts) + "}" if parts else ""
    if order >= len(_DOTS):
        return f"{{{base}{below}^{{({order})}}}}"
    return (f"{_DOTS[order]}{{{base}}}" if order else base) + below


def _subscript(part: str) -> str:
    if part in _GREEK:
        return rf"\{_VARIANT.get(part, part)}"
    return part if len(part) <= 2 or part.isdigit() else _word(part)


def _word(letters: str) -> str:
    return letters if len(letters) == 1 else rf"\mathrm{{{letters}}}"


def latex_number(value: float) -> str:
    """A number as LaTeX mathematics, with a power of ten where it is far from 1."""
    digits, _, power = f"{value:.6g}".partition("e")
    return rf"{digits} \cdot 10^{{{int(power)}}}" if power else digits


def _is_fraction(exponent: Expr) -> bool:
    return bool(exponent.is_Rational and not exponent.is_Integer)
