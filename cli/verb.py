"""The common parts of the command line's verbs: help format, exit codes, options."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
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


class FiniteRange(click.FloatRange):
    """A number within bounds; neither nan nor inf is one, whatever the bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


# options

overrides = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a launch-file key (repeatable)."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
out = click.option("--out", type=click.Path(path_type=Path), metavar="FILE.csv", help="Write the whole run.")
every = click.option("--every", type=click.IntRange(min=1), help="Plant steps per recorded row.")
_file = click.argument("file", metavar="FILE")
_no_code = click.option(
    "--no-code", is_flag=True, help="Refuse a FILE that names Python code: it would run with all your rights."
)
_panels = click.option(
    "--panel", "panels", multiple=True, metavar="NAME,NAME", help="A panel of the window with these (repeatable)."
)
_window = click.option(
    "--window", type=FiniteRange(min=0, min_open=True), metavar="SECONDS", help="Plant time that the window shows."
)
_save = click.option("--save", type=click.Path(path_type=Path), metavar="FILE.png", help="Where the window's s saves.")


def launch_file(function: F) -> F:
    """The arguments of `resolved`: FILE, --set, --no-code."""
    return _file(overrides(_no_code(function)))


def window(function: F) -> F:
    """The arguments of `start_checks.window_options`: --panel, --window, --save."""
    return _panels(_window(_save(function)))


def resolved(file: str, overrides: Sequence[str], no_code: bool, strict: bool = True) -> "ClosedLoop":
    """The resolved launch file; without `strict` also one that would be refused at the start of a run."""
    from servonode.closed_loop.closed_loop import resolve
    from servonode.closed_loop.launch_file import read_launch

    return resolve(read_launch(file, overrides), strict=strict, code=not no_code)
