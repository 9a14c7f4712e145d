"""Checks of the arguments of the public functions: a wrong one is a StatementError with what may be given."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from servonode.errors import StatementError, did_you_mean

RTOL, ATOL = (1e-14, 0.1), (1e-300, 0.1)  # the tolerances that the adaptive integrator can work with


def number(word: str, value: Any) -> float:
    """The value as a float. StatementError where it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise StatementError(f"{word} = {value!r} is not a number; give one, in SI units and radians") from None


def time_of(t: Any) -> float:
    """A time [s]. StatementError where it is not a finite number."""
    found = number("t", t)
    if not np.isfinite(found):
        raise StatementError(f"t = {found} is not a time; give one in s")
    return found


def check_choice(name: str, word: Any, choices: Sequence[str]) -> None:
    """StatementError unless the word is one of the choices."""
    if word not in choices:
        *others, last = choices
        near = did_you_mean(str(word), choices)
        raise StatementError(f"{name}={word!r} is unknown; {near}choose {', '.join(others)} or {last}")


def check_tolerances(rtol: Any, atol: Any) -> None:
    """StatementError unless the adaptive integrator can work with these tolerances."""
    for name, value, (least, most) in (("rtol", rtol, RTOL), ("atol", atol, ATOL)):
        if not least <= number(name, value) <= most:
            raise StatementError(f"{name}={value!r} is not a tolerance; give a number from {least:g} to {most:g}")


def check_mapping(word: str, given: Any, name: str = "NAME") -> None:
    """StatementError unless it holds values by name."""
    if not isinstance(given, Mapping):
        raise StatementError(f"{word}={given!r} is not a mapping; give values by name: {word}={{{name!r}: 1.0}}")
    wrong = [key for key in given if not isinstance(key, str)]
    if wrong:
        raise StatementError(f"{word}: {wrong[0]!r} is not a name; give names as texts, such as {name!r}")


def check_every(every: Any) -> None:
    """StatementError unless it is None or a number of plant steps for each recorded row."""
    if every is not None and (not isinstance(every, int | np.integer) or isinstance(every, bool) or every < 1):
        raise StatementError(f"every = {every!r} is not a number of plant steps; give a whole number of 1 or more")
