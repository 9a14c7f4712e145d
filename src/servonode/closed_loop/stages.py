"""The stages of a resolution, whose results are taken again while all that they depend on is the same."""

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_EQUAL = (float, int, bool, str)  # kinds that are the same where they are equal


class Stage(Protocol):
    """Calls a function of a resolution, which depends on its arguments alone and changes none of them."""

    def __call__(self, function: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R: ...


def computed(function: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R:
    """The result of a stage, of a resolution that is made once."""
    return function(*arguments, **keywords)


class Kept:
    """The newest result of each stage: taken again where its arguments are the same objects, or equal numbers or texts.

    Threads may share it: what one of them has kept is whole, whichever comes last.
    """

    def __init__(self) -> None:
        self._newest: dict[Callable[..., Any], tuple[tuple[Any, ...], Any]] = {}

    def __call__(self, function: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R:
        """The result of a stage; one with keywords is computed anew."""
        newest = self._newest.get(function)
        if newest is not None and not keywords and all(map(_same, newest[0], arguments)):
            kept: R = newest[1]
            return kept
        result = function(*arguments, **keywords)
        if not keywords:
            self._newest[function] = arguments, result
        return result


def _same(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, _EQUAL) and a == b)
