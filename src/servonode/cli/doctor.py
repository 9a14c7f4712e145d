"""`servonode doctor`: what of this computer matters to a run."""

import json
import sys
from dataclasses import asdict

import click

from servonode.cli import verb
from servonode.cli.command import command
from servonode.cli.options import AsJson

MARKS = {"good": "ok  ", "note": "note", "wrong": "WRONG"}


@command(
    ("servonode doctor", "servonode doctor --json"),
    {0: "runs can start here; notes may stand in the way of real time", 1: "something will not work"}
    | verb.BAD_USAGE
    | verb.INTERRUPTED,
    logs=False,
)
def doctor(as_json: AsJson) -> None:
    """Look at this computer: clock, limits, cores, folders, extras.

    Each finding says what it means, and what helps. Nothing is changed.
    """
    from servonode.operator.doctor import findings

    found = findings()
    code = 1 if any(each.level == "wrong" for each in found) else 0
    if as_json:
        click.echo(json.dumps({"findings": [asdict(each) for each in found], "exit": code}))
    subject = ""
    for each in () if as_json else found:
        click.echo(f"{each.subject if each.subject != subject else '':<8} {MARKS[each.level]:<5} {each.text}")
        if each.remedy:
            click.echo(f"{'':<15}{each.remedy}")
        subject = each.subject
    sys.exit(code)
