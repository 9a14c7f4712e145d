"""`servonode record`: a recording of a run that is going on already."""

from pathlib import Path

import click

from servonode.cli import verb


@click.command(
    cls=verb.Verb,
    examples=("servonode record", "servonode record trailer_pursuit --out pursuit.mcap"),
    exits={
        0: "the run has ended, or Ctrl-C, and the recording is whole",
        1: "messages are missing, or the recording ended before the run",
        2: "bad usage or input, or no such run",
        143: verb.BROKEN_OFF[143],
    },
)
@click.argument("name", metavar="[RUN]", required=False)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.mcap", help="Default: RUN.mcap.")
def record(name: str | None, out: Path | None) -> None:
    """Record what a run publishes from now on, until it ends or Ctrl-C.

    RUN is the name of a run, or its folder; without it the one run of this user that is going on. The run never waits
    for this command; what it sends faster than this is read is missing, which is counted. servonode run --record
    misses nothing.
    """
    import sys

    from servonode.bags.listen import record_run
    from servonode.cli.deliver import Signals
    from servonode.cli.start_checks import bag_file
    from servonode.nodes.find_runs import find_run

    found = find_run(name)
    file = bag_file("" if out is None else str(out), found.name if "/" not in found.name else "run", option="--out")
    with Signals() as signals:
        signals.raises = False
        click.echo(f"{found.name}: recording into {file}; Ctrl-C ends it", err=True)
        made = record_run(found, file, lambda: signals.number is not None)
    missing = sum(made.missing.values())
    click.echo(f"{file} ({made.messages} messages" + (f", {missing} missing)" if missing else ")"))
    for text in made.problems:
        click.echo(f"servonode: {text}", err=True)
    sys.exit(1 if missing or made.problems else 0)
