"""`servonode new`: commented files that run as they are, for a user to change."""

import re
from importlib.resources import files
from pathlib import Path

FILES = {"machine": ("machine.py", "machine.toml"), "program": ("program.py", "program.toml"), "run": ("run.toml",)}


class NotMade(ValueError):
    """A file that cannot be made; the text says why and how to mend it."""


def make(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the files of `kind` ("machine", "program", "run") called `name` into a folder; their paths.

    Raises:
        NotMade: the name is no identifier, or a file is there already.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise NotMade(f"{name!r} is no name; use ASCII letters, digits and _, beginning with a letter")
    targets = [folder / f"{name}{Path(template).suffix}" for template in FILES[kind]]
    for target in targets:
        if target.exists():
            raise NotMade(f"{target} is there already; choose another name, or move it away")
    for template, target in zip(FILES[kind], targets, strict=True):
        text = (files("servonode.nodes.templates") / template).read_text("utf-8")
        target.write_text(re.sub(r"\bNAME\b", name, text), encoding="utf-8")
    return targets
