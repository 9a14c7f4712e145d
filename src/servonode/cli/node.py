"""`servonode node`: the nodes of a run."""

import json
import sys

import click

from servonode.cli import verb
from servonode.cli.listening import printing, run_and


@verb.group
def node() -> None:
    """List and describe the nodes of a run."""


@node.command(
    "list",
    cls=verb.Verb,
    logs=False,
    examples=("servonode node list", "servonode node list trailer_pursuit --json"),
    exits={0: "shown", 2: "bad usage, or no such run", **verb.INTERRUPTED},
    help=f"Show the nodes of a run.\n\n{verb.WHICH_RUN}",
)
@verb.one_run
@verb.as_json
def list_(name: str | None, as_json: bool) -> None:
    from servonode.operator.find_runs import find_run

    nodes = sorted(find_run(name).described()["nodes"])
    with printing():
        click.echo(json.dumps(nodes) if as_json else "\n".join(nodes))


@node.command(
    cls=verb.Verb,
    logs=False,
    examples=("servonode node info plant", "servonode node info trailer_pursuit controller --json"),
    exits={0: "shown", 1: "the node does not answer", 2: "bad usage, or no such run or node", **verb.INTERRUPTED},
    help=f"Show a node: its process, lifecycle, topics and requests.\n\n{verb.WHICH_RUN}",
)
@click.argument("words", metavar="[RUN] NODE", nargs=-1, required=True)
@verb.as_json
def info(words: tuple[str, ...], as_json: bool) -> None:
    from servonode.cli.node_table import node_info, node_text

    name, word = run_and("node", words)
    content = node_info(name, word)
    with printing():
        click.echo(json.dumps(content) if as_json else node_text(content))
    sys.exit(1 if content["error"] else 0)
