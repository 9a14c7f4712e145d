"""`servonode record`: record a run that is already in progress."""

import sys
from pathlib import Path
from typing import Annotated

import click

from servonode.cli import verb
from servonode.cli.command import command, option
from servonode.cli.options import AsJson, OneRun


@command(
    ("servonode record", "servonode record trailer_pursuit --out pursuit.mcap"),
    {
        0: "the run ended, or Ctrl-C; the recording is complete",
        1: "messages are missing, or the recording ended before the run did",
        2: "bad usage or input, or no such run",
        143: verb.BROKEN_OFF[143],
    },
)
def record(
    name: OneRun,
    out: Annotated[Path | None, option("Where to write the recording (default: RUN.mcap).", "FILE.mcap")],
    as_json: AsJson,
) -> None:
    """Record the messages of a run until it ends, or until Ctrl-C.

    RUN is the name or the folder of a run in progress. Without RUN, the command takes your only run. The run never
    waits for this command: messages that come faster than they can be read are lost and counted. servonode run
    --record loses none.
    """
    from servonode.cli.deliver import Signals
    from servonode.cli.start_checks import bag_file
    from servonode.operator.find_runs import find_run
    from servonode.operator.record_live import record_run

    found = find_run(name)
    file = bag_file("" if out is None else str(out), found.name if "/" not in found.name else "run", option="--out")
    with Signals() as signals:
        signals.raises = False
        click.echo(f"{found.name}: recording into {file}; Ctrl-C ends it", err=True)
        made = record_run(found, file, lambda: signals.number is not None)
    missing = sum(made.missing.values())
    lacks = f", {missing} missing" if missing else ""
    said = {"file": str(file), "messages": made.messages, "missing": made.missing, "problems": made.problems}
    verb.show(said, as_json, f"{file} ({made.messages} messages{lacks})")
    for text in made.problems:
        click.echo(f"servonode: {text}", err=True)
    sys.exit(1 if missing or made.problems else 0)
