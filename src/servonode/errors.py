"""The base of all errors whose text is for a user. Imports nothing of the package, so that every room may have it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

P = ParamSpec("P")
R = TypeVar("R")
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

    `place` is where in the user's source it is given (a definitions.source_location.Place), None where unknown.
    """

    def __init__(self, text: str, place: object = None) -> None:
        super().__init__(text, place)
        self.text, self.place = text, place

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


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


def did_you_mean(name: str, valid: Iterable[str], most: int = 1) -> str:
    """`did you mean a, b or c? ` with the nearest valid names, at most so many; empty where none is near."""
    from difflib import get_close_matches  # not for the operator's verbs, which must be quick

    *others, last = get_close_matches(name, list(valid), most) or [""]
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}? " if last else ""


def plain(function: Callable[P, R], name: str = "", kinds: bool = False) -> Callable[P, R]:
    """The function, such that a user's mistake is one error: its traceback ends in the user's line and this one.

    A ServonodeError says all in its text, so neither the lines within servonode nor the errors that led to it are
    shown. A call with wrong arguments is a CallError, which names the nearest valid ones. kinds: what is not of the
    kind that its annotation states is refused before the function is entered; without, only once that has failed.
    """
    called = name or function.__name__

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        found: ServonodeError
        try:
            if kinds and (text := misfit(function, called, arguments, keywords)):
                raise CallError(text)
            return function(*arguments, **keywords)
        except ServonodeError as error:
            found = error
        except (TypeError, AttributeError, ValueError):
            text = misfit(function, called, arguments, keywords, every=True)
            if not text:
                raise  # not about the arguments
            found = CallError(text)
        # What is wrong, where, and how to fix it is said by the error itself, below.
        # The line that led to it is the one above.
        raise found.with_traceback(None) from None

    return call


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """As `plain`, of a function that states something: arguments of a wrong kind are refused before it is entered."""
    return plain(function, kinds=True)


def plain_class(made: type[R]) -> type[R]:
    """The class, its construction as `checked`."""
    stated: Any = made  # a type checker is to know the class's own
    stated.__init__ = plain(stated.__init__, made.__name__, kinds=True)
    return made


def misfit(
    function: Callable[..., Any],
    called: str,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    every: bool = False,
) -> str:
    """What is wrong with the arguments of a call, with the nearest valid name; empty where nothing is.

    every: of sequences and mappings too, which most functions judge themselves.
    """
    import inspect  # slow, and needed for statements and after mistakes alone

    signature = inspect.signature(function)
    stated = signature.parameters.values()
    known = [each.name for each in stated if each.name != "self" and each.kind is not each.VAR_KEYWORD]
    open_to_all = any(each.kind is each.VAR_KEYWORD for each in stated)
    choices = ", ".join(known) or "none"
    unknown = [] if open_to_all else [name for name in keywords if name not in known]
    if unknown:
        return f"{called}() has no argument {unknown[0]!r}; {did_you_mean(unknown[0], known)}it takes {choices}"
    try:
        given = signature.bind(*arguments, **keywords).arguments
    except TypeError as error:
        names = [each.name for each in stated if each.kind is each.KEYWORD_ONLY]
        by_name = f", of which by name: {', '.join(names)}" if names and "positional" in str(error) else ""
        return f"{called}(): {error}; it takes {choices}{by_name}"
    for name, value in given.items():
        parameter = signature.parameters[name]
        if not every and isinstance(value, str) and (complaint := unshown(value)):
            return f"{called}(): {name}={complaint}"
        if parameter.kind is not parameter.VAR_KEYWORD and name != "self":
            values = value if parameter.kind is parameter.VAR_POSITIONAL else (value,)
            words = kind_words(parameter.annotation, every)
            wrong = [each for each in values if words and not any(fits(each) for fits in words.values())]
            if wrong:
                return f"{called}(): {name}={short(wrong[0])} is not {' or '.join(words)}; give one"
    return ""


def unshown(text: str) -> str:
    """What is wrong with a text that is not one line of characters that every terminal shows; empty of others."""
    return "" if text.isprintable() else f"{short(text)} has characters that are not printed; write one plain line"


def kind_words(annotation: Any, every: bool) -> dict[str, Callable[[Any], bool]]:
    """What an argument of this annotation must be, in words, with how to tell; empty where anything may be right."""
    found: dict[str, Callable[[Any], bool]] = {}
    for part in get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,):
        kind = get_origin(part) or part
        if kind in _KINDS:
            found |= {_KINDS[kind][0]: _KINDS[kind][1]}
        elif kind in (Sequence, Mapping):
            if not every:
                return {}
            found[f"a {kind.__name__.lower()}"] = lambda value, kind=kind: isinstance(value, kind)  # type: ignore[misc]
        elif isinstance(kind, type) and kind.__module__.startswith("servonode"):
            found[f"a {kind.__name__}"] = lambda value, kind=kind: isinstance(value, kind)  # type: ignore[misc]
        else:
            return {}
    return found


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, str | bytes)


_KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("a text", lambda value: isinstance(value, str)),
    bool: ("True or False", lambda value: value is True or value is False),
    int: ("a whole number", lambda value: hasattr(value, "__index__")),
    float: ("a number", _is_number),
    Path: ("a path", lambda value: isinstance(value, Path)),
    NoneType: ("None", lambda value: value is None),
    Callable: ("a function", callable),
}


def short(value: Any) -> str:
    """A value as an error shows it, cut."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
