"""`servonode topic`: what the nodes of a run publish."""

import json
import os
import sys
from functools import partial
from itertools import islice
from typing import Any

import click

from servonode.cli import verb

EXITS = {0: "the run has ended, or COUNT messages were printed", 2: "bad usage, no such run or topic"}
EXAMPLES = ("servonode topic echo state", "servonode topic echo trailer_pursuit plant/status -n 1 --json")
HEAD = ("node", "t", "run", "src", "mono")  # stands in front, or is for programs only


@click.group(invoke_without_command=True)
@click.pass_context
def topic(ctx: click.Context) -> None:
    """Listen to what the nodes of a run publish."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@topic.command(cls=verb.Verb, logs=False, examples=EXAMPLES, exits=EXITS | verb.INTERRUPTED)
@click.argument("words", metavar="[RUN] TOPIC", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print each message as a JSON object in a line of its own.")
@click.option("-n", "count", type=click.IntRange(min=1), metavar="COUNT", help="End after so many messages.")
def echo(words: tuple[str, ...], as_json: bool, count: int | None) -> None:
    """Print what a run publishes on a topic, a message a line.

    TOPIC is applied, command, report, state, status or target, or NODE/TOPIC for one node's. RUN is the name of a run,
    or its folder; without it the one run of this user that is going on. The run never waits for this command.
    """
    from msgspec import to_builtins

    from servonode.nodes.find_runs import find_run
    from servonode.nodes.listener import Listener, give_way, named

    if len(words) > 2:
        raise click.UsageError("give one topic, and before it at most one run")
    give_way()
    with Listener(str(find_run(*words[:-1]).path), partial(named, words[-1]), "echo") as listener:
        listener.wait_open()
        try:
            for found, message in islice(listener.messages(), count):
                fields = to_builtins(message)
                head = f"{message.node}/{found} t={message.t:.9g}"
                click.echo(json.dumps({"topic": found, **fields}) if as_json else f"{head} {_text(fields)}")
        except BrokenPipeError:  # as `head` leaves; the interpreter writes nothing more at its end either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _text(value: Any, name: str = "") -> str:
    if isinstance(value, dict):
        shown = {key: each for key, each in value.items() if each != {} and (name or key not in HEAD)}
        return " ".join(_text(each, f"{name}.{key}".lstrip(".")) for key, each in shown.items())
    return f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={json.dumps(value)}"
