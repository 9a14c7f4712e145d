"""The texts in `lib`, for a machine: what they import is given by kernels, and their sizes are numbers."""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from servonode.kernels.syntax import syntax_tree

FOLDER = Path(__file__).with_name("lib")
PLACE = "servonode.kernels.lib."
NAMES, GIVEN = "names", "given"  # declarations for type checkers
Given = Mapping[str, tuple[str, str]]
NONE: Given = {}


@cache
def _parts(name: str) -> tuple[list[str], list[tuple[int, int, ast.ImportFrom]]]:
    """The lines of a text, and its imports with the lines in which they stand."""
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    found = [each for each in syntax_tree(text).body if isinstance(each, ast.ImportFrom)]
    return text.splitlines(keepends=True), [(each.lineno - 1, each.end_lineno or 0, each) for each in found]


def library_text(
    name: str, kernels: Mapping[str, str], sizes: Mapping[str, int], given: Given = NONE, within: set[str] | None = None
) -> str:
    """The text `lib/NAME.py` in the kernel language.

    kernels: the keys of kernels that give what the text imports from `lib`, by the module's name there. sizes: those
    in `names`, and flags. given: key and name of functions imported from `given`. within: modules whose texts stand in
    place of their first import; each is taken out of the set. Imports of others are left out, as flags exclude them.
    """
    lines, imports = _parts(name)
    result, at, within = "", 0, set() if within is None else within
    for begin, end, each in imports:
        result += "".join(lines[at:begin])
        module, names = (each.module or "").removeprefix(PLACE), [one.name for one in each.names]
        if module == NAMES:
            result += "".join(f"{size} = {int(number)}\n" for size, number in sizes.items())
        elif module == GIVEN:
            found = ((*given[one], one) for one in names if one in given)
            result += "".join(f"from {key} import {function} as {one}\n" for key, function, one in found)
        elif module in kernels:
            result += f"from {kernels[module]} import {', '.join(map(ast.unparse, each.names))}\n"
        elif module in within:
            within.discard(module)
            result += library_text(module, kernels, sizes, given, within)
        at = end
    return result + "".join(lines[at:])


def numbers_of(name: str) -> dict[str, int]:
    """The whole numbers that a text names."""
    found = [each for each in syntax_tree("".join(_parts(name)[0])).body if isinstance(each, ast.Assign)]
    return {ast.unparse(each.targets[0]): ast.literal_eval(each.value) for each in found}
