"""The common parts of the command line's verbs: help format, exit codes, options."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from servonode.cli import complete

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.closed_loop.fleet import Fleet
    from servonode.record.bag import Bag

F = TypeVar("F", bound=Callable[..., Any])
FILE = click.Path(path_type=Path)
WHICH_RUN = "RUN is the name or the folder of a run in progress. Without RUN, the command takes your only run."
BAD_USAGE = {2: "bad usage or input"}
INTERRUPTED = {130: "interrupted (Ctrl-C)"}
BROKEN_OFF = {129: "interrupted by SIGHUP", 130: "interrupted by Ctrl-C", 143: "interrupted by SIGTERM"}


class Verb(click.Command):
    """A command whose help begins with examples and ends with its exit codes.

    exits: the meaning of each exit code of the command. logs: whether messages that the libraries log go to standard
    error; without it the logging module is not loaded.
    """

    def __init__(
        self, *args: Any, examples: Sequence[str], exits: Mapping[int, str], logs: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples, self.exits, self.logs = examples, exits, logs

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in self.examples))
        formatter.write_paragraph()
        super().format_help(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), text) for code, text in self.exits.items()])

    def invoke(self, ctx: click.Context) -> Any:
        if self.logs:
            import logging

            logging.basicConfig(format="servonode: %(message)s", stream=sys.stderr)
            logging.getLogger("servonode").setLevel(logging.INFO)  # libraries only warn
        return super().invoke(ctx)


def group(function: Callable[[], None]) -> click.Group:
    """A command with subcommands; without a subcommand it shows its help."""

    @wraps(function)
    def alone(ctx: click.Context) -> None:
        if ctx.invoked_subcommand is None:
            click.echo(ctx.get_help())

    return click.group(invoke_without_command=True)(click.pass_context(alone))


class FiniteRange(click.FloatRange):
    """A number within bounds; nan and inf are refused whatever the bounds are."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class Port(click.IntRange):
    """A port number; the error for a bad one says how to write the option."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a port from 1 to 65535; write --page after FILE, or --page=8642", param, ctx)


class Address(click.ParamType[str]):
    """An address; the error says how to write the option, because a FILE after it would be taken for its value."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if "://" not in value:
            said = f"{value!r} is not an address such as tcp://127.0.0.1:9872"
            self.fail(f"{said}; write --telemetry after FILE, or --telemetry=ADDRESS", param, ctx)
        return value


# options

ABOVE_ZERO = FiniteRange(min=0, min_open=True)
overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete.keys,
    help="Override a launch-file key (repeatable).",
)
wait = click.option(
    "--wait",
    type=FiniteRange(min=0, min_open=True, max=3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait this long for the first answer.",
)
key = click.option(
    "--key", metavar="NAME", shell_complete=complete.key_pairs, help="Use this key pair (servonode keys)."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
out = click.option("--out", type=FILE, metavar="FILE.csv", help="Write all signals of the run to this CSV file.")
every = click.option("--every", type=click.IntRange(min=1), metavar="N", help="Number of plant steps per recorded row.")
reports = click.option(
    "--report",
    "reports",
    type=FILE,
    multiple=True,
    metavar="FILE.png|.html",
    help="Write a report: a picture or, with the ending .html, a page (repeatable).",
)
one_run = click.argument("name", metavar="[RUN]", required=False, shell_complete=complete.runs)
_file = click.argument("file", metavar="FILE", shell_complete=complete.launch_files)
code = click.option(
    "--code/--no-code",
    default=None,
    help="Run, or refuse, Python code that FILE names, with your rights. Without either that of a launch file runs, of "
    "a recording what stands below the working directory as it was recorded.",
)
panels = click.option(
    "--panel", "panels", multiple=True, metavar="NAME,NAME", help="Add a panel that shows these signals (repeatable)."
)
_window = click.option(
    "--window", type=ABOVE_ZERO, metavar="SECONDS", help="Length of plant time that the window shows."
)
_save = click.option("--save", type=FILE, metavar="FILE.png", help="File that the key s of the window writes.")
_movie = click.option("--movie", type=FILE, metavar="FILE.mp4|.gif", help="Write a movie of the run.")
_fps = click.option(
    "--fps", type=FiniteRange(min=1, max=120), metavar="RATE", help="Frames per second of the movie (default: 30)."
)
_speed = click.option(
    "--speed",
    type=ABOVE_ZERO,
    metavar="FACTOR",
    help="Plant seconds per second of the movie (default: run.speed, or more for a long run).",
)


_movie_panels = click.option(
    "--panel",
    "panels",
    multiple=True,
    metavar="NAME,NAME",
    help="Show a panel with these signals in the movie (repeatable).",
)


def movie(function: F) -> F:
    """The arguments of a movie: --movie, --fps, --speed, --panel."""
    return _movie(_fps(_speed(_movie_panels(function))))


page = click.option(
    "--page",
    is_flag=False,
    flag_value=0,
    type=Port(0, 65535),
    metavar="[PORT]",
    help="Serve a browser page that shows the run.",
)


def launch_file(function: F) -> F:
    """The arguments of `resolved`: FILE, --set, --code, --no-code."""
    return _file(overrides(code(function)))


def window(function: F) -> F:
    """The arguments of `start_checks.window_options`: --panel, --window, --save."""
    return panels(_window(_save(function)))


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


def resolved(file: str, overrides: Sequence[str], code: bool | None, strict: bool = True) -> "ClosedLoop":
    """The resolved launch file; with `strict` false it may be one that a run would refuse to start."""
    if _is_recording(file):  # with a launch file in it
        from servonode.record.bag import read_bag

        return read_bag(Path(file)).closed_loop(overrides, code=code, strict=strict)
    from servonode.closed_loop.closed_loop import resolve
    from servonode.closed_loop.launch_file import read_launch

    return resolve(read_launch(file, overrides), strict=strict, code=code is not False)


def of_recording(read: "Bag", code: bool | None) -> "ClosedLoop | None":
    """What was run, of a recording; None, with a line that says why, where it is code that may not run."""
    from servonode.closed_loop.launch_error import CodeRefused

    try:
        return read.closed_loop(code=code)
    except CodeRefused as error:
        click.echo(f"servonode: {read.file}: {error}; the rows come as they were recorded", err=True)
        return None


def _is_recording(file: str) -> bool:
    """Whether it is a recording, or the part FILE.mcap/ROBOT of one."""
    return file.endswith(".mcap") or (Path(file).parent.suffix == ".mcap" and Path(file).parent.is_file())


def resolved_fleet(
    file: str, overrides: Sequence[str], code: bool | None, strict: bool = True
) -> "tuple[Fleet, dict[str, ClosedLoop]] | None":
    """The robots of a launch file with [robots], and the closed loop of each; None of another file."""
    if _is_recording(file):
        return None
    from servonode.closed_loop.fleet import read_fleet, resolve_fleet

    fleet = read_fleet(file, overrides)
    return None if fleet is None else (fleet, resolve_fleet(fleet, strict=strict, code=code is not False))


def made(write: Callable[[], None]) -> str:
    """The reason why the picture could not be made; empty if it was made."""
    try:
        write()
    except OSError as error:
        return f"cannot be written ({error.strerror or error}); name another with --out"
    except Exception as error:  # noqa: BLE001  (a drawing library and a user's view may raise anything)
        return f"cannot be made ({type(error).__name__}: {' '.join(str(error).split())})"
    return ""
