"""The parts of a shown document, independent of text or LaTeX: headings, words, tables of symbols, equations, names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from servonode.controllers.engine.program import Signal
from servonode.controllers.engine.servo import Servo
from servonode.mechanics.description import MOST_DERIVATIVES, derivative_name
from servonode.mechanics.equations import Equations

Expr = Any


class Math(str):
    """A formula as the text shows it, `M_r v' + h_r = B_r tau`; a name is a symbol, a prime a time derivative."""

    __slots__ = ()


@dataclass(frozen=True)
class Heading:
    """The title of a section; `major` begins the machine and the program."""

    title: str
    major: bool = False


@dataclass(frozen=True)
class Words:
    """A paragraph, or the title of a table; some of its parts may be formulas."""

    parts: tuple[str, ...]

    def __init__(self, *parts: str) -> None:
        object.__setattr__(self, "parts", parts)


@dataclass(frozen=True)
class Formula:
    """General statements, each on a line of its own."""

    statements: tuple[Math, ...]

    def __init__(self, *statements: str) -> None:
        object.__setattr__(self, "statements", tuple(map(Math, statements)))


@dataclass(frozen=True)
class Entry:
    """A row of a table of symbols; a symbol is an expression, a formula or a name in words."""

    symbol: str | Expr
    meaning: str
    unit: str
    value: Expr | None = None


@dataclass(frozen=True)
class Table:
    """Symbols with meaning and unit; `value` heads the fourth column, empty if there is no such column."""

    title: Words
    entries: tuple[Entry, ...]
    value: str = ""


@dataclass(frozen=True)
class Line:
    """`left relation right`; a `tail` continues, as in `(1): x - y > 0`."""

    left: str | Expr
    right: Expr
    relation: str = "="
    tail: tuple[str, Expr] | None = None


@dataclass(frozen=True)
class Lines:
    """Equations below each other."""

    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Matrix:
    """A named matrix; of a `symmetric` one the lower triangle is shown; a `vector` has one index."""

    name: str
    entries: Expr
    symmetric: bool = False
    vector: bool = False

    def shown(self) -> list[tuple[int, int]]:
        """The places of the entries that are not 0, of a symmetric matrix those on and below the diagonal."""
        return [place for place in self._places() if self.entries[place] != 0]

    @property
    def is_of_numbers(self) -> bool:
        """Whether all entries are numbers."""
        return all(entry.is_Number for entry in self.entries)

    @property
    def omits_zeros(self) -> bool:
        """Whether there are entries that are 0, which are not shown."""
        return len(self.shown()) < len(self._places())

    def lines(self) -> tuple[Line, ...]:
        """One equation for each shown entry."""
        return tuple(
            Line(Math(f"{self.name}[{i + 1}]" if self.vector else f"{self.name}[{i + 1},{k + 1}]"), self.entries[i, k])
            for i, k in self.shown()
        )

    def _places(self) -> list[tuple[int, int]]:
        rows, columns = self.entries.shape
        return [(i, k) for i in range(rows) for k in range(columns) if k <= i or not self.symmetric]


Block = Heading | Words | Formula | Table | Lines | Matrix


def symbol_table(title: Words, symbols: Iterable[Any], value: str = "") -> list[Block]:
    """A table of symbols that carry their quantity, nothing without symbols; `value` heads the column of defaults."""
    entries = tuple(
        Entry(each, each.quantity.description, each.quantity.unit, each.quantity.default if value else None)
        for each in symbols
    )
    return [Table(title, entries, value)] if entries else []


def stated(lines: Iterable[Line], opening: str = "") -> list[Block]:
    """The lines after `opening`; nothing without them."""
    block = Lines(tuple(lines))
    return [*([Words(opening)] if opening else []), block] if block.lines else []


def equations(definitions: Mapping[Any, Expr] | Iterable[tuple[Any, Expr]], opening: str = "") -> list[Block]:
    """An equation for each name and its value, after `opening`; nothing without them."""
    return stated((Line(name, value) for name, value in dict(definitions).items()), opening)


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
