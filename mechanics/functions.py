"""Functions of a machine's or program's expressions that sympy does not have."""

from typing import Any

import sympy


class wrap(sympy.Function):  # type: ignore[misc]
    """An angle brought to [-pi, pi); its derivative is 1 (the jump at +-pi is not differentiated)."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> Any:  # noqa: ARG002  (sympy calls it so)
        return sympy.Integer(1)

    def _eval_is_real(self) -> bool:
        return True
