"""`servonode list`: what is installed; `servonode show`: the equations of a launch file."""

import json
import shutil
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import click

from servonode.cli import verb
from servonode.cli.command import argument, command, option
from servonode.cli.options import AsJson, Launch

WIDTH = 80  # columns
KINDS = {"machines": "machines", "programs": "programs, by machine", "launch": "launch files", "drivers": "drivers"}


@command(
    ("servonode list", "servonode list launch", "servonode list programs --json"),
    {0: "done", **verb.BAD_USAGE},
    name="list",
)
def list_(
    what: Annotated[str | None, argument(type=click.Choice(list(KINDS)), required=False)], as_json: AsJson
) -> None:
    """List machines, programs, launch files and drivers."""
    if what is not None:
        click.echo(json.dumps(_found(what)) if as_json else _text(what, _found(what)))
    elif as_json:
        click.echo(json.dumps({kind: _found(kind) for kind in KINDS}))
    else:
        click.echo("\n\n".join(f"{title}\n{_text(kind, _found(kind), '  ')}" for kind, title in KINDS.items()))


def _found(kind: str) -> dict[str, Any]:
    """What there is of a kind: name -> one line; programs by machine; of drivers summary and origin."""
    if kind == "drivers":
        from servonode.closed_loop.connection import known_drivers

        return known_drivers()
    if kind == "programs":
        from servonode import controllers

        groups: dict[str, dict[str, str]] = {}  # two machines may have a program of the same name
        for entry in controllers.PROGRAMS:
            groups.setdefault(entry.machine or "any machine", {})[entry.name] = entry.summary
        installed = _installed(controllers.ENTRY_POINTS)
        return groups | ({"installed packages": installed} if installed else {})
    if kind == "launch":
        from servonode.closed_loop.launch_file import packaged

        return packaged() | packaged(robots=True)
    from servonode import plants

    return plants.PLANTS | _installed(plants.ENTRY_POINTS)


def _text(kind: str, found: Mapping[str, Any], indent: str = "") -> str:
    if kind == "drivers":
        found = {name: each.get("error") or f"{each['summary']} ({each['origin']})" for name, each in found.items()}
    if kind != "programs":
        return _listed(found, indent)
    return "\n".join(f"{indent}{machine}\n{_listed(names, indent + '  ')}" for machine, names in found.items())


def _listed(found: Mapping[str, str], indent: str = "") -> str:
    """Names and texts in two columns, in lines of `WIDTH` or of the terminal."""
    width = max(map(len, found), default=0)
    width_of_all = min(shutil.get_terminal_size((WIDTH, 1)).columns, WIDTH) - len(indent)  # click adds the indent
    formatter = click.HelpFormatter(width=width_of_all)
    formatter.current_indent = len(indent)
    rows = [(name, text.removeprefix("Watch for: ")) for name, text in found.items()]
    if rows:
        formatter.write_dl(rows, col_max=width)
    return formatter.getvalue().rstrip("\n")


def _installed(group: str) -> dict[str, str]:
    """Machines or programs of other installed packages."""
    from servonode.definitions.references import entry_points

    return {name: f"from {value.partition(':')[0]}" for name, value in entry_points(group).items()}


C99 = "Print plant step, limits and controller as C99 that allocates no memory."


@command(
    (
        "servonode show trailer_pursuit",
        "servonode show my_robot.toml --latex > my_robot.tex",
        "servonode show my_robot.toml --c > my_robot.c",
        "servonode show my_arm.toml --urdf > my_arm.urdf",
    ),
    {0: "done", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
def show(
    launch: Launch,
    form: Annotated[
        Literal["latex", "c", "urdf"] | None,
        option("Print a LaTeX document; it needs only amsmath.", flag="--latex", flag_value="latex"),
        option(C99, flag="--c", flag_value="c"),
        option("Print the links and joints of the machine as URDF.", flag="--urdf", flag_value="urdf"),
    ],
) -> None:
    """Print the equations of FILE: mass matrix, bias, constraints, law."""
    from servonode.loop import Loop

    if fleet := launch.fleet(strict=False):
        if form is not None:
            raise click.UsageError(f"--{form} takes one robot; give the launch file that a robot includes.")
        texts = (f"robot {robot}\n\n{Loop(each).show('text')}" for robot, each in fleet[1].items())
        click.echo("\n\n".join(texts))
        return
    click.echo(Loop(launch.resolved(strict=False)).show(form or "text"))
