"""`servonode record`, `recover` and `replay`: recordings made beside a run, made whole, and run again."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from servonode.cli import verb
from servonode.cli.command import argument, command, option, output
from servonode.cli.options import AsJson, Code, OneRun, Overrides

if TYPE_CHECKING:
    from servonode.simulation.replay import Replay


@command(
    ("servonode record", "servonode record trailer_pursuit --output pursuit.mcap"),
    {
        0: "the run ended, or Ctrl-C; the recording is complete",
        1: "messages are missing, or the recording ended before the run did",
        2: "bad usage or input, or no such run",
        143: verb.BROKEN_OFF[143],
    },
)
def record(
    name: OneRun,
    out: Annotated[Path | None, output("Where to write the recording (default: RUN.mcap).", "FILE.mcap")],
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
    file = bag_file("" if out is None else str(out), found.name if "/" not in found.name else "run", option="--output")
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


OUT = "Where to write the data (default: beside SPOOL, named after it)."
RAW = "Write only the recorded data, one file per node; needs no machine and program."


@command(
    (
        "servonode recover my_robot.csv.spool",
        "servonode recover my_robot.csv.spool --output recovered.csv",
        "servonode recover my_robot.csv.spool --raw --output recovered.csv",
    ),
    {0: "the intact data were written", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
def recover(
    spool: Annotated[Path, argument("SPOOL")],
    out: Annotated[Path | None, output(OUT, "FILE.csv")],
    raw: Annotated[bool, option(RAW)],
    code: Code,
    as_json: AsJson,
) -> None:
    """Write the CSV file of a run that could not write it itself.

    The data come from SPOOL, which the run wrote beside its CSV file. Damaged parts are left out and reported. SPOOL
    and existing files are not changed.
    """
    from servonode.cli.start_checks import check_ending
    from servonode.record.recover import recover_rows

    check_ending(out, ".csv")
    verb.show_lines(recover_rows(spool, out, raw, code), as_json)


@command(
    (
        "servonode replay trailer_pursuit.mcap",
        "servonode replay trailer_pursuit.mcap --diff --set controller.gains.lambda=2.001",
        "servonode replay trailer_pursuit_lockstep.mcap --again",
    ),
    {0: "all bits are equal", 1: "a command differs", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
def replay(
    bag: Annotated[Path, argument("BAG")],
    overrides: Overrides,
    code: Code,
    as_json: AsJson,
    diff: Annotated[bool, option("Show the first difference of each field.")],
    again: Annotated[bool, option("Run all nodes again in lockstep, and compare all messages.")],
) -> None:
    """Run the controller of BAG again on its recorded states.

    Every command is computed again and compared with the recorded one bit by bit. --set changes the recorded launch
    file, for example to see the commands of another gain.
    """
    from servonode.record.mcap_records import parts_of

    parts = parts_of(bag)
    found = {part: _replayed(part, overrides, code, again) for part in parts}
    answers = {part.name: _as_dict(each) for part, each in found.items()}
    text = "\n".join(_text(part, each, "messages" if again else "commands", diff) for part, each in found.items())
    verb.show({"robots": answers} if parts != [bag] else answers[bag.name], as_json, text)
    sys.exit(1 if any(each.differing for each in found.values()) else 0)


def _replayed(bag: Path, overrides: tuple[str, ...], code: bool | None, again: bool) -> "Replay":
    from servonode.record.bag import read_bag
    from servonode.simulation.replay import changed_files, made_otherwise, replay
    from servonode.simulation.rerun import run_again

    recorded = read_bag(bag)
    for text in made_otherwise(recorded):
        click.echo(f"servonode: {bag}: made by {text}; bits may differ", err=True)
    if "incomplete" in recorded.ending:
        click.echo(f"servonode: {bag}: {recorded.ended}", err=True)
    for text in changed_files(recorded):
        click.echo(f"servonode: {bag}: {text}; commands may differ", err=True)
    closed_loop = recorded.closed_loop(overrides, code=code)
    return run_again(recorded, closed_loop) if again else replay(recorded, closed_loop)


def _as_dict(found: "Replay") -> dict[str, Any]:
    first = {name: each.as_dict() for name, each in found.first.items()}
    differing = {"differing": found.differing_messages, "fields": dict(found.differing), "first": first}
    return {"compared": found.compared, "left_out": found.left_out, **differing}


def _text(bag: Path, found: "Replay", what: str, diff: bool) -> str:
    left_out = f"; {found.left_out} left out, for their state, goal or numbers are not in it" if found.left_out else ""
    first = list(found.first.values())[: None if diff else 1]
    return "\n".join(
        [f"{bag}: {found.compared} {what} compared, {found.differing_messages} differ{left_out}"]
        + [f"  {each}" + (f" ({found.differing[each.name]} differ)" if diff else "") for each in first]
    )
