"""`servonode new`: commented files that run as they are, for a user to change."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from servonode.closed_loop.reference import launch_schema
from servonode.errors import ServonodeError

SCHEMA = "schema"
FILES = {"machine": ("machine.py", "machine.toml"), "program": ("program.py", "program.toml"), "run": ("run.toml",)}


class NotMade(ServonodeError, ValueError):
    """A file that cannot be made; the text says why and how to mend it."""


def make(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the files of `kind` (a key of FILES, or SCHEMA) called `name` into a folder; their paths.

    Raises:
        NotMade: the name is no identifier, or a file is there already.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise NotMade(f"{name!r} is no name; use ASCII letters, digits and _, beginning with a letter")
    texts = {folder / f"{name}{suffix}": text for suffix, text in _contents(kind, name)}
    for file in texts:
        if file.exists():
            raise NotMade(f"{file} is there already; choose another name, or move it away")
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")
    return list(texts)


def _contents(kind: str, name: str) -> Iterator[tuple[str, str]]:
    """Suffix and text of each file."""
    if kind == SCHEMA:
        yield ".json", launch_schema()
        return
    for template in FILES[kind]:
        text = (files("servonode.cli.templates") / template).read_text("utf-8")
        yield Path(template).suffix, re.sub(r"\bNAME\b", name, text)
