"""`servonode energy`."""

import json

import click
from cart_section import Energy

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
    stated = closed_loop.launch.section("energy", Energy) or Energy()
    shown = found / 1000 if stated.unit == "kJ" else found
    click.echo(json.dumps({"energy": found}) if as_json else f"{shown:.4g} {stated.unit}")
