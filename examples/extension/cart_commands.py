"""`servonode energy`."""

import json

import click

from servonode.cli import verb
from servonode.cli.command import command
from servonode.cli.options import AsJson, Launch


@command(
    ("servonode energy trailer_pursuit", "servonode energy cart.toml --set plant.initial.x_dot=2"),
    {0: "done", **verb.BAD_USAGE},
    section="Inspect",
)
def energy(launch: Launch, as_json: AsJson) -> None:
    """Print the energy of FILE's machine at its start."""
    closed_loop = launch.resolved()
    found = closed_loop.machine.energy(0.0, closed_loop.start)
    click.echo(json.dumps({"energy": found}) if as_json else f"{found:.4g} J")
