"""A measure that a user states: an expression of numbers that are taken of a run's columns."""

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.errors import StatementError
from servonode.kernels.syntax import syntax_tree
from servonode.mechanics.expression import MAX_LENGTH, OPERATIONS, Apply, ExpressionError, Node, Symbol, parse
from servonode.sweeps.columns import Columns, known_rows


def _integral(values: Array, t: Array) -> float:
    return float(np.trapezoid(values, t))


def _mean(values: Array, t: Array) -> float:
    span = float(t[-1] - t[0])
    return _integral(values, t) / span if span > 0.0 else float(values[-1])


TAKEN: Mapping[str, Callable[[Array, Array], float]] = {
    "max": lambda values, _: float(np.max(values)),
    "min": lambda values, _: float(np.min(values)),
    "final": lambda values, _: float(values[-1]),
    "mean": _mean,
    "integral": _integral,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("cos", "exp", "sin", "sqrt", "tan", "tanh")},
    "abs": np.abs,
    "atan2": np.arctan2,
    "max": lambda *terms: reduce(np.maximum, terms),
    "min": lambda *terms: reduce(np.minimum, terms),
    "wrap": lambda angle: angle - 2 * np.pi * np.floor((angle + np.pi) / (2 * np.pi)),
}


class StatedMeasure:
    """A number of a run, such as "max(abs(phi)) + 0.1*integral(U1**2)".

    max(), min(), final(), mean() over time and integral() over time (by the trapezoidal rule) of one argument take a
    number of an expression of columns, row by row; around them stand arithmetic and the functions of launch files.
    """

    def __init__(self, name: str, text: str, columns: Collection[str]) -> None:
        """Raises StatementError: the text is no such expression, or a column is unknown."""
        self.name, self.text = name, text
        self._taken: list[tuple[str, Node, tuple[str, ...]]] = []
        self._columns = tuple(columns)
        try:
            if len(text) > MAX_LENGTH:
                raise ExpressionError(f"it has more than {MAX_LENGTH} characters; use fewer")
            self._tree = self._outer(text)
        except ExpressionError as error:
            raise StatementError(f"measure {name}: {error}") from error

    def of(self, t: Array, columns: Columns) -> float:
        """The number of a run with these columns, whose rows are at times t [s]."""
        with np.errstate(all="ignore"):
            taken = {f"taken_{i}": np.float64(_number(*each, t, columns)) for i, each in enumerate(self._taken)}
            return float(_value(self._tree, taken))

    def _outer(self, text: str) -> Node:
        """The expression of the numbers that are taken."""
        try:
            syntax = syntax_tree(text.strip(), mode="eval")
            self._check_own_names(syntax)
            outer = ast.unparse(_Taking(self._take).visit(syntax))
        except ExpressionError:
            raise
        except (SyntaxError, RecursionError, MemoryError, ValueError):
            outer = text  # which is refused with its place
        self._check_names(outer)
        return parse(outer, [f"taken_{i}" for i in range(len(self._taken))]).tree

    def _check_own_names(self, syntax: ast.AST) -> None:
        """Refuse the names that numbers are given here."""
        for each in ast.walk(syntax):
            if isinstance(each, ast.Name) and each.id.startswith("taken_"):
                parse(each.id, self._columns)

    def _check_names(self, outer: str) -> None:
        """Refuse columns, and unknown names, outside of what takes a number of them."""
        try:
            names = [each.id for each in ast.walk(syntax_tree(outer, mode="eval")) if isinstance(each, ast.Name)]
        except (SyntaxError, RecursionError, MemoryError, ValueError):
            return
        for name in names:
            if name in _FUNCTIONS or name == "pi" or name.startswith("taken_"):
                continue
            parse(name, self._columns)  # refused where it is unknown
            uses = ", ".join(f"{how}({name})" for how in TAKEN)
            raise ExpressionError(f"{name} is a column with a value at each row; say which number of it: {uses}")

    def _take(self, how: str, inner: str) -> str:
        """The name of a number that is taken of the columns."""
        expression = parse(inner, self._columns)
        self._taken.append((how, expression.tree, tuple(sorted(expression.names))))
        return f"taken_{len(self._taken) - 1}"


@dataclass(frozen=True)
class ColumnMeasure:
    """A number that is taken of one column, whose values (n,) at times t (n,) [s] are changed before."""

    how: str  # of TAKEN
    column: str
    change: Callable[[Array, Array], Array]

    def of(self, t: Array, columns: Columns) -> float:
        (values,), times = known_rows([columns(self.column)], t)
        return TAKEN[self.how](self.change(values, times), times)


def _number(how: str, tree: Node, names: Sequence[str], t: Array, columns: Columns) -> float:
    """The number that is taken of an expression of columns."""
    known, times = known_rows([columns(name) for name in names], t)
    values = _value(tree, dict(zip(names, known, strict=True)))
    return TAKEN[how](np.broadcast_to(values, times.shape), times)


class _Taking(ast.NodeTransformer):
    """Replaces max(...) and the like, with one argument, by names."""

    def __init__(self, take: Callable[[str, str], str]) -> None:
        self._take = take

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in TAKEN and len(node.args) == 1 and not node.keywords:
            return ast.Name(self._take(node.func.id, ast.unparse(node.args[0])))
        return self.generic_visit(node)


def _value(node: Node, values: Mapping[str, Any]) -> Any:
    """The value of a tree where its names have these values."""
    if isinstance(node, Symbol):
        return values[node.name]
    if not isinstance(node, Apply):
        return float(node.value)
    if node.value is not None:
        return node.value
    function = OPERATIONS.get(node.function) or _FUNCTIONS.get(node.function)
    if function is None:  # pi
        return np.pi
    return function(*(_value(each, values) for each in node.arguments))
