"""`servonode protocol`: check the messages of a machine in another process."""

import json
import sys

import click

from servonode.cli import verb


@verb.group
def protocol() -> None:
    """Check a machine program against the protocol.

    The protocol: https://servonode.readthedocs.io/page/reference/protocol.html
    """


@protocol.command(
    "check",
    cls=verb.Verb,
    examples=(
        "servonode protocol check --launch trailer_pursuit_external",
        "servonode protocol check ipc:///run/user/1000/servonode/devices/diff_drive_trailer",
        "servonode protocol check tcp://127.0.0.1:9873 tcp://127.0.0.1:9874 --machine diff_drive_trailer",
    ),
    exits={
        0: "all checks passed",
        1: "a check failed, or could not be decided",
        2: "bad usage or input, or no answer",
        **verb.INTERRUPTED,
    },
)
@click.argument("addresses", metavar="[ADDRESS | STATE APPLIED]", nargs=-1)
@click.option("--launch", "file", metavar="FILE", help="Use the machine, names and times of this launch file.")
@click.option("--machine", metavar="NAME", help="Use this machine, without a launch file.")
@verb.wait
@verb.key
@verb.overrides
@verb.as_json
def check(
    addresses: tuple[str, ...], file: str | None, machine: str | None, wait: float, key: str | None,
    overrides: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Act as the host of a machine program, and check its messages.

    The command reports every deviation from the protocol:
    https://servonode.readthedocs.io/page/reference/protocol.html

    The inputs that it sends are zero or 1e-6, so they move nothing; move the machine by hand meanwhile, so that the
    signs can be checked. STATE and APPLIED are the two addresses of the machine. ADDRESS stands for ADDRESS.state and
    ADDRESS.applied, or for a tcp port and the next one. The default is the address in the launch file, or the private
    address for the machine's name.
    """
    from servonode.acceptance.protocol_check import Plan, both_addresses, check_protocol, meant
    from servonode.closed_loop.closed_loop import with_keys

    if len(addresses) > 2:
        raise click.UsageError("give one address, or two: that of the states and that of the applied inputs")
    closed_loop = with_keys(meant(file, machine, addresses, overrides), key or "", insecure=False)
    verdict = check_protocol(closed_loop, both_addresses(closed_loop, addresses), Plan(wait=wait))
    click.echo(json.dumps(verdict.as_dict()) if as_json else verdict.text())
    sys.exit(0 if verdict.verdict == "yes" else 1)
