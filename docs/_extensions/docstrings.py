"""Docstrings are Markdown with Args and Raises; autodoc reads reStructuredText, where `*`, `|` and `x_` mean more."""

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

CODE = re.compile(r"(`+)(.+?)\1")
SPECIAL = re.compile(r"\\|\*|\||(?<=\w)_(?!\w)")
BULLET = re.compile(r"\s*[*-] ")


def converted(line: str) -> str:
    """A line of Markdown as reStructuredText: code in double backquotes, the rest as it is written."""
    bullet = BULLET.match(line)
    head = bullet[0] if bullet else ""
    parts, at = [head], len(head)
    for code in CODE.finditer(line, at):
        parts += [SPECIAL.sub(r"\\\g<0>", line[at : code.start()]), f"``{code[2]}``"]
        at = code.end()
    return "".join([*parts, SPECIAL.sub(r"\\\g<0>", line[at:])])


def convert(app: Sphinx, _what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """All lines but those of examples, which begin with >>> and end with an empty line; then Args and Raises."""
    example = False
    for at, line in enumerate(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if not example:
            lines[at] = converted(line)
    # as of a function: of a property the text before its first colon would be taken for its type
    lines[:] = GoogleDocstring(lines, Config(), app, "function", name, thing, options).lines()


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", convert)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
