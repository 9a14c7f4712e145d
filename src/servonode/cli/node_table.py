"""The description of one node of a run in progress."""

from typing import Any

from servonode.bus import TOPICS, BusError
from servonode.bus.topology import NODES
from servonode.errors import did_you_mean
from servonode.operator.find_runs import find_run
from servonode.operator.operator_requests import status


class NoSuchNode(BusError):
    """The run has no node of this name; the text names the choices."""


def node_info(run: str | None, node: str) -> dict[str, Any]:
    """A node of a run (absent: of the only one in progress): process, lifecycle, topics with their types, requests.

    Raises:
        NoSuchNode: the run has no such node; BusError: there is no such run.
    """
    found = find_run(run)
    nodes = found.described()["nodes"]
    if node not in nodes:
        near = did_you_mean(node, nodes)
        raise NoSuchNode(f"run {found.name!r} has no node {node!r}; {near}choose {', '.join(sorted(nodes))}")
    answer = status(str(found.path))["nodes"][node]
    process = found.process(node)
    entry = NODES[node]
    topics_in = [f"{other}/{topic}" for other, topics in entry.subscribes.items() for topic in topics if other in nodes]
    return {
        "node": node,
        "run": found.name,
        "pid": process.pid if process else None,
        "lifecycle": answer.get("lifecycle"),
        "fault": answer.get("fault", ""),
        "error": answer.get("error", ""),
        "publishes": {f"{node}/{topic}": TOPICS[topic].__name__ for topic in entry.publishes},
        "subscribes": {name: TOPICS[name.partition("/")[2]].__name__ for name in topics_in},
        "requests": list(entry.verbs),
    }


def node_text(info: dict[str, Any]) -> str:
    """The same as text."""
    lifecycle = f"no answer: {info['error']}" if info["error"] else info["lifecycle"]
    lines = [
        info["node"],
        f"  Process: {info['pid'] or 'unknown'}",
        f"  Lifecycle: {lifecycle}" + (f", fault {info['fault']}" if info["fault"] else ""),
    ]
    for title, names in (("Subscribers", info["subscribes"]), ("Publishers", info["publishes"])):
        lines += [f"  {title}:", *(f"    {name}: {kind}" for name, kind in names.items())]
    return "\n".join([*lines, "  Requests:", *(f"    {word}" for word in info["requests"])])
