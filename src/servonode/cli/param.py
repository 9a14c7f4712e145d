"""`servonode param`: numbers of a run in progress, read and changed."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from servonode.cli import verb
from servonode.cli.command import argument, command, group, option, output
from servonode.cli.options import AsJson, OneRun

if TYPE_CHECKING:
    from servonode.closed_loop.parameters import Parameter
    from servonode.operator.run_parameters import RunParameters

EXITS = {
    0: "done",
    1: "a node refused, or did not answer",
    2: "bad usage, no such run or number, or a value that the checks refuse",
    **verb.INTERRUPTED,
}
OneKey = Annotated[tuple[str, ...], argument("[RUN] KEY", required=True)]


def _run(name: str | None) -> "RunParameters":
    from servonode.operator.run_parameters import RunParameters

    return RunParameters(name)


@group
def param() -> None:
    """Read and change numbers of a run in progress.

    Keys are those of the launch file, as controller.gains.lambda: gains, settings, the parameters that the law
    assumes, limits, which can only be lowered, and goals. New values are judged as at the start of a run.
    """


_command = partial(command, exits=EXITS, of=param)


@_command(("servonode param list", "servonode param list --json"), name="list")
def list_(name: OneRun, as_json: AsJson) -> None:
    """List the numbers of a run that may change."""
    found = _run(name).now()
    if as_json:
        click.echo(json.dumps({key: _as_dict(each) for key, each in found.items()}))
        return
    width = max(map(len, found), default=0)
    with verb.printing():
        for key, each in found.items():
            click.echo(f"{key:<{width}}  {_shown(each.value):>12} {each.unit:<8} {each.range}")


@_command(("servonode param get controller.gains.lambda_yaw_rate",))
def get(words: OneKey, as_json: AsJson) -> None:
    """Print one number of a run."""
    key, each = _one(words)
    verb.show({key: _as_dict(each)["value"]}, as_json, _shown(each.value))


@_command(("servonode param describe controller.parameters.m1",))
def describe(words: OneKey, as_json: AsJson) -> None:
    """Describe a number of a run: value, unit, range, node."""
    key, each = _one(words)
    text = f"{key} = {_shown(each.value)} {each.unit}: {each.description}\nrange: {each.range}\nnode: {each.node}"
    verb.show({key: _as_dict(each)}, as_json, text)


def _one(words: tuple[str, ...]) -> "tuple[str, Parameter]":
    """The key as the run has it, plant.parameters.link3.mass as plant.parameters.link3_mass, and its number."""
    from servonode.closed_loop.launch_file import joined_key

    name, key = verb.run_and("key", words)
    return (key := joined_key(key)), _run(name).get(key)


@_command(
    (
        "servonode param set controller.gains.lambda=3",
        "servonode param set trailer_pursuit controller.parameters.m1=4 controller.parameters.m2=1",
    ),
    name="set",
)
def set_(words: Annotated[tuple[str, ...], argument("[RUN] KEY=VALUE ...", required=True)], as_json: AsJson) -> None:
    """Change numbers of a run, all at once or none.

    They change between two control instants. The answer says from which plant step on they act.
    """
    name, pairs = (None, words) if "=" in words[0] else (words[0], words[1:])
    values = dict(map(_pair, pairs))
    if len(values) < max(len(pairs), 1):
        raise click.UsageError("give each key once, as controller.gains.lambda=3")
    run = _run(name)
    nodes = {run.node_of(key) for key in values}
    if len(nodes) > 1:
        text = f"these belong to {' and '.join(sorted(nodes))}, which change their numbers each by itself"
        raise click.UsageError(f"{text}; set those of one node at a time")
    _change(run, values, as_json)


def _pair(text: str) -> tuple[str, float]:
    from servonode.closed_loop.launch_file import joined_key

    key, _, value = text.partition("=")
    try:
        return joined_key(key.strip()), float(value)
    except ValueError:
        raise click.UsageError(f"{text!r} is not KEY=NUMBER; write for example controller.gains.lambda=3") from None


@_command(("servonode param dump", "servonode param dump --output tuned.toml"))
def dump(
    name: OneRun,
    everything: Annotated[bool, option("Also those that have not changed since the start of the run.", flag="--all")],
    out: Annotated[Path | None, output("Write to this file.", "FILE.toml")],
) -> None:
    """Print the changed numbers of a run as TOML.

    The output is for servonode param load and for a launch file.
    """
    from servonode.cli.start_checks import check_writable

    if out is not None and out.exists():
        raise click.UsageError(f"{out} exists already; name another file, or remove it")
    run = _run(name)
    text = "".join(f"{key} = {value!r}\n" for key, value in run.stated(everything).items() if value != float("inf"))
    if out is None:
        click.echo(text, nl=False)
        return
    check_writable(out)
    out.write_text(text)


@_command(("servonode param load tuned.toml",))
def load(words: Annotated[tuple[str, ...], argument("[RUN] FILE.toml", required=True)], as_json: AsJson) -> None:
    """Change numbers of a run to those of a file.

    The file is as servonode param dump writes it. All are judged together; then each node takes its own ones at once,
    one node after the other.
    """
    from servonode.closed_loop.launch_file import numbers_in

    name, file = verb.run_and("file", words)
    values, run = numbers_in(file), _run(name)
    if values:
        _change(run, values, as_json)
    else:
        verb.show({}, as_json, f"{file} holds no number; nothing is changed")


def _change(run: "RunParameters", values: Mapping[str, float], as_json: bool) -> None:
    acting = run.change(values)
    if as_json:
        click.echo(json.dumps({each.node: {"k": each.k, "t": each.t, "values": each.values} for each in acting}))
        return
    for each in acting:
        shown = (f"{key} = {_shown(value)}" for key, value in each.values.items())
        text = ", ".join(shown) or "what the law takes of it"
        click.echo(f"{text}: from step {each.k} on, t = {each.t:.6g} s ({each.node})")


def _as_dict(each: "Parameter") -> dict[str, Any]:
    """For JSON, which has no infinity."""
    bounds = {name: number if abs(number := getattr(each, name)) < float("inf") else None for name in ("least", "most")}
    value = each.value if abs(each.value) < float("inf") else None
    return {"value": value, "unit": each.unit, "node": each.node, "description": each.description, **bounds}


def _shown(value: float) -> str:
    return "none" if abs(value) == float("inf") else f"{value!r}"
