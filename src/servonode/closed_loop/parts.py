"""The parts of a resolved launch file: one with other numbers takes those again that these numbers do not touch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_EQUAL = (float, int, bool, str)  # kinds that are the same where they are equal


class Parts:
    """The newest result of each part: taken again where its arguments are the same objects, or equal numbers or texts.

    Threads may share it: what one of them has kept is whole, whichever comes last.
    """

    def __init__(self) -> None:
        self._newest: dict[Callable[..., Any], tuple[tuple[Any, ...], Any]] = {}

    def of(self, function: Callable[..., R], *arguments: Any) -> R:
        """The result of a function, which depends on its arguments alone and changes none of them."""
        newest = self._newest.get(function)
        if newest is not None and all(map(_same, newest[0], arguments)):
            kept: R = newest[1]
            return kept
        result = function(*arguments)
        self._newest[function] = arguments, result
        return result

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Within, each `part` is taken again where it can be."""
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)


_current: ContextVar[Parts | None] = ContextVar("parts", default=None)


def part(function: Callable[P, R]) -> Callable[P, R]:
    """A function of the resolution that makes one part of it, see `Parts.of`."""

    @wraps(function)
    def made(*arguments: P.args, **keywords: P.kwargs) -> R:
        parts = _current.get()
        return function(*arguments, **keywords) if parts is None or keywords else parts.of(function, *arguments)

    return made


def is_variation() -> bool:
    """Whether a launch file is resolved with other numbers, for one of many runs."""
    return _current.get() is not None


def _same(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, _EQUAL) and a == b)
