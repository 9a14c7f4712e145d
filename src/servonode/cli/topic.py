"""`servonode topic`: what the nodes of a run publish, and what each topic carries."""

import json
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import click

from servonode.cli import topic_rates, verb
from servonode.cli.command import command, group, option
from servonode.cli.listening import WHICH, messages, printing, run_and
from servonode.cli.options import COUNT, WHICH_RUN, AsJson, FiniteRange, OneRun
from servonode.cli.topic_rates import OneTopic

if TYPE_CHECKING:
    from servonode.cli.topic_table import TopicEntry
    from servonode.operator.find_runs import Found

SHOWN = {0: "shown", **verb.BAD_USAGE, **verb.INTERRUPTED}
EXITS = {
    0: "the run has ended, or COUNT messages were printed",
    1: "no message within the timeout",
    2: "bad usage, or no such run, topic or field",
    **verb.INTERRUPTED,
}


@group
def topic() -> None:
    """List, describe and print the topics of a run."""


_command = partial(command, of=topic, logs=False)


@_command(
    ("servonode topic list", "servonode topic list trailer_pursuit -t", "servonode topic list -v"),
    SHOWN,
    name="list",
    help=f"Show the topics of a run, or all topics if no run is in progress.\n\n{WHICH_RUN}",
)
def list_(
    name: OneRun,
    show_types: Annotated[bool, option("Show the type of the messages.", flag="-t --show-types")],
    verbose: Annotated[bool, option("Show types, publishers, subscribers and contents.", flag="-v --verbose")],
    as_json: AsJson,
) -> None:
    from servonode.cli.topic_table import summary

    run, entries = _topics(name)
    with printing():
        if as_json:
            click.echo(json.dumps([each.as_dict() for each in entries]))
        for each in entries if not as_json else ():
            if verbose or run is None:
                click.echo(summary(each))
            else:
                click.echo(f"{each.name} [{each.type}]" if show_types else each.name)


@_command(
    ("servonode topic info state", "servonode topic info trailer_pursuit plant/status --json"),
    SHOWN,
    help=f"Show the contents, the publishers and the subscribers of a topic.\n\n"
    f"{WHICH} If no run is in progress, the command describes the topics of any run.",
)
def info(words: OneTopic, as_json: AsJson) -> None:
    from servonode.cli.topic_table import described
    from servonode.operator.listener import named

    name, word = run_and("topic", words)
    run, entries = _topics(name)
    wanted = named(word, {each.node: None for each in entries})
    found = [each for each in entries if each.topic in wanted.get(each.node, ())]
    address = run.registry.get("telemetry") if run else None
    with printing():
        if as_json:
            content = [each.as_dict() | {"fields": each.fields(), "telemetry": address} for each in found]
            click.echo(json.dumps(content))
        else:
            click.echo(described(found, address))


@_command(
    (
        "servonode topic echo state",
        "servonode topic echo state --field state.V --once",
        "servonode topic echo state --field t --field state --csv > states.csv",
        "servonode topic echo trailer_pursuit plant/status -n 1 --json",
    ),
    EXITS,
    help=f"Print the messages of a topic, one per line.\n\n{WHICH} The run never waits for this command.",
)
def echo(
    words: OneTopic,
    fields: Annotated[
        tuple[str, ...], option("Print only this field, such as state.V (repeatable).", "FIELD", flag="--field")
    ],
    as_csv: Annotated[bool, option("Print CSV: a line of names, then a line of values per message.", flag="--csv")],
    as_json: Annotated[bool, option("Print each message as a JSON object on one line.", flag="--json")],
    count: Annotated[int | None, option("End after this many messages.", "COUNT", COUNT, flag="-n")],
    once: Annotated[bool, option("End after one message.")],
    timeout: Annotated[float | None, option("End when no message comes for this long.", "SECONDS", FiniteRange(min=0))],
) -> None:
    from servonode.cli.topic_values import Printer

    if as_csv and as_json:
        raise click.UsageError("give --csv or --json, not both")
    if once and count not in (None, 1):
        raise click.UsageError("give --once or -n COUNT, not both")
    printer = Printer(fields, "csv" if as_csv else "json" if as_json else "text")
    with messages(words, timeout) as came, printing():
        for message in islice(came, 1 if once else count):
            printer.show(message)


def _topics(name: str | None) -> "tuple[Found | None, list[TopicEntry]]":
    """A run, by name or the only one in progress, and its topics; None and those of any run where none is in progress.

    Then a message says so.
    """
    from servonode.cli.topic_table import table
    from servonode.operator.find_runs import find_run, find_runs

    if name is None and not find_runs():
        click.echo("servonode: no run is in progress; these are the topics of any run", err=True)
        return None, table(None)
    return (run := find_run(name)), table(run.described()["nodes"])


for _rate in (topic_rates.hz, topic_rates.bw, topic_rates.delay):
    topic.add_command(_rate)
