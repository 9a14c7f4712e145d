"""What a long derivation or compilation is doing, as one line that is rewritten on a terminal; elsewhere nothing."""

import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Protocol, TextIO, TypeVar

Part = TypeVar("Part", covariant=True)
FIRST, PERIOD = 1.0, 0.1  # s, after which the line first stands there, and between changes
COLUMNS = 100


class Parts(Sized, Iterable[Part], Protocol[Part]):
    """What can be counted and gone through."""


class _Line:
    def __init__(self, what: str, stream: TextIO) -> None:
        self.what, self.stream = what, stream
        self.shown, self.done = "", ""
        self._due = monotonic() + FIRST

    def say(self, doing: str, part: str) -> None:
        now = monotonic()
        if now < self._due:
            return
        self._due = now + PERIOD
        self._write(f"{doing} {self.what}" + (f": {part} ..." if part else " ..."))

    def close(self) -> None:
        if self.shown:
            self._write(self.done)
            self.stream.write("\n" if self.done else "\r")
            self.stream.flush()

    def _write(self, text: str) -> None:
        self.stream.write("\r" + text[:COLUMNS].ljust(len(self.shown)))
        self.stream.flush()
        self.shown = text[:COLUMNS]


_line: ContextVar[_Line | None] = ContextVar("_line", default=None)


@contextmanager
def progress_of(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """Within it `doing` and `counted` show what is being done with `what`, where standard error is a terminal."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield
        return
    line = _Line(what, stream)
    token = _line.set(line)
    try:
        yield
    finally:
        _line.reset(token)
        line.close()


def doing(word: str, part: str = "") -> None:
    """Say what is being done: `doing("deriving", "mass matrix")`."""
    line = _line.get()
    if line is not None:
        line.say(word, part)


def done(text: str) -> None:
    """Say what has been done, if it took long enough for its line to be seen; this stays."""
    line = _line.get()
    if line is not None:
        line.done = text


def counted(word: str, what: str, parts: Parts[Part]) -> Iterator[Part]:
    """The parts, each of which is reported when its turn comes: deriving car: row of the mass matrix (3 of 7)."""
    for i, part in enumerate(parts, 1):
        doing(word, f"{what} ({i} of {len(parts)})")
        yield part
