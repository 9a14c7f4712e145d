"""Checks at the beginning of a command: file descriptors, output files, display."""

import os
import resource
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from servonode.errors import ServonodeError
from servonode.nodes.terminal import STANDARD

if TYPE_CHECKING:
    from servonode.cli.options import Window
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.views.display import Options

LEAST_DESCRIPTORS = 128  # of one process: a plant needs some 40, and some for every listener
PICTURES = (".png", ".pdf", ".svg", ".jpg")


class StartError(ServonodeError, ValueError):
    """A run cannot be started; the text says why and how to fix it."""


def check_descriptors(closed: Sequence[int], as_json: bool) -> None:
    """Refuse a process that may open too few files; raise its limit to what it is allowed.

    closed: standard descriptors that were closed, which is reported; it is refused where the result was to go there.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < LEAST_DESCRIPTORS:
        remedy = f"raise it: ulimit -n {LEAST_DESCRIPTORS}"
        raise StartError(f"this process may open {hard} files, a run needs {LEAST_DESCRIPTORS}; {remedy}")
    if soft != resource.RLIM_INFINITY and soft < LEAST_DESCRIPTORS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if 1 in closed and as_json:
        raise StartError("standard output is closed, so --json cannot be printed; redirect it: > FILE")
    for descriptor in closed:
        sys.stderr.write(f"servonode: {STANDARD[descriptor]} is closed; /dev/null takes its place\n")


def check_writable(file: Path | None) -> None:
    """Refuse a file that cannot be written before the run, not after it."""
    if file is not None and not (file.parent.is_dir() and os.access(file.parent, os.W_OK)):
        raise StartError(f"{file}: the folder {file.parent} does not exist or cannot be written; name another")
    if file is not None and file.is_dir():
        raise StartError(f"{file} is a folder; give the name of a file")
    if file is not None and Path(os.path.realpath(file)).is_symlink():
        raise StartError(f"{file} is a link that leads back to itself; name another file, or remove the link")


def check_ending(file: Path | None, ending: str) -> None:
    """Refuse a file whose name promises another format than is written into it; devices and pipes have none."""
    if file is None or file.suffix.lower() in ("", ending) or (file.exists() and not file.is_file()):
        return
    raise StartError(f"{file}: what is written is {ending[1:].upper()}; name it {file.with_suffix(ending)}")


def check_views(closed_loop: "ClosedLoop") -> None:
    """Refuse a machine of the user's whose views cannot be drawn."""
    if not closed_loop.source.packaged:
        from servonode.views.view_checks import check_view

        check_view(closed_loop)


def window_options(wanted: bool, window: "Window") -> "Options | None":
    """The options of the window; None without a window."""
    from servonode.views.display import Options

    if not wanted:
        if window.panels or window.window or window.save:
            raise click.UsageError("--panel, --window and --save belong to the window; give --plot as well")
        return None
    if window.save is not None:
        _check_picture_file(window.save)
    return Options(window.panels, window.window, str(window.save) if window.save else None)


def check_reports(files: Sequence[Path], closed_loop: "ClosedLoop") -> None:
    """Refuse reports that cannot be written or drawn."""
    for file in files:
        check_writable(file)
        if file.suffix.lower() in PICTURES:
            check_picture(file)
            continue
        from servonode.views.run_view import endings, reporting

        if reporting(file) is None:
            raise StartError(f"{file}: unknown ending of a report; choose {', '.join((*PICTURES, *endings()))}")
    if files:
        check_views(closed_loop)


def check_picture(file: Path) -> None:
    """Refuse a picture that cannot be written or drawn."""
    from servonode.views.display import check_backend

    _check_picture_file(file)
    check_backend()


def _check_picture_file(picture: Path) -> None:
    check_writable(picture)
    if picture.suffix.lower() not in PICTURES:
        raise StartError(f"{picture}: unknown ending of a picture; choose {', '.join(PICTURES)}")


def bag_file(given: str, run: str, option: str = "--record") -> Path:
    """Where the recording of a run goes: the file that was given, else RUN.mcap, or the next number that is free.

    Raises UsageError for one that is there, or is no .mcap, and what `check_writable` raises.
    """
    if not given:
        numbered = (Path(f"{run}.{number}.mcap" if number > 1 else f"{run}.mcap") for number in count(1))
        return next(file for file in numbered if not file.exists() and not spool_of(file).exists())
    file = Path(given)
    if file.suffix != ".mcap":
        raise click.UsageError(f"{option} {given}: a recording is an MCAP file; name it FILE.mcap, or give no name")
    if file.exists():
        raise click.UsageError(f"{option} {given}: the file exists already; name another file, or remove it")
    if spool_of(file).exists():
        remedy = "name another file, or if that run is over: servonode bag recover"
        raise click.UsageError(f"{option} {given}: another run records there, or was killed; {remedy} {spool_of(file)}")
    check_writable(file)
    return file


def spool_of(file: Path) -> Path:
    """Where a recording is written while its run continues."""
    return file.with_name(f"{file.name}.spool")


def file_of(robot: str, file: Path) -> Path:
    """The file of one robot of several, which has its name before the ending."""
    return file.with_name(f"{file.stem}.{robot}{file.suffix}")
