"""The table of nodes: what each publishes and subscribes to, which requests it handles, and when it starts.

It imports only the standard library, because the operator's commands import it too and must be quick.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from signal import SIGKILL, SIGTERM, Signals
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servonode.bus import Wanted

PLANT, CONTROLLER, TARGET, LAUNCHER = "plant", "controller", "target", "launcher"
RELAY = "relay"  # of a run on two computers: it stands for the nodes that run on the other one
GOAL_HELD = "goal_held"  # among the values of a target node's status: 1 while a lost goal is at rest, or goes there
PARAMETERS = GET, SET = ("parameters", "set_parameters")  # requests: the numbers that were changed; change some
LOOP = (PLANT, CONTROLLER)  # the nodes of the control loop; the target publishes ahead of it


@dataclass(frozen=True)
class NodeEntry:
    """One node in the table."""

    publishes: tuple[str, ...]  # topics
    subscribes: "Wanted"
    verbs: tuple[str, ...]  # requests of an operator that it handles
    end_codes: tuple[int, ...] = ()  # exit codes with which it may end by itself
    orphaned: Signals = SIGKILL  # signal that it receives when the launcher dies


# In the order in which they start, so that each finds the nodes that answer it. The launch file says under the node's
# name in [supervision] whether it is restarted.
NODES: dict[str, NodeEntry] = {
    TARGET: NodeEntry(
        publishes=("target", "parameters", "status"),
        subscribes={PLANT: ("status",)},
        verbs=("goal", *PARAMETERS, "status"),
    ),
    CONTROLLER: NodeEntry(
        publishes=("command", "report", "estimate", "parameters", "status"),
        subscribes={PLANT: ("state", "status"), TARGET: ("target",)},
        verbs=(*PARAMETERS, "status"),
    ),
    PLANT: NodeEntry(
        publishes=("state", "applied", "parameters", "status"),
        subscribes={CONTROLLER: ("command",)},
        verbs=(
            "arm",
            "disarm",
            "estop",
            "fault",
            *PARAMETERS,
            "pause",
            "reset",
            "reset_estop",
            "reset_origin",
            "resume",
            "speed",
            "status",
            "step",
        ),
        end_codes=(0, 1),  # the run is over; 1 after a fault
        orphaned=SIGTERM,  # it must stop its machine; the others can be killed
    ),
    RELAY: NodeEntry(
        publishes=("status",),
        subscribes={},
        verbs=("status",),
        end_codes=(0, 1, 2),  # the run is over on the other computer, or that refuses this one
    ),
}


LIVE_TARGET: "Wanted" = {PLANT: ("status", "state")}  # subscriptions of a target node with live goals


def nodes_of(controlled: bool) -> tuple[str, ...]:
    """The nodes of a run in the order in which they start; without a controller only the plant."""
    return (TARGET, CONTROLLER, PLANT) if controlled else (PLANT,)


def publishers(topics: Iterable[str], nodes: Iterable[str] = NODES) -> "Wanted":
    """By node, those of these topics that it publishes: the subscriptions of a listener."""
    wanted = {node: [topic for topic in topics if topic in NODES[node].publishes] for node in nodes}
    return {node: found for node, found in wanted.items() if found}


def readers(node: str, topic: str, nodes: Iterable[str] = NODES) -> list[str]:
    """The subscribers of a topic of a node, among these nodes and the launcher."""
    wanted = {each: NODES[each].subscribes for each in nodes} | {LAUNCHER: launcher_subscribes(nodes)}
    return [each for each, subscribes in wanted.items() if topic in subscribes.get(node, ())]


def launcher_subscribes(nodes: Iterable[str]) -> "Wanted":
    """The subscriptions of the launcher of these nodes."""
    return publishers(("parameters", "status"), nodes)


def subscribers(nodes: Iterable[str], launcher: bool = False, live: bool = False) -> "list[Wanted]":
    """The subscriptions of each of these nodes, and of their launcher if asked: a publisher waits for them.

    live: whether goals come from other publishers.
    """
    wanted = [LIVE_TARGET if live and node == TARGET else NODES[node].subscribes for node in nodes]
    return [*wanted, launcher_subscribes(nodes)] if launcher else wanted
