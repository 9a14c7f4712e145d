"""`servonode topic`: what the nodes of a run publish, and what each topic carries."""

import json
from itertools import islice
from typing import TYPE_CHECKING

import click

from servonode.cli import topic_rates, verb
from servonode.cli.listening import WHICH, messages, printing, run_and

if TYPE_CHECKING:
    from servonode.cli.topic_table import TopicEntry
    from servonode.nodes.find_runs import Found

SHOWN = {0: "shown", **verb.BAD_USAGE, **verb.INTERRUPTED}
EXITS = {
    0: "the run has ended, or COUNT messages were printed",
    1: "nothing came for SECONDS",
    2: "bad usage, no such run, topic or field",
    **verb.INTERRUPTED,
}


@verb.group
def topic() -> None:
    """Look at what the nodes of a run publish."""


@topic.command(
    "list",
    cls=verb.Verb,
    logs=False,
    examples=("servonode topic list", "servonode topic list trailer_pursuit -t", "servonode topic list -v"),
    exits=SHOWN,
    help="Show the topics of a run; without a run, all that there are.\n\n"
    "RUN is the name of a run, or its folder; without it the one run of this user that is going on.",
)
@click.argument("name", metavar="[RUN]", required=False)
@click.option("-t", "--show-types", is_flag=True, help="With the type of their messages.")
@click.option("-v", "--verbose", is_flag=True, help="With types, publishers, subscribers and what they carry.")
@verb.as_json
def list_(name: str | None, show_types: bool, verbose: bool, as_json: bool) -> None:
    from servonode.cli.topic_table import summary, table

    run = _run(name)
    entries = table(run.described()["nodes"] if run else None)
    with printing():
        if as_json:
            click.echo(json.dumps([each.as_dict() for each in entries]))
        for each in entries if not as_json else ():
            if verbose or run is None:
                click.echo(summary(each))
            else:
                click.echo(f"{each.name} [{each.type}]" if show_types else each.name)


@topic.command(
    cls=verb.Verb,
    logs=False,
    examples=("servonode topic info state", "servonode topic info trailer_pursuit plant/status --json"),
    exits=SHOWN,
    help=f"Show what a topic carries, its publishers and its subscribers.\n\n{WHICH} Without a run: of any run.",
)
@click.argument("words", metavar="[RUN] TOPIC", nargs=-1, required=True)
@verb.as_json
def info(words: tuple[str, ...], as_json: bool) -> None:
    from servonode.cli.topic_table import described, table
    from servonode.nodes.listener import named

    name, word = run_and("topic", words)
    run = _run(name)
    entries = table(run.described()["nodes"] if run else None)
    wanted = named(word, {each.node: None for each in entries})
    found: list[TopicEntry] = [each for each in entries if each.topic in wanted.get(each.node, ())]
    address = run.registry.get("telemetry") if run else None
    with printing():
        if as_json:
            content = [each.as_dict() | {"fields": each.fields(), "telemetry": address} for each in found]
            click.echo(json.dumps(content))
        else:
            click.echo(described(found, address))


@topic.command(
    cls=verb.Verb,
    logs=False,
    examples=(
        "servonode topic echo state",
        "servonode topic echo state --field state.V --once",
        "servonode topic echo state --field t --field state --csv > states.csv",
        "servonode topic echo trailer_pursuit plant/status -n 1 --json",
    ),
    exits=EXITS,
    help=f"Print what a run publishes on a topic, a message a line.\n\n{WHICH} The run never waits for this command.",
)
@click.argument("words", metavar="[RUN] TOPIC", nargs=-1, required=True)
@click.option("--field", "fields", multiple=True, metavar="FIELD", help="Only this, such as state.V (repeatable).")
@click.option("--csv", "as_csv", is_flag=True, help="Print a line of names, then a line of values each.")
@click.option("--json", "as_json", is_flag=True, help="Print each message as a JSON object in a line of its own.")
@click.option("-n", "count", type=click.IntRange(min=1), metavar="COUNT", help="End after so many messages.")
@click.option("--once", is_flag=True, help="End after one message.")
@click.option("--timeout", type=verb.FiniteRange(min=0), metavar="SECONDS", help="End when nothing comes for so long.")
def echo(
    words: tuple[str, ...],
    fields: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
    count: int | None,
    once: bool,
    timeout: float | None,
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


def _run(name: str | None) -> "Found | None":
    """The run that is meant; None, which is told, where none is named and none is going on."""
    from servonode.nodes.find_runs import find_run, find_runs

    if name is None and not find_runs():
        click.echo("servonode: no run is going on; this is what any run publishes", err=True)
        return None
    return find_run(name)


for _rate in (topic_rates.hz, topic_rates.bw, topic_rates.delay):
    topic.add_command(_rate)
