"""`servonode hil`: microcontrollers in the loop."""

import click

from servonode.cli import verb


@verb.group
def hil() -> None:
    """Build and accept the firmware of a microcontroller: docs/firmware.md."""


@hil.command(
    "header",
    cls=verb.Verb,
    examples=("servonode hil header trailer_pursuit > machine.h",),
    exits={0: "done", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
@verb.launch_file
def header(file: str, overrides: tuple[str, ...], no_code: bool) -> None:
    """Print what firmware must know of the machine of FILE: a C header for firmware/machine.h."""
    from servonode.export.c import c_prefix
    from servonode.plants.drivers.firmware_header import firmware_header

    closed_loop = verb.resolved(file, overrides, no_code, strict=False)
    launch = closed_loop.launch
    step = f"{c_prefix(launch.name)}_plant_step"
    click.echo(firmware_header(closed_loop.machine, closed_loop.start, launch.step_ns, step), nl=False)
