"""How far what takes long has come: a line that is rewritten in a terminal or a notebook, or calls of a function.

`progress_of` says what is done and who is to be told; within it `doing` and `counted` tell of a derivation, and the
numbers of `task` those of many runs. Elsewhere, as in a script whose errors go to a file, nothing is written.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Any, Protocol, TextIO, TypeAlias, TypeVar

from servonode.errors import StatementError

Part = TypeVar("Part", covariant=True)
Progress: TypeAlias = Callable[..., Any] | bool | None  # f(done, of, text); whether there is a line; None: see above
FIRST, PERIOD = 1.0, 0.1  # s, after which the line first stands there, and between changes
LOG_PERIOD = 5.0  # s between the lines of a log
COLUMNS, BAR = 100, 24  # characters of the line, of its bar
UNITS = (("years", 365.25 * 86400), ("days", 86400.0), ("h", 3600.0), ("min", 60.0))


class Parts(Sized, Iterable[Part], Protocol[Part]):
    """What can be counted and gone through."""


def time_text(seconds: float) -> str:
    """A time in the largest unit of which there are at least two: `3.5 h`."""
    for unit, size in UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


class _Line:
    """A line of a stream: rewritten, or in a log repeated."""

    def __init__(self, stream: TextIO, log: bool = False) -> None:
        self._stream, self._log, self._shown = stream, log, ""
        self.period = LOG_PERIOD if log else PERIOD

    def write(self, _done: int, _of: int, _text: str, line: str) -> None:
        line = line[:COLUMNS]
        self._stream.write(f"{line}\n" if self._log else "\r" + line.ljust(len(self._shown)))
        self._stream.flush()
        self._shown = line

    def end(self, kept: str) -> None:
        """Let this text stay in the place of the line."""
        if not self._log:
            self.write(0, 0, "", kept)
            self._stream.write("\n" if kept else "\r")
            self._stream.flush()
        self._shown = ""


class _Display:
    """The same in a notebook."""

    def __init__(self) -> None:
        self._handle: Any = None
        self.period = PERIOD

    def write(self, _done: int, _of: int, _text: str, line: str) -> None:
        from IPython import display as library

        display: Any = library.display
        if self._handle is None:
            self._handle = display({"text/plain": line}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": line}, raw=True)

    def end(self, kept: str) -> None:
        self.write(0, 0, "", kept)


class _Call:
    """A function of the user's, which may leave the text out."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self._arguments, self.period = function, 3, PERIOD
        try:
            inspect.signature(function).bind(0, 0, "")
        except TypeError:
            self._arguments = 2
        except ValueError:  # nobody knows its arguments
            pass

    def write(self, done: int, of: int, text: str, _line: str) -> None:
        if of or self._arguments == 3:  # numbers alone say nothing as long as nobody knows of how many
            self._function(*(done, of, text)[: self._arguments])

    def end(self, kept: str) -> None: ...


