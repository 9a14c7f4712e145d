"""What has a name and an expression of its own, and stands for that expression in others."""

from typing import Any

Expr = Any


class Stated:
    """Arithmetic with the expression."""

    expression: Expr

    def _sympy_(self) -> Expr:
        return self.expression

    def __neg__(self) -> Expr:
        return -self.expression

    def __add__(self, other: Expr) -> Expr:
        return self.expression + other

    def __radd__(self, other: Expr) -> Expr:
        return other + self.expression

    def __sub__(self, other: Expr) -> Expr:
        return self.expression - other

    def __rsub__(self, other: Expr) -> Expr:
        return other - self.expression

    def __mul__(self, other: Expr) -> Expr:
        return self.expression * other

    def __rmul__(self, other: Expr) -> Expr:
        return other * self.expression

    def __truediv__(self, other: Expr) -> Expr:
        return self.expression / other

    def __rtruediv__(self, other: Expr) -> Expr:
        return other / self.expression

    def __pow__(self, other: Expr) -> Expr:
        return self.expression**other
