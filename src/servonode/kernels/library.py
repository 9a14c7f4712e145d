"""The texts in `lib`, for a machine: what they import is given by kernels, and their sizes are numbers."""

import ast
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("lib")
PLACE = "servonode.kernels.lib."
NAMES, GIVEN = "names", "given"  # declarations for type checkers
Given = Mapping[str, tuple[str, str]]


@cache
def _parts(name: str) -> tuple[list[str], list[tuple[int, int, ast.ImportFrom]]]:
    """The lines of a text, and its imports with the lines in which they stand."""
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    found = [each for each in ast.parse(text).body if isinstance(each, ast.ImportFrom)]
    return text.splitlines(keepends=True), [(each.lineno - 1, each.end_lineno or 0, each) for each in found]


def library_text(
    name: str,
    kernels: Mapping[str, str],
    sizes: Mapping[str, int],
    given: Given | None = None,
    includes: Collection[str] = (),
) -> str:
    """The text `lib/NAME.py` in the kernel language.

    kernels: the keys of kernels that give what the text imports from `lib`, by the module's name there. sizes: those
    in `names`, and flags; what else is there the language knows. given: key and name of
    functions that are imported from `given`. includes: modules whose texts stand in place of their first import. What
    is in none of these is left out, which is right where flags exclude its use.
    """
    return _text(name, kernels, sizes, given or {}, set(includes))


def _text(name: str, kernels: Mapping[str, str], sizes: Mapping[str, int], given: Given, includes: set[str]) -> str:
    lines, imports = _parts(name)
    result, at = "", 0
    for begin, end, each in imports:
        result += "".join(lines[at:begin])
        module, names = (each.module or "").removeprefix(PLACE), [one.name for one in each.names]
        if module == NAMES:
            result += "".join(f"{size} = {int(number)}\n" for size, number in sizes.items())
        elif module == GIVEN:
            result += "".join(
                f"from {given[one][0]} import {given[one][1]} as {one}\n" for one in names if one in given
            )
        elif module in kernels:
            result += f"from {kernels[module]} import {', '.join(map(ast.unparse, each.names))}\n"
        elif module in includes:
            includes.discard(module)
            result += _text(module, kernels, sizes, given, includes)
        at = end
    return result + "".join(lines[at:])


def numbers_of(name: str) -> dict[str, int]:
    """The whole numbers that a text names."""
    found = ast.parse("".join(_parts(name)[0])).body
    pairs = [(each.targets[0], each.value) for each in found if isinstance(each, ast.Assign)]
    return {name.id: ast.literal_eval(value) for name, value in pairs if isinstance(name, ast.Name)}
