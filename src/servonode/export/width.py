"""How wide LaTeX mathematics is set, so that lines can be broken before they run off the page."""

import re
from collections.abc import Iterator


def width(latex: str) -> float:
    """How wide LaTeX mathematics is set, in pt at 10 pt, roughly and rather too much."""
    return _width(iter(_TOKEN.findall(latex)))


_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[^\s]")
_WIDTHS = {"+": 12.0, "-": 12.0, "=": 12.5, "(": 4.5, ")": 4.5, ",": 4.5, ".": 3.0, r"\,": 2.0, r"\quad": 10.0}
_WIDTHS |= {r"\sin": 15.0, r"\cos": 16.5, r"\tan": 17.0, r"\arctan": 31.0, r"\exp": 17.0, r"\left": 0.0}
_WIDTHS |= {r"\right": 0.0, r"\mathrm": 0.0, r"\operatorname": 3.0, r"\dot": 0.0, r"\ddot": 0.0, r"\dddot": 0.0}


def _width(tokens: Iterator[str]) -> float:
    """The width up to the brace that closes the group."""
    total = 0.0
    for token in tokens:
        if token == "}":
            break
        total += _token_width(token, tokens)
    return total


def _token_width(token: str, tokens: Iterator[str]) -> float:
    if token == "{":
        return _width(tokens)
    if token in "_^":
        return 0.75 * _token_width(next(tokens), tokens)
    if token == r"\frac":
        return 3.0 + max(_token_width(next(tokens), tokens), _token_width(next(tokens), tokens))
    if token == r"\sqrt":
        return 9.0 + _token_width(next(tokens), tokens)
    return _WIDTHS.get(token, 5.8)
