"""`servonode hil`: microcontrollers in the loop."""

import click

from servonode.cli import verb


@verb.group
def hil() -> None:
    """Check the firmware of a microcontroller against docs/firmware.md."""


@hil.command(
    "header",
    cls=verb.Verb,
    examples=("servonode hil header trailer_pursuit > machine.h",),
    exits={0: "done", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
@verb.launch_file
def header(file: str, overrides: tuple[str, ...], no_code: bool) -> None:
    """Print the C header for firmware of FILE's machine.

    It holds sizes, step, start, and the schema by which the two sides know that they mean the same machine, and the
    same for a law of its own (plant.device.law).
    """
    from servonode.closed_loop.device_law import law_header
    from servonode.export.c import c_prefix
    from servonode.plants.drivers.firmware_header import firmware_header

    closed_loop = verb.resolved(file, overrides, no_code, strict=False)
    launch = closed_loop.launch
    prefix = c_prefix(launch.name)
    law = law_header(launch, closed_loop.control, closed_loop.estimation, f"{prefix}_law")
    text = firmware_header(closed_loop.machine, closed_loop.start, launch.step_ns, f"{prefix}_plant_step", law)
    click.echo(text, nl=False)


@hil.command(
    "accept",
    cls=verb.Verb,
    examples=(
        "servonode hil accept trailer_pursuit_udp",
        "servonode hil accept my_robot.toml --set plant.device.port=/dev/ttyACM0",
    ),
    exits={
        0: "nothing was found",
        1: "something was found: do not arm it",
        2: "bad usage or input, or nobody there",
        **verb.INTERRUPTED,
    },
)
@verb.launch_file
@verb.wait
@verb.as_json
def accept(file: str, overrides: tuple[str, ...], no_code: bool, wait: float, as_json: bool) -> None:
    """Prove that firmware is safe by itself.

    Do so before it is armed for the first time. Proven are its timeout and safe action, its limits, and that it refuses
    corrupt packets, other versions, other hosts and numbers that are not finite. The inputs that are sent are 2e-6 at
    most; keep the wheels in the air all the same.
    """
    import json
    import sys

    from servonode.nodes.hil_accept import accept as accepted
    from servonode.nodes.protocol_check import Plan

    report = accepted(verb.resolved(file, overrides, no_code, strict=False), Plan(wait=wait))
    click.echo(json.dumps(report.as_dict()) if as_json else report.text())
    sys.exit(1 if report.findings else 0)
