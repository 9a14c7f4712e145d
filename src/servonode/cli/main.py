"""The command line `servonode`: its commands by section, and the message and exit code of every error."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from servonode import extensions
from servonode.cli import heed_interrupts
from servonode.errors import ServonodeError, did_you_mean
from servonode.version import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS = {  # the sections of the help in their order; for each command of the core, the file of cli/ that defines it
    "Run, simulate, check": {
        "run": "run",
        "simulate": "simulate",
        "check": "simulate",
        "compare": "compare",
    },
    "Explore": {},
    "Operate": {
        "status": "operate",
        "goal": "operate",
        "arm": "operate",
        "disarm": "operate",
        "reset": "operate",
        "estop": "operate",
        "pause": "operate",
        "resume": "operate",
        "step": "operate",
        "speed": "operate",
        "fault": "operate",
        "plot": "plot",
        "param": "param",
        "topic": "topic",
        "node": "topic",
        "recover": "recordings",
        "replay": "recordings",
        "bag": "bag",
        "record": "recordings",
        "keys": "keys",
    },
    "Create": {
        "new": "create",
        "completion": "inspect",
    },
    "Inspect": {
        "list": "inspect",
        "show": "inspect",
        "doctor": "inspect",
        "bench": "inspect",
    },
}
FILES = {verb: file for verbs in VERBS.values() for verb, file in verbs.items()}
COMMANDS = "commands"  # the kind of extension
ELSEWHERE = "Other packages"  # the section of a command that names none


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn every error of a command into one line on standard error and an exit code."""
    try:
        heed_interrupts()
        yield
        return
    except ServonodeError as error:
        text, code = str(error), error.exit_code
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption):
            near = [each for each in error.possibilities or () if each.lstrip("-") not in UNSUGGESTED]
            name, former = error.option_name, FORMER.get(error.option_name)
            error = click.NoSuchOption(name, former, () if former else near, error.ctx)
        text, code = " ".join(error.format_message().split()), error.exit_code
        if isinstance(error, click.UsageError) and error.ctx is not None:
            text = f"{text.rstrip('.')}{'' if text.endswith('?') else ';'} see {error.ctx.command_path} --help"
    except OSError as error:
        where = error.filename or "the output"
        text, code = f"{where}: cannot be written ({error.strerror or error}); name another file", 2
    except KeyboardInterrupt as interrupt:
        text, code = "interrupted", 128 + getattr(interrupt, "number", signal.SIGINT)
    from servonode.cli.terminal import painted

    click.echo(painted(f"servonode: {text}", sys.stderr), err=True)
    sys.exit(code)


# they release or begin motion, and nobody types them for a near word
UNSUGGESTED = {"arm", "disarm", "reset", "resume", "step"}
FORMER = {  # what --output was in earlier releases
    name: f"No such option {name!r}. Did you mean '--output'?" for name in ("--out", "--picture")
}
HELP, NO_COLOUR = "help", "--no-color"


class Verbs(click.Group):
    """The commands of core, wings and other packages; the file of a command is loaded when the command is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*FILES, *extensions.of_wings(COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in FILES:
            try:
                added = extensions.find(COMMANDS, cmd_name)
                return None if added is None else added.load(click.Command)
            except extensions.ExtensionError:
                if ctx.resilient_parsing:  # a shell that completes has no place for an error
                    return None
                raise
        content = vars(import_module(f"servonode.cli.{FILES[cmd_name]}")).values()
        return next(each for each in content if isinstance(each, click.Command) and each.name == cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line, in which `help bag info` is `bag info --help`."""
        if args[:1] == [HELP]:
            args = [*(word for word in args[1:] if not word.startswith("-")), "--help"]
        if NO_COLOUR in args:  # wherever it stands
            args = [word for word in args if word != NO_COLOUR]
            os.environ["NO_COLOR"] = "1"
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = args[0].startswith("-") or args[0] in FILES or ctx.resilient_parsing
        if not known and extensions.find(COMMANDS, args[0]) is None:
            near = did_you_mean(args[0], {HELP, *FILES, *extensions.names(COMMANDS)} - UNSUGGESTED, most=3)
            raise click.UsageError(f"there is no command {args[0]!r}; {near}".rstrip("; "), ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The names that may follow, those of other packages too."""
        from click.shell_completion import CompletionItem

        added = [HELP, *(name for name in extensions.of_packages(COMMANDS) if name not in FILES)]
        found = super().shell_complete(ctx, incomplete)
        return found + [CompletionItem(name) for name in added if name.startswith(incomplete)]

    def by_section(self, ctx: click.Context) -> dict[str, list[click.Command]]:
        """The commands of core and wings, by the section of the help."""
        found = dict[str, list[click.Command]]({section: [] for section in VERBS})
        sections = {verb: section for section, verbs in VERBS.items() for verb in verbs}
        for name in self.list_commands(ctx):
            if (command := self.get_command(ctx, name)) is not None:
                section = sections.get(name) or getattr(command, "section", "") or ELSEWHERE
                found.setdefault(section, []).append(command)
        return {section: commands for section, commands in found.items() if commands}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = self.by_section(ctx)
        width = max(len(str(each.name)) for commands in sections.values() for each in commands)
        for section, commands in sections.items():
            with formatter.section(section):
                formatter.write_dl([(f"{each.name:<{width}}", each.get_short_help_str(limit=999)) for each in commands])

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with _one_line():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with _one_line():
            return super().invoke(ctx)


@click.command(
    "servonode",
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]",
    epilog="servonode help COMMAND, or COMMAND --help, shows examples, options and exit codes.",
)
@click.version_option(VERSION, "-v", "--version", message="servonode %(version)s")
@click.option(
    NO_COLOUR, is_flag=True, expose_value=False, help="No colours, as where NO_COLOR is set or CLICOLOR is 0."
)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Turn equations into a running control system.

    FILE is the path of a launch file, or the name of a packaged one (servonode list launch).
    """
    from servonode.nodes.terminal import fill_closed

    ctx.obj = fill_closed()  # before anything is opened
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread per node; must precede numpy
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


if __name__ == "__main__":
    main()
