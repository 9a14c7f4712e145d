"""The text of a sympy expression, in the grammar of `expression.py`: what is read again has the same numbers."""

from typing import Any

import sympy
from sympy.core.function import Application, AppliedUndef
from sympy.printing.str import StrPrinter

from servonode.mechanics.description import derivative_name
from servonode.mechanics.expression import FUNCTIONS, MAX_INTEGER, ExpressionError, shown

_OURS = {"Abs": "abs", "Max": "max", "Min": "min"}  # functions of sympy that have another name here
_INSTEAD = {  # functions that the grammar has not, in those that it has
    "acos": "atan2(sqrt(1 - ({0})**2), {0})",
    "asin": "atan2({0}, sqrt(1 - ({0})**2))",
    "atan": "atan2({0}, 1)",
    "cosh": "((exp({0}) + exp(-({0})))/2)",
    "cot": "(1/tan({0}))",
    "csc": "(1/sin({0}))",
    "sec": "(1/cos({0}))",
    "sinh": "((exp({0}) - exp(-({0})))/2)",
}
LARGEST = 1e300  # of a number
_BASIC = (sympy.Add, sympy.Mul, sympy.Pow, sympy.Rational, sympy.Float)


def text_of(stated: Any) -> str | int | float:
    """A sympy expression as a text, or as the number that it is; an equation is the difference of its sides.

    q(t) is the symbol q, and a derivative of it by t its rate.

    Raises:
        ExpressionError: a part of it has no such text.
    """
    if isinstance(stated, sympy.Eq):
        stated = stated.lhs - stated.rhs
    if not isinstance(stated, sympy.Expr):
        raise ExpressionError(f"{shown(str(stated))} is not an expression; give one of sympy, or a text")
    walk = sympy.preorder_traversal(stated)
    for node in walk:
        is_known = isinstance(node, _BASIC) or node in (sympy.pi, sympy.E)
        if not is_known or (node.is_Float and abs(node) > LARGEST):
            _check(node, stated)
        if isinstance(node, sympy.Derivative | AppliedUndef):
            walk.skip()
    if stated.is_number:
        if stated.is_real is False:
            raise ExpressionError(f"{shown(str(stated))} is not a real number; correct it")
        return int(stated) if stated.is_Integer else float(stated)
    doubles = {each: sympy.Float(each) for each in stated.atoms(sympy.Rational) if _is_double(each)}
    return str(_Printer().doprint(stated.xreplace(doubles)))


def _is_double(number: Any) -> bool:
    """Whether it is a double whose fraction has more digits than an integer may have in a text."""
    return bool(max(abs(number.p), number.q) > MAX_INTEGER and number == sympy.Rational(float(number)))


def _check(node: Any, stated: Any) -> None:
    """Refuse a part that the grammar cannot say."""
    name, problem = type(node).__name__, ""
    if isinstance(node, sympy.Symbol | AppliedUndef | sympy.Derivative):
        if not all(part.isidentifier() for part in _name(node).split(".")):
            problem = "is not a name, nor the rate of one; write the symbols of the machine, and x.rate for a rate"
    elif node.is_Float or node in (sympy.I, sympy.oo, -sympy.oo, sympy.zoo, sympy.nan):
        problem = "is not a real number that can be computed with; correct it"
    elif not (isinstance(node, Application) and _OURS.get(name, name) in (*FUNCTIONS, *_INSTEAD)):
        problem = f"is not part of an expression; use {', '.join(sorted((*FUNCTIONS, *_INSTEAD)))}"
        problem += ", and smooth ones for what switches, such as tanh(x/0.01) for the sign of x"
    if problem:
        inside = f" in {shown(str(stated))}" if node != stated else ""
        raise ExpressionError(f"{shown(str(node))}{inside} {problem}")


def _name(node: Any) -> str:
    """The name of a symbol, of a function of t alone, or of a rate of one; empty of what is none of them."""
    if isinstance(node, sympy.Derivative):
        own, by = _name(node.expr), node.variables
        return derivative_name(own, len(by)) if own and {str(each) for each in by} == {"t"} else ""
    if isinstance(node, AppliedUndef):
        return str(node.func) if [str(each) for each in node.args] == ["t"] else ""
    return str(node.name) if isinstance(node, sympy.Symbol) else ""


class _Printer(StrPrinter):  # type: ignore[misc]
    """Prints the grammar of `expression.py`; its methods have the names that sympy looks for."""

    def _print_Float(self, stated: Any) -> str:
        return repr(float(stated))

    def _print_Exp1(self, _: Any) -> str:
        return "exp(1)"  # E may be a name of the machine

    def _print_Function(self, stated: Any) -> str:
        if name := _name(stated):
            return name
        word, arguments = type(stated).__name__, [self._print(each) for each in stated.args]
        return (
            _INSTEAD[word].format(*arguments)
            if word in _INSTEAD
            else f"{_OURS.get(word, word)}({', '.join(arguments)})"
        )

    _print_Max = _print_Min = _print_Function

    def _print_Derivative(self, stated: Any) -> str:
        return _name(stated)
