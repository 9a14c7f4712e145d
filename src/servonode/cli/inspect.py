"""What is installed, the equations of a launch file, this computer, completion in shells."""

import json
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
from click.shell_completion import get_completion_class

from servonode import extensions
from servonode.cli import complete, verb
from servonode.cli.command import Choice, argument, command, option
from servonode.cli.options import AsJson, Launch
from servonode.cli.terminal import painted
from servonode.export import exports

WIDTH = 80  # columns
KINDS = {
    "machines": "machines",
    "programs": "programs, by machine",
    "launch": "launch files",
    "drivers": "drivers",
    "extensions": "what other packages add",
}


@command(
    ("servonode list", "servonode list launch", "servonode list programs --json"),
    {0: "done", **verb.BAD_USAGE},
    name="list",
)
def list_(what: Annotated[str | None, argument(type=Choice(list(KINDS)), required=False)], as_json: AsJson) -> None:
    """List machines, programs, launch files, drivers and extensions.

    Extensions are what other installed packages add to servonode; nothing of them is imported for the list.
    """
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
        installed = _installed("programs")
        return groups | ({"installed packages": installed} if installed else {})
    if kind == "extensions":
        added = [
            each for known in extensions.KINDS for found in extensions.of_packages(known).values() for each in found
        ]
        return {f"{each.kind} {each.name}": f"{each.reference} ({each.origin})" for each in added}
    if kind == "launch":
        from servonode.closed_loop.launch_file import packaged

        return packaged() | packaged(robots=True)
    from servonode import plants

    return plants.PLANTS | _installed("machines")


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


def _installed(kind: str) -> dict[str, str]:
    """Machines or programs of other installed packages."""
    found = extensions.of_packages(kind)
    return {name: f"from {each[0].reference.partition(':')[0]}" for name, each in found.items()}


TO = "Print what this export of an installed package makes."
FORMS = [
    option("Print a LaTeX document; it needs only amsmath.", flag="--latex", flag_value="latex"),
    option("Print plant step, limits and controller as C99 that allocates no memory.", flag="--c", flag_value="c"),
    *(option(each.help, flag=f"--{name}", flag_value=name) for name, each in exports.printed().items()),
]
if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop

    Form = Any
else:
    Form = Annotated[(str | None, *FORMS)]


