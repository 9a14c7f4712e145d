"""`servonode new`: commented files that run as they are, for a user to change."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import click

from servonode.cli import verb
from servonode.errors import ServonodeError

SCHEMA = "schema"
FILES = {"machine": ("machine.py", "machine.toml"), "program": ("program.py", "program.toml"), "run": ("run.toml",)}


class NotMade(ServonodeError, ValueError):
    """A file that cannot be made; the text says why and how to fix it."""


@click.command(
    cls=verb.Verb,
    examples=("servonode new machine crane", "servonode new program chase", "servonode new run serpentine"),
    exits={0: "done", **verb.BAD_USAGE},
)
@click.argument("kind", type=click.Choice([*FILES, SCHEMA]))
@click.argument("name")
def new(kind: str, name: str) -> None:
    """Write files that run as they are: a machine, a program, a run.

    They are commented, for you to change. run: a launch file alone. schema: the JSON Schema of the launch file, for
    editors.
    """
    made = make(kind, name, Path())
    click.echo("\n".join(f"made {file}" for file in made))
    click.echo(
        f"name it in a launch file: #:schema ./{made[0]}" if kind == SCHEMA else f"now: servonode run {made[-1]}"
    )


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
        from servonode.closed_loop.reference import launch_schema

        yield ".json", launch_schema(installed=True)
        return
    for template in FILES[kind]:
        text = (files("servonode.cli.templates") / template).read_text("utf-8")
        yield Path(template).suffix, re.sub(r"\bNAME\b", name, text)
