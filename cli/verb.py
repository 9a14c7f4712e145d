"""The common parts of the command line's verbs: help format, exit codes, options."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop

F = TypeVar("F", bound=Callable[..., Any])
BAD_USAGE = {2: "bad usage or input"}
INTERRUPTED = {130: "interrupted (Ctrl-C)"}
BROKEN_OFF = {129: "broken off by SIGHUP", 130: "broken off by Ctrl-C", 143: "broken off by SIGTERM"}


class Verb(click.Command):
    """A command whose help begins with examples and ends with its exit codes.

    exits: what each exit code means that it can end with. logs: what the libraries log goes to standard error; else
    nothing is loaded for it.
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
    """A command that is made of others; alone it shows its help."""

    @wraps(function)
    def alone(ctx: click.Context) -> None:
        if ctx.invoked_subcommand is None:
            click.echo(ctx.get_help())

    return click.group(invoke_without_command=True)(click.pass_context(alone))


class FiniteRange(click.FloatRange):
    """A number within bounds; neither nan nor inf is one, whatever the bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class Port(click.IntRange):
    """A port, whose name in an error says how to write it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a port from 1 to 65535; write --page behind FILE, or --page=8642", param, ctx)


class Address(click.ParamType[str]):
    """An address, whose name in an error says how to write it: FILE behind the option would be taken for it."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if "://" not in value:
            said = f"{value!r} is not an address such as tcp://127.0.0.1:9872"
            self.fail(f"{said}; write --telemetry behind FILE, or --telemetry=ADDRESS", param, ctx)
        return value


# options

overrides = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a launch-file key (repeatable)."
)
wait = click.option(
    "--wait",
    type=FiniteRange(min=0, min_open=True, max=3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the first answer.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
out = click.option("--out", type=click.Path(path_type=Path), metavar="FILE.csv", help="Write the whole run.")
every = click.option("--every", type=click.IntRange(min=1), help="Plant steps per recorded row.")
reports = click.option(
    "--report",
    "reports",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE.png|.html",
    help="Write the report, a picture or a page by its ending (repeatable).",
)
_file = click.argument("file", metavar="FILE")
no_code = click.option(
    "--no-code", is_flag=True, help="Refuse a FILE that names Python code: it would run with all your rights."
)
_panels = click.option(
    "--panel", "panels", multiple=True, metavar="NAME,NAME", help="A panel of the window with these (repeatable)."
)
_window = click.option(
    "--window", type=FiniteRange(min=0, min_open=True), metavar="SECONDS", help="Plant time that the window shows."
)
_save = click.option("--save", type=click.Path(path_type=Path), metavar="FILE.png", help="Where the window's s saves.")
_movie = click.option("--movie", type=click.Path(path_type=Path), metavar="FILE.mp4|.gif", help="Film the run.")
_fps = click.option("--fps", type=FiniteRange(min=1, max=120), help="Frames per second of the movie (default: 30).")
_speed = click.option(
    "--speed",
    type=FiniteRange(min=0, min_open=True),
    help="Plant seconds per second of the movie (default: run.speed, or faster if that takes long).",
)


def movie(function: F) -> F:
    """The arguments of a movie: --movie, --fps, --speed."""
    return _movie(_fps(_speed(function)))


page = click.option(
    "--page", is_flag=False, flag_value=0, type=Port(0, 65535), metavar="[PORT]", help="Serve a page on the run."
)


def launch_file(function: F) -> F:
    """The arguments of `resolved`: FILE, --set, --no-code."""
    return _file(overrides(no_code(function)))


def window(function: F) -> F:
    """The arguments of `start_checks.window_options`: --panel, --window, --save."""
    return _panels(_window(_save(function)))


def resolved(file: str, overrides: Sequence[str], no_code: bool, strict: bool = True) -> "ClosedLoop":
    """The resolved launch file; without `strict` also one that would be refused at the start of a run."""
    if file.endswith(".mcap"):  # the launch file in a recording
        from servonode.bags.bag import read_bag

        return read_bag(Path(file)).closed_loop(overrides, code=not no_code, strict=strict)
    from servonode.closed_loop.closed_loop import resolve
    from servonode.closed_loop.launch_file import read_launch

    return resolve(read_launch(file, overrides), strict=strict, code=not no_code)
