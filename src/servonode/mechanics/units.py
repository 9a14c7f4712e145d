"""Dimensions, and the texts of units: `kg m^2`, `N m s/rad`, `1/(m s)`.

A dimension is the powers of kg, m, s, A, K, mol and cd; rad has none. All units here are coherent: no factor hides in
them, so that equations in them hold as they stand.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

BASE = ("kg", "m", "s", "A", "K", "mol", "cd")
Dimension = tuple[Fraction, ...]
NONE: Dimension = (Fraction(0),) * len(BASE)
_TOKEN = re.compile(r"\s*(\*\*|[A-Za-z]+|[-+]?\d+(?:\.\d+)?|\^|[*/()]|.)")


class UnitError(ValueError):
    """A text that is no unit; it says why, and what is known."""


def _of(**powers: int) -> Dimension:
    return tuple(Fraction(powers.get(name, 0)) for name in BASE)


KNOWN: Mapping[str, Dimension] = MappingProxyType(
    {name: _of(**{name: 1}) for name in BASE}
    | {
        "rad": NONE,
        "sr": NONE,
        "Hz": _of(s=-1),
        "N": _of(kg=1, m=1, s=-2),
        "Pa": _of(kg=1, m=-1, s=-2),
        "J": _of(kg=1, m=2, s=-2),
        "W": _of(kg=1, m=2, s=-3),
        "C": _of(A=1, s=1),
        "V": _of(kg=1, m=2, s=-3, A=-1),
        "F": _of(kg=-1, m=-2, s=4, A=2),
        "ohm": _of(kg=1, m=2, s=-3, A=-2),
        "Ohm": _of(kg=1, m=2, s=-3, A=-2),
        "S": _of(kg=-1, m=-2, s=3, A=2),
        "Wb": _of(kg=1, m=2, s=-2, A=-1),
        "T": _of(kg=1, s=-2, A=-1),
        "H": _of(kg=1, m=2, s=-2, A=-2),
    }
)
_NAMED = ("J", "W", "N", "V", "Pa")  # in which a dimension is printed where it is theirs


def times(first: Dimension, second: Dimension, power: Fraction = Fraction(1)) -> Dimension:
    """The dimension of first * second^power."""
    return tuple(a + power * b for a, b in zip(first, second, strict=True))


def raised(dimension: Dimension, power: Fraction) -> Dimension:
    """The dimension to a power."""
    return times(NONE, dimension, power)


def parse_unit(text: str) -> Dimension:
    """The dimension of a unit's text. Factors side by side or with * multiply; / divides by the next factor alone.

    Raises:
        UnitError: a unit is not known, or the text is ambiguous or no product of powers.
    """
    reader = _Reader(text)
    dimension = reader.product()
    if reader.left:
        raise UnitError(f"unit {text!r}: {reader.left[0]!r} is not expected here; write a product of powers, kg m^2/s")
    return dimension


class _Reader:
    """The tokens of a unit's text that are still to be read."""

    def __init__(self, text: str) -> None:
        self.text, self.left = text, [token for token in _TOKEN.findall(text) if token.strip()]

    def product(self) -> Dimension:
        dimension, divided = self._power(), False
        while self.left and self.left[0] != ")":
            sign = self.left.pop(0) if self.left[0] in ("*", "/") else ""
            if divided and sign != "/":
                text = (
                    f"unit {self.text!r}: what the / divides by is ambiguous; write 1/(m s), or put the factor before"
                )
                raise UnitError(text)
            divided = divided or sign == "/"
            dimension = times(dimension, self._power(), Fraction(-1 if sign == "/" else 1))
        return dimension

    def _power(self) -> Dimension:
        factor = self._factor()
        if self.left and self.left[0] in ("^", "**"):
            self.left.pop(0)
            exponent = self.left.pop(0) if self.left else ""
            try:
                return raised(factor, Fraction(exponent))
            except ValueError:
                raise UnitError(f"unit {self.text!r}: {exponent!r} is not a power; write m^2 or m^-1") from None
        return factor

    def _factor(self) -> Dimension:
        token = self.left.pop(0) if self.left else ""
        if token == "(":
            inside = self.product()
            if not self.left or self.left.pop(0) != ")":
                raise UnitError(f"unit {self.text!r}: a bracket is not closed; close it")
            return inside
        if token == "1":
            return NONE
        if token not in KNOWN:
            text = f"unit {self.text!r}: {token!r} is not known; known are {', '.join(KNOWN)} and their powers and"
            raise UnitError(
                f"{text} products, such as kg m^2/s^2, and 1 (servonode calculates in SI units and radians)"
            )
        return KNOWN[token]


def unit_text(dimension: Dimension) -> str:
    """A dimension as a unit: `J`, `kg m^2/s`, `1/s`, `1`."""
    for name in _NAMED:
        if KNOWN[name] == dimension:
            return name
    above = [_factor_text(name, power) for name, power in zip(BASE, dimension, strict=True) if power > 0]
    below = [_factor_text(name, -power) for name, power in zip(BASE, dimension, strict=True) if power < 0]
    under = f"({' '.join(below)})" if len(below) > 1 else "".join(below)
    return (" ".join(above) or "1") + (f"/{under}" if under else "")


def _factor_text(name: str, power: Fraction) -> str:
    return name if power == 1 else f"{name}^{power}"
