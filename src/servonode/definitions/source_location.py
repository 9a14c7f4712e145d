"""Where in a user's file something was given, so that an error can name the line.

A word such as `parameter(...)` remembers the place that calls it. For an argument of a longer call, such as
`kinetic=` of `Model(...)`, the place is looked up in the source when an error needs it. A machine that a launch file
states has keys for places.
"""

import ast
import linecache
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from servonode.kernels.syntax import syntax_tree


@dataclass(frozen=True)
class Place:
    """A line of a source file, as `my_robot.py line 12`; false if none exists."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{_cell(self.file) or Path(self.file).name} line {self.line}" if self else ""

    def __bool__(self) -> bool:
        return bool(self.file)

    def argument(self, keyword: str, entry: int | None = None, follow: bool = True) -> "Place":
        """Where the argument `keyword` of the call at this place is given, or its entry of that number.

        A name is followed to its last assignment above the call, if wanted. Without a source, the place of the call.
        """
        source, value = self._given(keyword)
        if source is None or value is None:
            return self
        stated = source.followed(value, self.line) if follow else value
        if entry is not None:
            stated = _entry(stated, entry) or stated
        return Place(self.file, stated.lineno)

    def entries(self, keyword: str) -> int | None:
        """How many entries the mapping `keyword` has in the source; None where that is not written there."""
        source, value = self._given(keyword)
        stated = source.followed(value, self.line) if source and value else None
        return len(stated.keys) if isinstance(stated, ast.Dict) and None not in stated.keys else None

    def _given(self, keyword: str) -> "tuple[_Source | None, ast.expr | None]":
        """The source, and the argument `keyword` of the call at this place; None where it is not written there."""
        source = _source(self.file)
        call = source.calls.get(self.line) if source else None
        return source, next((each.value for each in call.keywords if each.arg == keyword), None) if call else None


PYTHON = ((r"^machine \w+: ", ""), (r"\b(\w+)\.rate\b", r"\1_dot"), (r"=\{", " = {"), (r"(?<=\w)=(?=[ ,;.)]|$)", ""))


@dataclass(frozen=True)
class KeyPlace(Place):
    """A key of a launch file, in place of a line: the section `file` and the `key` in it.

    names: of the tables in the section, of which arguments are given by place.
    """

    key: str | None = None
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return f"{self.file}.{self.key}" if self.key else self.file

    def at(self, key: str, name: str | None = None) -> "KeyPlace":
        """A key of the section, or the entry of that name in its table."""
        return KeyPlace(self.file, 0, key) if name is None else KeyPlace(f"{self.file}.{key}", 0, name)

    def argument(self, keyword: str, entry: int | None = None, follow: bool = True) -> Place:  # noqa: ARG002
        names = self.names.get(keyword, ())
        if self.key:
            return self
        return self.at(keyword, names[entry] if entry is not None and entry < len(names) else None)

    def entries(self, keyword: str) -> int | None:  # noqa: ARG002
        return None

    def told(self, text: str) -> str:
        """What is said of a machine in the words of its Python form, in those of a launch file."""
        for python, toml in PYTHON:
            text = re.sub(python, toml, text)
        return text


def _cell(file: str) -> str:
    """What IPython calls a file that is a cell of a notebook or session, `Cell In[3]`; empty for all others."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(file)
    return " ".join(named) if named else ""


NOWHERE = Place("", 0)


_DEFINING = {
    "servonode.controllers.engine.program",
    "servonode.errors",  # its wrapper
    "servonode.mechanics.drawing",
    "servonode.mechanics.join",
    "servonode.mechanics.links",
    "servonode.mechanics.model",
    "servonode.mechanics.sensors",
    "servonode.mechanics.symbols",
    "servonode.mechanics.trees",
}  # modules of the functions with which users define machines and programs


def here() -> Place:
    """The line that calls one of the defining functions, outside their own modules."""
    frame = sys._getframe(1)
    while frame.f_back and (
        frame.f_globals.get("__name__") in _DEFINING
        or (frame.f_code.co_filename, frame.f_code.co_name) == ("<string>", "__init__")  # what `dataclass` has made
    ):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)


class _Source:
    """What is looked up in a file: the call with most keywords that begins at each line, and assignments to names."""

    def __init__(self, lines: list[str]) -> None:
        self.calls: dict[int, ast.Call] = {}
        self._assigned: dict[str, list[ast.expr]] = {}
        for node in ast.walk(syntax_tree("".join(lines))):
            if isinstance(node, ast.Call):
                known = self.calls.setdefault(node.lineno, node)
                if len(node.keywords) > len(known.keywords):
                    self.calls[node.lineno] = node
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self._assigned.setdefault(target.id, []).append(node.value)

    def followed(self, value: ast.expr, line: int) -> ast.expr:
        """The value last assigned to a name above this line; the expression itself where it is no such name."""
        if not isinstance(value, ast.Name):
            return value
        found = [stated for stated in self._assigned.get(value.id, ()) if stated.lineno < line]
        return max(found, key=lambda stated: stated.lineno, default=value)


_sources: dict[str, tuple[list[str], _Source | None]] = {}  # by file, with the lines of which they were made


def _source(file: str) -> _Source | None:
    """The file's source, read once while it stays the same; None where it is not Python."""
    linecache.checkcache(file)  # it may have been edited since
    lines = linecache.getlines(file)
    known = _sources.get(file)
    if known is None or known[0] is not lines:
        try:
            known = lines, _Source(lines)
        except SyntaxError:
            known = lines, None
        _sources[file] = known
    return known[1]


def _entry(value: ast.expr, entry: int) -> ast.expr | None:
    entries = value.values if isinstance(value, ast.Dict) else getattr(value, "elts", [])
    return entries[entry] if entry < len(entries) else None
