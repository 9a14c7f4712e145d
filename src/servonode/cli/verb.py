"""The common parts of the command line's verbs: exit codes, and what is read and shown."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pathlib import Path

    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.record.bag import Bag

BAD_USAGE = {2: "bad usage or input"}
INTERRUPTED = {130: "interrupted (Ctrl-C)"}
BROKEN_OFF = {129: "interrupted by SIGHUP", 130: "interrupted by Ctrl-C", 143: "interrupted by SIGTERM"}


def show(found: Mapping[str, Any], as_json: bool, text: str) -> None:
    """Print what a command has found: as one JSON object, or as text."""
    click.echo(json.dumps(found) if as_json else text)


def show_lines(lines: Iterable[str], as_json: bool) -> None:
    """Print lines as they come, or all of them in one JSON object."""
    if as_json:
        click.echo(json.dumps({"lines": list(lines)}))
        return
    for line in lines:
        click.echo(line)


def aligned(rows: Sequence[Sequence[str]], right: bool = False) -> list[str]:
    """The rows of a table as lines, each column as wide as its widest cell. right: there all but the first begin."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[f"{cell:{'>' if right and i else '<'}{widths[i]}}" for i, cell in enumerate(row)] for row in rows]
    return [f"  {'  '.join(cells)}".rstrip() for cells in padded]


def of_recording(read: "Bag", code: bool | None) -> "ClosedLoop | None":
    """What was run, of a recording; None, with a line that says why, where it is code that may not run."""
    from servonode.closed_loop.launch_error import CodeRefused

    try:
        return read.closed_loop(code=code)
    except CodeRefused as error:
        click.echo(f"servonode: {read.file}: {error}; the rows come as they were recorded", err=True)
        return None


def made(write: Callable[[], None]) -> str:
    """The reason why the picture could not be made; empty if it was made."""
    try:
        write()
    except OSError as error:
        return f"cannot be written ({error.strerror or error}); name another with --output"
    except Exception as error:  # noqa: BLE001  (a drawing library and a user's view may raise anything)
        return f"cannot be made ({type(error).__name__}: {' '.join(str(error).split())})"
    return ""


def picture_made(file: "Path", as_json: bool, show: bool) -> None:
    """A link to a picture where it can be clicked; and the picture in a browser, if it is to be shown."""
    from servonode.cli.terminal import linked, opened

    stream = sys.stderr if as_json else sys.stdout
    for line in linked(file, stream):
        stream.write(f"{line}\n")
    if show:
        opened(file)


def run_and(what: str, words: Sequence[str]) -> tuple[str | None, str]:
    """The run, if one is named, and the topic or node."""
    if len(words) > 2:
        raise click.UsageError(f"give one {what}, with at most one run before it")
    return (words[0] if len(words) == 2 else None), words[-1]


@contextmanager
def printing() -> Iterator[None]:
    """A context for output to a pipe: when the reader closes it, as `head` does, the command ends silently."""
    try:
        yield
    except BrokenPipeError:  # the interpreter writes nothing more at its end either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
