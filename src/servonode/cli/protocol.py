"""`servonode protocol`: check the messages of a machine in another process."""

import json
import sys
from typing import Annotated

import click

from servonode.cli import verb
from servonode.cli.command import argument, command, group, option
from servonode.cli.options import AsJson, Key, Overrides, Wait


@group
def protocol() -> None:
    """Check a machine program against the protocol.

    The protocol: https://servonode.readthedocs.io/page/reference/protocol.html
    """


@command(
    (
        "servonode protocol check --launch trailer_pursuit_external",
        "servonode protocol check ipc:///run/user/1000/servonode/devices/diff_drive_trailer",
        "servonode protocol check tcp://127.0.0.1:9873 tcp://127.0.0.1:9874 --machine diff_drive_trailer",
    ),
    {
        0: "all checks passed",
        1: "a check failed, or could not be decided",
        2: "bad usage or input, or no answer",
        **verb.INTERRUPTED,
    },
    of=protocol,
)
def check(
    addresses: Annotated[tuple[str, ...], argument("[ADDRESS | STATE APPLIED]")],
    file: Annotated[
        str | None, option("Use the machine, names and times of this launch file.", "FILE", flag="--launch")
    ],
    machine: Annotated[str | None, option("Use this machine, without a launch file.", "NAME")],
    wait: Wait,
    key: Key,
    overrides: Overrides,
    as_json: AsJson,
) -> None:
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
