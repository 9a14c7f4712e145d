"""A text that tells two models or programs apart: for those that no source file identifies, as in a notebook."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import sympy


def fingerprint(stated: Any) -> str:
    """Everything that a Model or Program states, without the source lines that state it."""
    if isinstance(stated, sympy.MatrixBase | sympy.Basic):
        symbols = sorted(stated.free_symbols, key=str)
        quantities = [repr(getattr(each, "quantity", "")) + getattr(each, "default", "") for each in symbols]
        return f"{sympy.srepr(stated)} of {quantities}"
    if hasattr(stated, "identity"):
        return fingerprint(stated.identity())
    if is_dataclass(stated):
        parts = (f"{each.name}: {fingerprint(getattr(stated, each.name))}" for each in fields(stated))
        return "\n".join(part for part in parts if not part.startswith("place: "))
    if isinstance(stated, Mapping):
        return "{" + ", ".join(f"{fingerprint(key)}: {fingerprint(value)}" for key, value in stated.items()) + "}"
    if isinstance(stated, Sequence) and not isinstance(stated, str):
        return "[" + ", ".join(map(fingerprint, stated)) + "]"
    return repr(stated)
