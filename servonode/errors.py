"""The base of all errors whose text is for a user. Imports nothing of the package, so that every room may have it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


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


@contextmanager
def about(key: str) -> Iterator[None]:
    """What is refused within is about this key, where it does not say so itself."""
    try:
        yield
    except StatementError as error:
        error.key = error.key or key
        raise


def did_you_mean(name: str, valid: Iterable[str], most: int = 1) -> str:
    """`did you mean a, b or c? ` with the nearest valid names, at most so many; empty where none is near."""
    from difflib import get_close_matches  # not for the operator's verbs, which must be quick

    *others, last = get_close_matches(name, list(valid), most) or [""]
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}? " if last else ""
