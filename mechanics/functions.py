"""Functions of a machine's or program's expressions that sympy does not have."""

from typing import Any

import sympy

COMPILED = {  # functions in generated code: sympy's name -> the name in the text
    name: name for name in ("acos", "asin", "atan", "atan2", "cos", "cosh", "exp", "log", "sin", "sinh", "tan", "tanh")
} | {"Abs": "fabs", "sign": "sign", "wrap": "wrap", "Min": "min", "Max": "max", "root": "sqrt"}


class wrap(sympy.Function):  # type: ignore[misc]
    """An angle brought to [-pi, pi); its derivative is 1 (the jump at +-pi is not differentiated)."""

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

    def _eval_is_real(self) -> bool:
        return True
