"""`servonode protocol` and `servonode hil`: check a machine in another process, or on a microcontroller."""

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import click

from servonode.cli import verb
from servonode.cli.command import argument, command, group, option
from servonode.cli.options import AsJson, Key, Launch, Overrides, Wait

if TYPE_CHECKING:
    pass


@partial(group, section="Inspect")
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
    from servonode.closed_loop.closed_loop import with_keys
    from servonode.wings.acceptance.protocol_check import Plan, both_addresses, check_protocol, meant

    if len(addresses) > 2:
        raise click.UsageError("give one address, or two: that of the states and that of the applied inputs")
    closed_loop = with_keys(meant(file, machine, addresses, overrides), key or "", insecure=False)
    verdict = check_protocol(closed_loop, both_addresses(closed_loop, addresses), Plan(wait=wait))
    click.echo(json.dumps(verdict.as_dict()) if as_json else verdict.text())
    sys.exit(0 if verdict.verdict == "yes" else 1)


EXITS = {0: "done", **verb.BAD_USAGE, **verb.INTERRUPTED}


@partial(group, section="Inspect")
def hil() -> None:
    """Check the firmware of a microcontroller, and print its C header."""


@command(("servonode hil header trailer_pursuit > my_machine.h",), EXITS, of=hil)
def header(launch: Launch) -> None:
    """Print the C header for firmware of FILE's machine.

    It defines the sizes, the step, the initial state, and the schema number by which servonode and firmware check that
    they have the same machine. With plant.device.law it defines the same for the law in the firmware.
    """
    from servonode.export.c_firmware import machine_header

    click.echo(machine_header(launch.resolved(strict=False)), nl=False)


@command(("servonode hil sensors trailer_pursuit > sensors.c",), EXITS, of=hil)
def sensors(launch: Launch) -> None:
    """Print the sensor models of FILE's machine as C functions.

    They are for firmware that simulates the machine and sends only readings (plant.device.sends).
    """
    from servonode.export.c_firmware import sensor_models

    click.echo(sensor_models(launch.resolved(strict=False)), nl=False)


@command(
    (
        "servonode hil accept trailer_pursuit_udp",
        "servonode hil accept my_robot.toml --set plant.device.port=/dev/ttyACM0",
    ),
    {
        0: "all checks passed",
        1: "a check failed, or could not be decided: do not arm the machine",
        2: "bad usage or input, or no answer",
        **verb.INTERRUPTED,
    },
    of=hil,
)
def accept(launch: Launch, wait: Wait, as_json: AsJson) -> None:
    """Test that firmware is safe without the host.

    Run this before you arm the machine for the first time. It tests the timeout and the safe action, the limits, and
    that the firmware refuses corrupt packets, other versions, other hosts and numbers that are not finite. In all its
    runs the inputs have limits of 4e-6, for the safe action too; keep the wheels off the ground all the same.
    """
    from servonode.wings.acceptance.hil_accept import accept as accepted
    from servonode.wings.acceptance.protocol_check import Plan

    report = accepted(launch.resolved(strict=False), Plan(wait=wait))
    click.echo(json.dumps(report.as_dict()) if as_json else report.text())
    sys.exit(0 if report.verdict == "yes" else 1)
