"""`servonode protocol`: checks the messages of a machine in another process."""

import json
import sys

import click

from servonode.cli import verb


@verb.group
def protocol() -> None:
    """Check a machine program against docs/protocol.md."""


@protocol.command(
    "check",
    cls=verb.Verb,
    examples=(
        "servonode protocol check --launch trailer_pursuit_external",
        "servonode protocol check ipc:///run/user/1000/servonode/devices/diff_drive_trailer",
        "servonode protocol check tcp://127.0.0.1:9873 tcp://127.0.0.1:9874 --machine diff_drive_trailer",
    ),
    exits={
        0: "nothing was found",
        1: "something was found",
        2: "bad usage or input, or nobody there",
        **verb.INTERRUPTED,
    },
)
@click.argument("addresses", metavar="[ADDRESS | STATE APPLIED]", nargs=-1)
@click.option("--launch", "file", metavar="FILE", help="The launch file whose machine, names and times are used.")
@click.option("--machine", metavar="NAME", help="The machine, where there is no launch file.")
@verb.wait
@verb.overrides
@verb.as_json
def check(
    addresses: tuple[str, ...], file: str | None, machine: str | None, wait: float, overrides: tuple[str, ...],
    as_json: bool,
) -> None:  # fmt: skip
    """Talk to a machine program as a host does, and judge its answers.

    What it does otherwise than docs/protocol.md says is named. The inputs that are sent are zero or 1e-6: nothing is
    moved by them, but move the machine by hand meanwhile, so that signs can be seen. STATE and APPLIED are its two
    addresses; ADDRESS stands for ADDRESS.state and ADDRESS.applied, or for a tcp port and the next one; without any it
    is the launch file's, or the private one of the machine's name.
    """
    from servonode.nodes.protocol_check import Plan, both_addresses, check_protocol, meant

    if len(addresses) > 2:
        raise click.UsageError("give one address, or those of states and of what is applied")
    closed_loop = meant(file, machine, addresses, overrides)
    verdict = check_protocol(closed_loop, both_addresses(closed_loop, addresses), Plan(wait=wait))
    click.echo(json.dumps(verdict.as_dict()) if as_json else verdict.text())
    sys.exit(1 if verdict.findings else 0)
