"""The texts in `lib`, for a machine: what they import is given by kernels, and their sizes are numbers."""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("lib")
PLACE = "servonode.kernels.lib."
NAMES = PLACE + "names"


@cache
def _parts(name: str) -> tuple[list[str], list[tuple[int, int, ast.ImportFrom]]]:
    """The lines of a text, and its imports with the lines in which they stand."""
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    found = [each for each in ast.parse(text).body if isinstance(each, ast.ImportFrom)]
    return text.splitlines(keepends=True), [(each.lineno - 1, each.end_lineno or 0, each) for each in found]


def library_text(name: str, kernels: Mapping[str, str], sizes: Mapping[str, int]) -> str:
    """The text `lib/NAME.py` in the kernel language.

    kernels: the keys of kernels that give what the text imports from `lib`, by the module's name there. sizes: those
    that no kernel gives; what else is imported from `names` the language knows.
    """
    lines, imports = _parts(name)
    result, at = "", 0
    for begin, end, each in imports:
        result += "".join(lines[at:begin])
        if each.module == NAMES:
            result += "".join(f"{size.name} = {sizes[size.name]}\n" for size in each.names if size.name in sizes)
        else:
            assert each.module is not None
            taken = ", ".join(ast.unparse(one) for one in each.names)
            result += f"from {kernels[each.module.removeprefix(PLACE)]} import {taken}\n"
        at = end
    return result + "".join(lines[at:])