class Task:
    """What is being done with `what`, or how many runs of how many are finished; tells it when it is due.

    `noted` stands beside the numbers. Rates are those since the first number: what the start takes says nothing.
    """

    def __init__(self, what: str = "", told: "_Line | _Display | _Call | None" = None, first: float = 0.0) -> None:
        self.what, self.told, self.noted, self.kept = what, told, "", ""
        self.done, self.of = 0, 0
        self._words = self._about = ""
        self._begin = monotonic()
        self._due, self._shown = self._begin + first, False
        self._first: tuple[float, int] | None = None  # when the first ones were finished, and how many
        self._last = (0, 0)

    def plan(self, left: int, words: str = "runs", about: bool = False) -> None:
        """So many are to come from now on; about: as far as one can know."""
        self.of, self._words, self._about = self.done + left, words, "about " if about else ""
        self._tell_numbers()

    def more(self, number: int) -> None:
        """So many are to come beside those that are planned."""
        self.of += number

    def at(self, done: int) -> None:
        """So many are finished."""
        if done == self.done and isinstance(self.told, _Call):
            return
        if done != self.done:
            self.done, self.of = done, max(self.of, done) if self.of else 0
            self._first = self._first or (monotonic(), done)
        self._tell_numbers()

    def resumed(self, done: int) -> None:
        """So many are finished since an earlier time."""
        self.done += done

    def doing(self, word: str, part: str, done: int = 0, of: int = 0) -> None:
        """What is being done."""
        text = f"{word} {self.what}" + (f": {part}" if part else "")
        self._tell(done, of, text, lambda: f"{text} ...")

    def remark(self, text: str) -> None:
        """Tell this at once, as a line that stays."""
        if self.told is not None:
            self.told.write(self.done, self.of, text, text)
            self.told.end(text)

    def close(self, whole: bool) -> None:
        """Tell the last that is to be told; whole: all has been done, however many had been planned."""
        if whole and self.of:
            self.of, self._about, self._words = self.done, "", self._words.partition(",")[0]
            if isinstance(self.told, _Call) and self._last != (self.done, self.of):
                self.told.write(self.done, self.of, self._words, "")
        if self.told is not None and self._shown:
            self.told.end(self.line() if self.of else self.kept)

    def line(self) -> str:
        """The numbers, as a bar with what is left."""
        full = BAR * self.done // max(self.of, 1)
        noted = f", {self.noted}" if self.noted else ""
        numbers = f"{self.done} of {self._about}{self.of} {self._words}"
        return f"[{'#' * full:.<{BAR}}] {numbers}{noted}{self._left()}"

    def _left(self) -> str:
        now = monotonic()
        begin, finished = self._first or (now, self.done)
        if self.done >= self.of:
            return f", in {time_text(now - self._begin)}"
        if self.done == finished or now <= begin:
            return ""
        return f", {time_text(round((now - begin) * (self.of - self.done) / (self.done - finished)))} left"

    def _tell_numbers(self) -> None:
        if self.of:
            self._tell(self.done, self.of, self._words, self.line)

    def _tell(self, done: int, of: int, text: str, line: Callable[[], str]) -> None:
        if self.told is not None and (now := monotonic()) >= self._due:
            self._due, self._shown, self._last = now + self.told.period, True, (done, of)
            self.told.write(done, of, text, line())


_task: ContextVar[Task | None] = ContextVar("_task", default=None)


@contextmanager
def progress_of(what: str, stream: TextIO | None = None, progress: Progress = None) -> Iterator[Task]:
    """Within it `doing`, `counted` and `task` tell how far one has come with `what`.

    progress: a function f(done, of, text), whose text may be left out; of is 0 while it is not known. True for a
    line everywhere, False for none.
    None: who is told already; else a line where `stream`, standard error, is a terminal, or in a notebook.

    Raises:
        StatementError: progress is something else.
    """
    outer = _task.get()
    if progress is None and outer is not None:
        own = Task(what, outer.told, 0.0 if isinstance(outer.told, _Call) else FIRST)
    else:
        own = _beginning(what, stream or sys.stderr, progress)
    token = _task.set(own)
    whole = False
    try:
        yield own
        whole = True
    finally:
        _task.reset(token)
        own.close(whole)


def _beginning(what: str, stream: TextIO, progress: Any) -> Task:
    if callable(progress):
        return Task(what, _Call(progress))
    if not isinstance(progress, bool | None):
        remedy = "give a function f(done, of, text), or True or False"
        raise StatementError(f"progress = {progress!r} is neither True nor False nor a function; {remedy}")
    if progress is False:
        return Task(what)
    first = 0.0 if progress else FIRST
    if _in_notebook():
        return Task(what, _Display(), first)
    if stream is not None and not stream.closed and stream.isatty():
        return Task(what, _Line(stream), first)
    return Task(what, _Line(stream, log=True), LOG_PERIOD) if progress else Task(what)


def _in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this."""
    loaded = sys.modules.get("IPython")
    return loaded is not None and hasattr(loaded.get_ipython(), "kernel")


def task() -> Task:
    """What is being done; one of which nobody is told outside of `progress_of`."""
    return _task.get() or Task()


def doing(word: str, part: str = "") -> None:
    """Say what is being done: `doing("deriving", "mass matrix")`."""
    task().doing(word, part)


def done(text: str) -> None:
    """Say what has been done, if it took long enough for its line to be seen; this stays."""
    task().kept = text


def counted(word: str, what: str, parts: Parts[Part]) -> Iterator[Part]:
    """The parts, each of which is reported when its turn comes: deriving car: row of the mass matrix (3 of 7)."""
    for i, part in enumerate(parts, 1):
        task().doing(word, f"{what} ({i} of {len(parts)})", i - 1, len(parts))
        yield part
