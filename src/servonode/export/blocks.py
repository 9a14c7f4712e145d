"""The parts of a shown document, independent of text or LaTeX: headings, words, tables of symbols, equations."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from servonode.export.escape import escaped

Expr = Any


@dataclass(frozen=True)
class Phrase:
    """The same in both languages; without `latex` it is words, otherwise `latex` is mathematics."""

    text: str
    latex: str = ""


@dataclass(frozen=True)
class Heading:
    """The title of a section; `major` begins the machine and the program."""

    title: str
    major: bool = False


@dataclass(frozen=True)
class Words:
    """A paragraph; `latex` states it with its mathematics in dollars, else the text is escaped."""

    text: str
    latex: str = ""


@dataclass(frozen=True)
class Formula:
    """General statements, each on a line of its own."""

    statements: tuple[Phrase, ...]


@dataclass(frozen=True)
class Entry:
    """A row of a table of symbols."""

    symbol: Phrase | Expr
    meaning: str
    unit: str
    value: Expr | None = None


@dataclass(frozen=True)
class Table:
    """Symbols with meaning and unit; `value` heads the fourth column, empty if there is no such column."""

    title: Phrase
    entries: tuple[Entry, ...]
    value: str = ""


@dataclass(frozen=True)
class Line:
    """`left relation right`; a `tail` continues, as in `(1): x - y > 0`."""

    left: Phrase | Expr
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

    name: Phrase
    entries: Expr
    symmetric: bool = False
    vector: bool = False

    def shown(self) -> list[tuple[int, int]]:
        """The places of the entries that are not 0, of a symmetric matrix those on and below the diagonal."""
        rows, columns = self.entries.shape
        places = ((i, k) for i in range(rows) for k in range(columns) if k <= i or not self.symmetric)
        return [(i, k) for i, k in places if self.entries[i, k] != 0]

    @property
    def is_of_numbers(self) -> bool:
        """Whether all entries are numbers."""
        return all(entry.is_Number for entry in self.entries)

    @property
    def omits_zeros(self) -> bool:
        """Whether there are entries that are 0, which are not shown."""
        rows, columns = self.entries.shape
        return bool(len(self.shown()) < (rows * (rows + 1) // 2 if self.symmetric else rows * columns))


Block = Heading | Words | Formula | Table | Lines | Matrix


def named(name: str) -> Phrase:
    """A name that is not a symbol, such as that of a constraint, for the left side of a Line."""
    return Phrase(name, rf"\text{{{escaped(name)}}}")


def symbol_table(text: str, latex: str, symbols: Iterable[Any], value: str = "") -> Table:
    """A table of symbols that carry their quantity; `value` heads the column of defaults."""
    entries = (
        Entry(each, each.quantity.description, each.quantity.unit, each.quantity.default if value else None)
        for each in symbols
    )
    return Table(Phrase(text, latex), tuple(entries), value)


def abbreviations(definitions: Mapping[Expr, Expr]) -> list[Block]:
    """The definitions of abbreviations, nothing if none exists."""
    if not definitions:
        return []
    return [Words("Abbreviations:"), Lines(tuple(Line(name, value) for name, value in definitions.items()))]
