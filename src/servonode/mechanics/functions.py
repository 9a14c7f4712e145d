"""Functions of a machine's or program's expressions that sympy does not have."""

from typing import Any

import sympy

COMPILED = {  # functions in generated code: sympy's name -> the name in the text
    name: name for name in ("acos", "asin", "atan", "atan2", "cos", "cosh", "exp", "log", "sin", "sinh", "tan", "tanh")
} | {"Abs": "fabs", "sign": "sign", "wrap": "wrap", "Min": "min", "Max": "max", "root": "sqrt"}
TO_STATE = ", ".join(sorted(COMPILED))  # for the texts of errors


class wrap(sympy.Function):  # type: ignore[misc]
    """An angle brought to [-pi, pi); its derivative is 1 (the jump at +-pi is not differentiated).

    >>> from servonode.mechanics import coordinate, wrap
    >>> psi = coordinate("psi", "heading", "rad")
    >>> wrap(psi - 1).diff(psi)
    1
    """

    nargs = 1

    def fdiff(self, argindex: int = 1) -> Any:  # noqa: ARG002  (sympy calls it so)
        return sympy.Integer(1)

    def _eval_is_real(self) -> bool:
        return True


class Max(sympy.Function):  # type: ignore[misc]
    """The larger of two numbers, left as it stands: sympy's own compares its arguments whenever it is rebuilt."""

    nargs = 2

    def _eval_is_real(self) -> bool:
        return True


class root(sympy.Function):  # type: ignore[misc]
    """The square root, left as it stands: sympy's own looks for the sign of all that is below it when it is rebuilt."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> Any:  # noqa: ARG002  (sympy calls it so)
        return 1 / (2 * self)

    def _eval_evalf(self, prec: int) -> Any:  # sympy has another function of this name
        return sympy.sqrt(self.args[0])._eval_evalf(prec)

    def _eval_is_real(self) -> bool:
        return True


class choose(sympy.Function):  # type: ignore[misc]
    """choose(margin, a, b): a where the margin is not negative, else b; differentiated on each side by itself."""

    nargs = 3

    def _eval_derivative(self, symbol: Any) -> Any:
        margin, a, b = self.args
        slopes = a.diff(symbol), b.diff(symbol)
        return choose(margin, *slopes) if any(slopes) else sympy.Integer(0)

    def _eval_is_real(self) -> bool:
        return True
