"""The base of all errors whose text is for a user. Imports nothing of the package, so that every room may have it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

LONGEST = 80  # characters of a value that an error shows


class ServonodeError(Exception):
    """One line for a user: what is wrong, where, how to fix it.

    `exit_code`: what a command that it ends gives; 2 for bad usage or input, 1 for a fault during a run or a request.
    """

    exit_code = 2


class StatementError(ServonodeError, ValueError):
    """Something that a user has stated cannot be.

    `section` and `key`: where a launch file states it, as far as whoever refuses it knows.
    """

    section: str | None = None
    key: str | None = None


class ModelError(StatementError):
    """A machine or program that cannot be derived; the text names the object and the remedy.

    `place` is where in the user's source it is given (a definitions.source_location.Place), None where unknown; of a
    KeyPlace its section and key are the error's.
    """

    def __init__(self, text: str, place: Any = None) -> None:
        super().__init__(text, place)
        if told := getattr(place, "told", None):
            self.section, self.key, text = place.file, place.key, told(text)
        self.text, self.place = text, place

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place and not self.section else self.text


class CallError(ServonodeError, TypeError):
    """A function of servonode was called with arguments that it does not have, or without those that it needs."""


def installing(extra: str) -> str:
    """How an extra of servonode is installed: by pip, and by uv in a clone."""
    return f'pip install "servonode[{extra}]" (in a clone: uv sync --extra {extra})'


class NotInstalled(ServonodeError, ImportError):
    """A library that is needed for what was asked is not installed; the text says how to install it."""


@contextmanager
def about(key: str) -> Iterator[None]:
    """What is refused within is about this key, where it does not say so itself."""
    try:
        yield
    except StatementError as error:
        error.key = error.key or key
        raise


def nearest(name: str, valid: Iterable[str], most: int = 1) -> list[str]:
    """The valid names that are near to this one, at most so many, the nearest first."""
    from difflib import get_close_matches  # not for the operator's verbs, which must be quick

    return get_close_matches(name, list(valid), most)


def listed(names: Sequence[str]) -> str:
    """The names as a sentence has them: `a, b or c`."""
    *others, last = names
    return f"{', '.join(others)}{' or ' if others else ''}{last}"


def did_you_mean(name: str, valid: Iterable[str], most: int = 1) -> str:
    """`did you mean a, b or c? ` with the nearest valid names, at most so many; empty where none is near."""
    found = nearest(name, valid, most)
    return f"did you mean {listed(found)}? " if found else ""


def unshown(text: str) -> str:
    """What is wrong with a text that is not one line of characters that every terminal shows; empty of others."""
    return "" if text.isprintable() else f"{short(text)} has characters that are not printed; write one plain line"


def short(value: Any) -> str:
    """A value as an error shows it, cut."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def number(word: str, value: Any) -> float:
    """The value as a float. StatementError where it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise StatementError(f"{word} = {value!r} is not a number; give one, in SI units and radians") from None


def end_of_range(where: str, value: Any) -> float:
    """An end of a range LOW:HIGH as a float. StatementError where it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise StatementError(f"{where}: {value!r} is not a number; give LOW:HIGH in SI units and radians") from None


def check_choice(name: str, word: Any, choices: Sequence[str]) -> None:
    """StatementError unless the word is one of the choices."""
    if word not in choices:
        near = did_you_mean(str(word), choices)
        raise StatementError(f"{name}={word!r} is unknown; {near}choose {listed(choices)}")


def check_mapping(word: str, given: Any, name: str = "NAME", value: str = "1.0") -> None:
    """StatementError unless it holds values by name."""
    if not isinstance(given, Mapping):
        raise StatementError(f"{word}={given!r} is not a mapping; give values by name: {word}={{{name!r}: {value}}}")
    wrong = [key for key in given if not isinstance(key, str)]
    if wrong:
        raise StatementError(f"{word}: {wrong[0]!r} is not a name; give names as texts, such as {name!r}")
