"""`servonode bench`: how fast and how punctual servonode is on this computer."""

import json
from dataclasses import asdict

import click

from servonode.cli import verb
from servonode.cli.command import command
from servonode.cli.options import AsJson


@command(
    ("servonode bench", "servonode bench --json"),
    {0: "measured", 1: "a run met a fault", 2: "bad usage, or no run can be started", **verb.BROKEN_OFF},
)
def bench(as_json: AsJson) -> None:
    """Measure round trip, lateness and rates beside bare floors.

    It takes some 10 s. Other programs make the numbers worse: measure on a computer that does nothing else.
    """
    from servonode.simulation.bench import measures

    found = []
    for each in measures():
        found.append(asdict(each) | {"ratio": each.ratio})
        if not as_json:
            floor = "" if each.floor is None else f"{each.floor:>10.0f} {each.floor_is} (ratio {each.ratio:.2f})"
            click.echo(f"{each.name:<28}{each.ours:>10.{0 if each.ours >= 100 else 1}f} {each.unit:<4}{floor}".rstrip())
    if as_json:
        click.echo(json.dumps({"measures": found}))
