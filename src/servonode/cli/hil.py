"""`servonode hil`: commands for hardware in the loop with a microcontroller."""

from typing import TYPE_CHECKING

import click

from servonode.cli import verb

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.closed_loop.estimation import Sensing


@verb.group
def hil() -> None:
    """Check the firmware of a microcontroller, and print its C header."""


@hil.command(
    "header",
    cls=verb.Verb,
    examples=("servonode hil header trailer_pursuit > my_machine.h",),
    exits={0: "done", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
@verb.launch_file
def header(file: str, overrides: tuple[str, ...], code: bool | None) -> None:
    """Print the C header for firmware of FILE's machine.

    It defines the sizes, the step, the initial state, and the schema number by which servonode and firmware check that
    they have the same machine. With plant.device.law it defines the same for the law in the firmware.
    """
    from servonode.closed_loop.device_law import law_header
    from servonode.export.c import c_prefix
    from servonode.export.c_sensors import sensors_header
    from servonode.plants.drivers.firmware_header import firmware_header

    closed_loop = verb.resolved(file, overrides, code, strict=False)
    launch = closed_loop.launch
    prefix = c_prefix(launch.name)
    lines = law_header(closed_loop.control, closed_loop.estimation, f"{prefix}_law")
    sensing = _sensing(closed_loop)
    lines += sensors_header(sensing, prefix) if sensing else []
    text = firmware_header(closed_loop.machine, closed_loop.start, launch.step_ns, f"{prefix}_plant_step", lines)
    click.echo(text, nl=False)


@hil.command(
    "sensors",
    cls=verb.Verb,
    examples=("servonode hil sensors trailer_pursuit > sensors.c",),
    exits={0: "done", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
@verb.launch_file
def sensors(file: str, overrides: tuple[str, ...], code: bool | None) -> None:
    """Print the sensor models of FILE's machine as C functions.

    They are for firmware that simulates the machine and sends only readings (plant.device.sends).
    """
    from servonode.export.c import c_prefix
    from servonode.export.c_sensors import c_sensors

    closed_loop = verb.resolved(file, overrides, code, strict=False)
    sensing, name = _sensing(closed_loop), closed_loop.machine.description.name
    nothing = f"/* {name} has no simulated sensors: it defines none, or its motion cannot be linearised. */\n"
    click.echo(c_sensors(sensing, c_prefix(closed_loop.launch.name)) if sensing else nothing, nl=False)


def _sensing(closed_loop: "ClosedLoop") -> "Sensing | None":
    """The sensors of the machine; None where it defines none, or they cannot be simulated."""
    from servonode.closed_loop.estimation import sensing_of
    from servonode.errors import StatementError

    if not closed_loop.machine.description.sensors:
        return None
    launch = closed_loop.launch
    try:
        return sensing_of(launch.plant, closed_loop.source, closed_loop.machine, launch.times, launch.run.seed)
    except StatementError:
        return None


@hil.command(
    "accept",
    cls=verb.Verb,
    examples=(
        "servonode hil accept trailer_pursuit_udp",
        "servonode hil accept my_robot.toml --set plant.device.port=/dev/ttyACM0",
    ),
    exits={
        0: "all checks passed",
        1: "a check failed, or could not be decided: do not arm the machine",
        2: "bad usage or input, or no answer",
        **verb.INTERRUPTED,
    },
)
@verb.launch_file
@verb.wait
@verb.as_json
def accept(file: str, overrides: tuple[str, ...], code: bool | None, wait: float, as_json: bool) -> None:
    """Test that firmware is safe without the host.

    Run this before you arm the machine for the first time. It tests the timeout and the safe action, the limits, and
    that the firmware refuses corrupt packets, other versions, other hosts and numbers that are not finite. In all its
    runs the inputs have limits of 4e-6, for the safe action too; keep the wheels off the ground all the same.
    """
    import json
    import sys

    from servonode.acceptance.hil_accept import accept as accepted
    from servonode.acceptance.protocol_check import Plan

    report = accepted(verb.resolved(file, overrides, code, strict=False), Plan(wait=wait))
    click.echo(json.dumps(report.as_dict()) if as_json else report.text())
    sys.exit(0 if report.verdict == "yes" else 1)
