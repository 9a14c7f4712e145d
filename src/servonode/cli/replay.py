"""`servonode replay`: run the controller of a recording again on the recorded states."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from servonode.cli import verb
from servonode.cli.command import argument, command, option
from servonode.cli.options import AsJson, Code, Overrides

if TYPE_CHECKING:
    from servonode.simulation.replay import Replay


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