@command(
    (
        "servonode show trailer_pursuit",
        "servonode show my_robot.toml --latex > my_robot.tex",
        "servonode show my_robot.toml --c > my_robot.c",
        "servonode show my_arm.toml --urdf > my_arm.urdf",
        "servonode show diff_drive_trailer",
        "servonode show furuta.py:pendulum --json",
    ),
    {0: "done", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
def show(
    launch: Launch,
    form: Form,
    to: Annotated[str | None, option(TO, "NAME", shell_complete=complete.exports)],
    as_json: AsJson,
) -> None:
    """Print the equations of FILE: mass matrix, bias, constraints, law.

    FILE may also be a machine: the name of a packaged one, a Python file with the function that makes it, as
    furuta.py or furuta.py:pendulum, the URDF or MJCF file of a robot, or a launch file with [plant] alone.
    """
    from servonode.loop import Loop

    if to is not None:
        if form is not None:
            raise click.UsageError(f"--{form} and --to exclude each other; give one of them.")
        if exports.printing(to) is None:
            known = ", ".join(exports.printed())
            raise click.UsageError(f"--to: no export {to!r} prints a machine; install its package, or choose {known}")
    chosen, word = to or form, "--to" if to else f"--{form}"
    if (machine := of_machine(launch)) is not None:
        text = Loop(machine).show(chosen or "text")
        verb.show({"file": launch.file, "form": chosen or "text", "text": text}, as_json, text)
        return
    if fleet := launch.fleet(strict=False):
        if chosen is not None:
            raise click.UsageError(f"{word} takes one robot; give the launch file that a robot includes.")
        texts = (f"robot {robot}\n\n{Loop(each).show('text')}" for robot, each in fleet[1].items())
        verb.show_lines(texts, as_json) if as_json else click.echo("\n\n".join(texts))
        return
    text = Loop(launch.resolved(strict=False)).show(chosen or "text")
    verb.show({"file": launch.file, "form": chosen or "text", "text": text}, as_json, text)


def of_machine(launch: Launch) -> "ClosedLoop | None":
    """The closed loop of a machine alone: packaged, in a Python file, or of a launch file that states no run."""
    from servonode import plants
    from servonode.closed_loop.closed_loop import resolve
    from servonode.closed_loop.launch_error import LaunchError
    from servonode.closed_loop.launch_file import launch_of_table, launch_path, stated_table
    from servonode.errors import did_you_mean

    file, path = launch.file, launch_path(launch.file)
    if python := re.fullmatch(r"(.*\.py)(?::(\w*))?", file):
        machine = f"{Path(python[1]).absolute()}:{python[2] or _only_function(Path(python[1]))}"
    elif file in plants.PLANTS and not path.exists():
        machine = file
    else:
        if path.suffix == ".toml" and path.is_file():
            try:
                stated = stated_table(file)[1]
            except LaunchError:  # reading it as a launch file says what is wrong
                return None
            if set(stated) == {"plant"}:
                return launch.but("run.duration=1").resolved(strict=False)
        elif not path.exists() and (near := did_you_mean(file, plants.PLANTS)):
            raise click.UsageError(f"{file}: no launch file and no machine; {near}`servonode list` shows all")
        return None
    table = {"run": {"duration": 1.0}, "plant": {"machine": machine}}
    return resolve(launch_of_table(table, launch.overrides, "machine"), strict=False, code=launch.code is not False)


def _only_function(file: Path) -> str:
    """The function in a Python file that makes its machine, by its text: nothing runs yet."""
    import ast

    if not file.is_file():
        raise click.UsageError(f"{file}: no such file; name the Python file of a machine")
    try:
        parsed = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise click.UsageError(f"{file}: is no Python ({error}); correct it") from None
    made = [
        each.name
        for each in parsed.body
        if isinstance(each, ast.FunctionDef)
        and any(isinstance(part, ast.Name) and part.id == "Model" for part in ast.walk(each))
        and len(each.args.args) == len(each.args.defaults)
    ]
    if len(made) != 1:
        known = ", ".join(f"{file}:{name}" for name in made)
        remedy = f"name one: {known}" if made else "a machine is a function without arguments that returns a Model"
        raise click.UsageError(f"{file}: {'several functions make' if made else 'no function makes'} a Model; {remedy}")
    return made[0]


MARKS = {"good": "ok  ", "note": "note", "wrong": "WRONG"}


@command(
    ("servonode doctor", "servonode doctor --json"),
    {0: "runs can start here; notes may stand in the way of real time", 1: "something will not work"}
    | verb.BAD_USAGE
    | verb.INTERRUPTED,
    logs=False,
)
def doctor(as_json: AsJson) -> None:
    """Look at this computer: clock, limits, cores, folders, extras.

    Each finding says what it means, and what helps. Nothing is changed.
    """
    from servonode.operator.doctor import findings

    found = findings()
    code = 1 if any(each.level == "wrong" for each in found) else 0
    if as_json:
        click.echo(json.dumps({"findings": [asdict(each) for each in found], "exit": code}))
    subject = ""
    for each in () if as_json else found:
        line = f"{each.subject if each.subject != subject else '':<8} {MARKS[each.level]:<5} {each.text}"
        click.echo(painted(line, sys.stdout))
        if each.remedy:
            click.echo(f"{'':<15}{each.remedy}")
        subject = each.subject
    sys.exit(code)


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


SHELLS = ("bash", "zsh", "fish")
ADDED = "COMPREPLY+=($value)"
WHOLE_HELP = ('string split "," $completion', 'string split --max 1 "," $completion')  # a help text may have commas
NO_SPACE = f"{ADDED}\n            [[ $value == *= ]] && compopt -o nospace"  # its value follows


@command(
    (
        "servonode completion bash",
        'eval "$(servonode completion bash)"    # in ~/.bashrc',
        'eval "$(servonode completion zsh)"     # in ~/.zshrc, after compinit',
        "servonode completion fish | source     # in ~/.config/fish/config.fish",
    ),
    {0: "done", **verb.BAD_USAGE},
    logs=False,
)
def completion(shell: Annotated[str, argument(type=Choice(SHELLS))]) -> None:
    """Print the script that completes commands in a shell.

    It completes commands, options, launch files, the keys of --set, and the names of runs in progress.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(click.get_current_context().find_root().command, {}, "servonode", "_SERVONODE_COMPLETE")
    variables = script.source_vars()
    click.echo(script.source_template.replace(ADDED, NO_SPACE).replace(*WHOLE_HELP) % variables)
