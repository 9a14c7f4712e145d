"""What users state with expressions: it can be changed in all of them, and may stand for its own in others."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import sympy

Expr = Any
Change = Callable[[Expr], Expr]


@dataclass(frozen=True)
class Stated:
    """What consists of expressions, names and such."""

    def mapped(self, change: Change) -> Self:
        """The same with its expressions changed."""
        return replace(self, **{each.name: mapped(getattr(self, each.name), change) for each in fields(self)})

    @property
    def free_symbols(self) -> set[Expr]:
        """The symbols of all its expressions."""
        found = list[Expr]()
        self.mapped(lambda each: found.append(each) or each)  # type: ignore[func-returns-value]
        return set().union(*(each.free_symbols for each in found))


def mapped(stated: Any, change: Change) -> Any:
    """The same with its expressions changed, numbers too; in what is stated, tuples, matrices, values of mappings."""
    if hasattr(stated, "mapped"):
        return stated.mapped(change)
    if isinstance(stated, tuple):
        return tuple(mapped(each, change) for each in stated)
    if isinstance(stated, Mapping):
        return {key: mapped(each, change) for key, each in stated.items()}
    if isinstance(stated, sympy.MatrixBase):
        return stated.applyfunc(change)
    is_expression = isinstance(stated, sympy.Basic | int | float) and not isinstance(stated, bool)
    return change(sympy.sympify(stated)) if is_expression else stated


def _both(operation: Callable[[Expr, Expr], Expr]) -> tuple[Any, Any]:
    """The methods of an operation with the expression before the other operand, and behind it."""
    return lambda own, other: operation(own.expression, other), lambda own, other: operation(other, own.expression)


class Expressed(Stated):
    """What has an expression of its own, for which it stands in others."""

    expression: Expr

    def _sympy_(self) -> Expr:
        return self.expression

    def __neg__(self) -> Expr:
        return -self.expression

    __add__, __radd__ = _both(operator.add)
    __sub__, __rsub__ = _both(operator.sub)
    __mul__, __rmul__ = _both(operator.mul)
    __truediv__, __rtruediv__ = _both(operator.truediv)
    __pow__, _ = _both(operator.pow)
