"""`servonode list`: what is installed; `servonode show`: the equations of a launch file."""

import json
from collections.abc import Mapping
from typing import Literal

import click

from servonode.cli import verb


@click.command(
    "list",
    cls=verb.Verb,
    examples=("servonode list launch", "servonode list machines", "servonode list programs --json"),
    exits={0: "done", **verb.BAD_USAGE},
)
@click.argument("what", type=click.Choice(["machines", "programs", "launch"]))
@verb.as_json
def list_(what: str, as_json: bool) -> None:
    """List packaged machines, programs, launch files."""
    from servonode import plants
    from servonode.closed_loop.launch_file import packaged

    if what == "programs":
        groups = _programs()
        text = "\n".join(f"{machine}\n{_listed(names, '  ')}" for machine, names in groups.items())
        click.echo(json.dumps(groups) if as_json else text)
        return
    found = packaged() if what == "launch" else plants.PLANTS | _installed(plants.ENTRY_POINTS)
    click.echo(json.dumps(found) if as_json else _listed(found))


def _listed(found: Mapping[str, str], indent: str = "") -> str:
    width = max(map(len, found), default=0)
    return "\n".join(f"{indent}{name:<{width}}  {text}" for name, text in found.items())


def _programs() -> dict[str, dict[str, str]]:
    """The programs with their summaries, by machine; two machines may have one of the same name."""
    from servonode import controllers

    groups: dict[str, dict[str, str]] = {}
    for entry in controllers.PROGRAMS:
        groups.setdefault(entry.machine or "any machine", {})[entry.name] = entry.summary
    installed = _installed(controllers.ENTRY_POINTS)
    return groups | ({"installed packages": installed} if installed else {})


def _installed(group: str) -> dict[str, str]:
    """Machines or programs of other installed packages."""
    from servonode.mechanics.references import entry_points

    return {name: f"from {value.partition(':')[0]}" for name, value in entry_points(group).items()}


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode show trailer_pursuit",
        "servonode show my_robot.toml --latex > my_robot.tex",
        "servonode show my_robot.toml --c > my_robot.c",
    ),
    exits={0: "done", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
@verb.launch_file
@click.option("--latex", "form", flag_value="latex", help="A LaTeX document that needs amsmath only.")
@click.option("--c", "form", flag_value="c", help="C99 functions of plant step and law, without allocation.")
def show(file: str, overrides: tuple[str, ...], no_code: bool, form: Literal["latex", "c"] | None) -> None:
    """Print the equations of FILE: mass matrix, bias, constraints, law."""
    from servonode.loop import Loop

    click.echo(Loop(verb.resolved(file, overrides, no_code, strict=False)).show(form or "text"))
