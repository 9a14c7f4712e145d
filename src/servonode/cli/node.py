"""`servonode node`: the nodes of a run."""

import json
import sys
from functools import partial
from typing import Annotated

import click

from servonode.cli import verb
from servonode.cli.command import argument, command, group
from servonode.cli.listening import printing, run_and
from servonode.cli.options import WHICH_RUN, AsJson, OneRun


@group
def node() -> None:
    """List and describe the nodes of a run."""


_command = partial(command, of=node, logs=False)


@_command(
    ("servonode node list", "servonode node list trailer_pursuit --json"),
    {0: "shown", 2: "bad usage, or no such run", **verb.INTERRUPTED},
    name="list",
    help=f"Show the nodes of a run.\n\n{WHICH_RUN}",
)
def list_(name: OneRun, as_json: AsJson) -> None:
    from servonode.operator.find_runs import find_run

    nodes = sorted(find_run(name).described()["nodes"])
    with printing():
        click.echo(json.dumps(nodes) if as_json else "\n".join(nodes))


@_command(
    ("servonode node info plant", "servonode node info trailer_pursuit controller --json"),
    {0: "shown", 1: "the node does not answer", 2: "bad usage, or no such run or node", **verb.INTERRUPTED},
    help=f"Show a node: its process, lifecycle, topics and requests.\n\n{WHICH_RUN}",
)
def info(words: Annotated[tuple[str, ...], argument("[RUN] NODE", required=True)], as_json: AsJson) -> None:
    from servonode.cli.node_table import node_info, node_text

    name, word = run_and("node", words)
    content = node_info(name, word)
    with printing():
        click.echo(json.dumps(content) if as_json else node_text(content))
    sys.exit(1 if content["error"] else 0)
