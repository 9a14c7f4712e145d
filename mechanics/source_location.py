"""Where in a user's file something was stated, so that an error can name the line.

A word such as `parameter(...)` remembers the place that calls it. For an argument of a longer call, such as
`kinetic=` of `Model(...)`, the place is looked up in the source when an error needs it.
"""

import ast
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """A line of a source file, as `my_robot.py line 12`; false where there is none."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name} line {self.line}" if self else ""

    def __bool__(self) -> bool:
        return bool(self.file)

    def argument(self, keyword: str, entry: int | None = None, follow: bool = True) -> "Place":
        """Where the argument `keyword` of the call at this place is stated, or its entry of that number.

        A name is followed to its last assignment above the call, if wanted. Without a source, the place of the call.
        """
        tree = _syntax(self.file)
        call = _call(tree, self.line) if tree else None
        value = next((each.value for each in call.keywords if each.arg == keyword), None) if call else None
        if tree is None or value is None:
            return self
        stated = _followed(tree, value, self.line) if follow else value
        if entry is not None:
            stated = _entry(stated, entry) or stated
        return Place(self.file, stated.lineno)


NOWHERE = Place("", 0)


def here() -> Place:
    """The line that calls one of the defining functions, outside their own modules, which have a global WORDS."""
    frame = sys._getframe(1)
    while frame.f_back and ("WORDS" in frame.f_globals or frame.f_code.co_filename == "<string>"):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)


def _syntax(file: str) -> ast.Module | None:
    linecache.checkcache(file)  # it may have been edited since
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None


def _call(tree: ast.Module, line: int) -> ast.Call | None:
    """The call that begins at this line, the one with most keywords."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == line]
    return max(calls, key=lambda call: len(call.keywords), default=None)


def _followed(tree: ast.Module, value: ast.expr, line: int) -> ast.expr:
    """The value last assigned to a name above this line; the expression itself where it is no such name."""
    if not isinstance(value, ast.Name):
        return value
    found = [stated for name, stated in _assignments(tree) if name == value.id and stated.lineno < line]
    return max(found, key=lambda stated: stated.lineno, default=value)


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))


def _entry(value: ast.expr, entry: int) -> ast.expr | None:
    entries = value.values if isinstance(value, ast.Dict) else getattr(value, "elts", [])
    return entries[entry] if entry < len(entries) else None
