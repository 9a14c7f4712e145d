"""Commands from signatures: what the annotation of a parameter states is an argument or an option of the command.

    @command(("servonode plot my_run",), {0: "shown", **BAD_USAGE})
    def plot(name: OneRun, window: Annotated[float | None, option("Length of the window.", "SECONDS")]) -> None:
        \"\"\"Show a run in a window.\"\"\"

The help of the command begins with its examples and ends with its exit codes. A parameter whose type is a dataclass
of such fields stands for all of them.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import click

from servonode.errors import did_you_mean, listed

FILE = click.Path(path_type=Path)


class Verb(click.Command):
    """A command whose help begins with examples and ends with its exit codes.

    exits: the meaning of each exit code of the command. logs: whether messages that the libraries log go to standard
    error; without it the logging module is not loaded. section: of the help of servonode, for one that an extension
    adds.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str],
        exits: Mapping[int, str],
        logs: bool = True,
        section: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples, self.exits, self.logs, self.section = examples, exits, logs, section

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


class Group(click.Group):
    """A command with subcommands; section: as of a `Verb`."""

    section: str = ""


class Choice(click.Choice[str]):
    """One of some words; the error for another one has the word that is near to it."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ARG002
        return f"{value!r} is unknown; {did_you_mean(str(value), self.choices)}choose {listed(self.choices)}"


def group(function: Callable[[], None], section: str = "") -> Group:
    """A command with subcommands; without a subcommand it shows its help. section: as of a `Verb`."""

    @wraps(function)
    def alone(ctx: click.Context) -> None:
        if ctx.invoked_subcommand is None:
            click.echo(ctx.get_help())

    made: Group = click.group(cls=Group, invoke_without_command=True)(click.pass_context(alone))
    made.section = section
    return made


@dataclass(frozen=True)
class Stated:
    """An argument or option, as the annotation of a parameter states it. flag: its names, where they are other ones."""

    make: Callable[..., Callable[[Any], Any]]
    flag: str
    more: Mapping[str, Any]

    def decorator(self, name: str, kind: Any, default: Any) -> Callable[[Any], Any]:
        """What adds it to a command, for a parameter with this name, type and default."""
        more, parts = dict(self.more), set(get_args(kind)) if isinstance(kind, UnionType) else {kind}
        several = get_origin(kind) is tuple
        if self.make is click.argument:
            names: tuple[str, ...] = (name,)
            more |= {"nargs": -1} if several else {}
        else:
            names = (*(self.flag.split() or [f"--{name.strip('_').replace('_', '-')}"]), name)
            more |= {"multiple": True} if several else {}
            if kind is bool:
                more |= {"is_flag": True}
            if default is not Parameter.empty:
                more |= {"default": default, "show_default": True}
        if Path in parts | set(get_args(kind)):
            more.setdefault("type", FILE)
        return self.make(*names, **more)


def option(help: str, metavar: str | None = None, type: Any = None, *, flag: str = "", **more: Any) -> Stated:
    """An option `--NAME` with this help. A `bool` takes no value, a tuple is repeatable, a `Path` is a file.

    flag: its name, where it is not the parameter's, or several with spaces between. more: as `click.option` has it. A
    default of the parameter is that of the option, and is shown. A parameter may have several options.
    """
    return Stated(click.option, flag, _given(help=help, metavar=metavar, type=type) | more)


def output(help: str, metavar: str) -> Stated:
    """The option `--output`, or `-o`: the file that a command makes."""
    return option(help, metavar, flag="--output -o")


def argument(metavar: str | None = None, type: Any = None, **more: Any) -> Stated:
    """An argument with this name in the help; a tuple takes any number of them. more: as `click.argument` has it."""
    return Stated(click.argument, "", _given(metavar=metavar, type=type) | more)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def command(
    examples: Sequence[str],
    exits: Mapping[int, str],
    *,
    of: click.Group | None = None,
    name: str | None = None,
    help: str | None = None,
    logs: bool = True,
    section: str = "",
) -> Callable[[Callable[..., None]], click.Command]:
    """A function as a command of the command line, or of a group of commands `of`; see `Verb`.

    name, help: where they are not the function's name and docstring.
    """

    def made(function: Callable[..., None]) -> click.Command:
        bundles = dict[str, tuple[Any, list[str]]]()
        decorators = []
        hints = get_type_hints(function, include_extras=True)
        for parameter in signature(function).parameters.values():
            kind = hints[parameter.name]
            if is_dataclass(kind):
                found = list(_fields(kind))
                bundles[parameter.name] = kind, [each for each, *_ in found]
                decorators += [stated.decorator(*each) for *each, stated in found]
            else:
                decorators += [
                    stated.decorator(parameter.name, kind.__origin__, parameter.default) for stated in kind.__metadata__
                ]

        @wraps(function)
        def call(**values: Any) -> None:
            whole = {
                each: kind(**{name: values.pop(name) for name in names}) for each, (kind, names) in bundles.items()
            }
            function(**values, **whole)

        for each in reversed(decorators):
            call = each(call)
        more = {} if help is None else {"help": help}
        added = (of or click).command
        return added(name, cls=Verb, examples=examples, exits=exits, logs=logs, section=section, **more)(call)

    return made


def _fields(kind: Any) -> Iterator[tuple[str, Any, Any, Stated]]:
    """Name, type, default and statement of each field of a dataclass of options."""
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        default = Parameter.empty if each.default is MISSING else each.default
        yield each.name, hints[each.name].__origin__, default, hints[each.name].__metadata__[0]
