"""The texts in `lib`, for a machine: what they import is given by kernels, and their sizes are numbers."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("lib")
NAMES, GIVEN = "names", "given"  # declarations for type checkers
Given = Mapping[str, tuple[str, str]]
NONE: Given = {}
_IMPORT = re.compile(r"^from servonode\.kernels\.lib\.(\w+) import (.+)\n", re.MULTILINE)
_FUNCTION = re.compile(r"^def (\w+)", re.MULTILINE)
_NUMBER = re.compile(r"^(\w+) = (-?[\d_]+)\b", re.MULTILINE)


@cache
def _text(name: str) -> str:
    return (FOLDER / f"{name}.py").read_text("utf-8")


def library_text(
    name: str, kernels: Mapping[str, str], sizes: Mapping[str, int], given: Given = NONE, within: set[str] | None = None
) -> str:
    """The text `lib/NAME.py` in the kernel language.

    kernels: the keys of kernels that give what the text imports from `lib`, by the module's name there. sizes: those
    in `names`, and flags. given: key and name of functions imported from `given`. within: modules whose texts stand in
    place of their first import; each is taken out of the set. Imports of others are left out, as flags exclude them.
    """
    within = set() if within is None else within

    def replaced(found: re.Match[str]) -> str:
        module, names = found.groups()
        if module == NAMES:
            return "".join(f"{size} = {int(number)}\n" for size, number in sizes.items())
        if module == GIVEN:
            there = ((*given[each], each) for each in names.split(", ") if each in given)
            return "".join(f"from {key} import {function} as {each}\n" for key, function, each in there)
        if module in kernels:
            return f"from {kernels[module]} import {names}\n"
        if module in within:
            within.discard(module)
            return library_text(module, kernels, sizes, given, within)
        return ""

    return _IMPORT.sub(replaced, _text(name))


@cache
def numbers_of(name: str) -> Mapping[str, int]:
    """The whole numbers that a text names."""
    return {each: int(number) for each, number in _NUMBER.findall(_text(name))}


@cache
def functions_of(name: str) -> tuple[str, ...]:
    """The functions of a text."""
    return tuple(_FUNCTION.findall(_text(name)))
