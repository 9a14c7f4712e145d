"""The command line `servonode`: its commands by section, and the message and exit code of every error."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from servonode.cli import heed_interrupts
from servonode.errors import ServonodeError, did_you_mean
from servonode.version import VERSION

METHODS = "wings.explore.commands.methods"  # the file of the verbs that call a method of `Loop`
VERBS = {  # the sections of the help in their order; for each command, the module that defines it
    "Run, simulate, check": {
        "run": "cli.run",
        "simulate": "cli.simulate",
        "check": "cli.simulate",
        "compare": "cli.compare",
    },
    "Explore": {
        "sweep": "wings.explore.commands.sweep",
        **dict.fromkeys(("region", "robustness", "tune", "fastest"), METHODS),
        "identify": "wings.explore.commands.identify",
    },
    "Operate": {
        "status": "cli.operate",
        "goal": "cli.operate",
        "arm": "cli.operate",
        "disarm": "cli.operate",
        "reset": "cli.operate",
        "estop": "cli.operate",
        "pause": "cli.operate",
        "resume": "cli.operate",
        "step": "cli.operate",
        "speed": "cli.operate",
        "fault": "cli.operate",
        "plot": "cli.viewers",
        "param": "cli.param",
        "page": "cli.viewers",
        "bridge": "cli.viewers",
        "topic": "cli.topic",
        "node": "cli.topic",
        "recover": "cli.recordings",
        "replay": "cli.recordings",
        "bag": "cli.bag",
        "record": "cli.recordings",
        "keys": "cli.keys",
    },
    "Create": {
        "new": "cli.create",
        "completion": "cli.inspect",
    },
    "Inspect": {
        "list": "cli.inspect",
        "show": "cli.inspect",
        "protocol": "wings.acceptance.commands",
        "hil": "wings.acceptance.commands",
        "doctor": "cli.inspect",
        "bench": "cli.inspect",
    },
}
FILES = {verb: file for verbs in VERBS.values() for verb, file in verbs.items()}


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
            error = click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx)
        text, code = " ".join(error.format_message().split()), error.exit_code
        if isinstance(error, click.UsageError) and error.ctx is not None:
            text = f"{text.rstrip('.')}{'' if text.endswith('?') else ';'} see {error.ctx.command_path} --help"
    except OSError as error:
        where = error.filename or "the output"
        text, code = f"{where}: cannot be written ({error.strerror or error}); name another file", 2
    except KeyboardInterrupt as interrupt:
        text, code = "interrupted", 128 + getattr(interrupt, "number", signal.SIGINT)
    click.echo(f"servonode: {text}", err=True)
    sys.exit(code)


# they release or begin motion, and nobody types them for a near word
UNSUGGESTED = {"arm", "disarm", "reset", "resume", "step"}


class Verbs(click.Group):
    """The commands of the table; the file of a command is loaded when the command is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(FILES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in FILES:
            return None
        module = import_module(f"servonode.{FILES[cmd_name]}")
        if FILES[cmd_name] == METHODS:
            return module.MethodVerb(cmd_name, module.METHODS[cmd_name])  # type: ignore[no-any-return]
        content = vars(module).values()
        return next(each for each in content if isinstance(each, click.Command) and each.name == cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in FILES and not args[0].startswith("-"):
            near = did_you_mean(args[0], FILES.keys() - UNSUGGESTED, most=3)
            raise click.UsageError(f"there is no command {args[0]!r}; {near}".rstrip("; "), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, FILES))
        for section, verbs in VERBS.items():
            found = [command for verb in verbs if (command := self.get_command(ctx, verb))]
            with formatter.section(section):
                formatter.write_dl([(f"{each.name:<{width}}", each.get_short_help_str(limit=999)) for each in found])

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
    epilog="servonode COMMAND --help shows examples, options and exit codes.",
)
@click.version_option(VERSION, message="servonode %(version)s")
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
