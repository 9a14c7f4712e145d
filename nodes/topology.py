"""The table of nodes: what each publishes and subscribes to, which requests it handles, and when it starts.

Nothing here but the standard library, for the operator's verbs load it too and must be quick.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from signal import SIGKILL, SIGTERM, Signals
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servonode.bus import Wanted

PLANT, CONTROLLER, TARGET, LAUNCHER = "plant", "controller", "target", "launcher"
LOOP = (PLANT, CONTROLLER)  # those whose exchange keeps the time; the target works ahead of it


@dataclass(frozen=True)
class NodeEntry:
    """One line of the table."""

    publishes: tuple[str, ...]  # topics
    subscribes: "Wanted"
    words: tuple[str, ...]  # what an operator may ask of it
    end_codes: tuple[int, ...] = ()  # exit codes with which it may end before it is told to
    orphaned: Signals = SIGKILL  # what it receives when the launcher dies


# In the order in which they start: each finds those that answer it. Whether one that died is restarted is said
# by the launch file, under its name in [supervision].
NODES: dict[str, NodeEntry] = {
    TARGET: NodeEntry(
        publishes=("target", "status"),
        subscribes={PLANT: ("status",)},
        words=("status",),
    ),
    CONTROLLER: NodeEntry(
        publishes=("command", "report", "estimate", "status"),
        subscribes={PLANT: ("state",), TARGET: ("target",)},
        words=("status",),
    ),
    PLANT: NodeEntry(
        publishes=("state", "applied", "status"),
        subscribes={CONTROLLER: ("command",)},
        words=("arm", "disarm", "estop", "reset", "reset_estop", "status"),
        end_codes=(0, 1),  # the run is over; 1 after a fault
        orphaned=SIGTERM,  # so that it ends in good order; the others hold nothing
    ),
}


LIVE_TARGET: "Wanted" = {PLANT: ("status", "state")}  # of a target node whose goals nobody knows ahead


def nodes_of(controlled: bool) -> tuple[str, ...]:
    """The nodes of a run in the order in which they start; without a controller there is the plant alone."""
    return tuple(NODES) if controlled else (PLANT,)


def publishers(topics: Iterable[str], nodes: Iterable[str] = NODES) -> "Wanted":
    """Who of these nodes publishes these topics: what a listener subscribes to."""
    wanted = {node: [topic for topic in topics if topic in NODES[node].publishes] for node in nodes}
    return {node: found for node, found in wanted.items() if found}


def readers(node: str, topic: str, nodes: Iterable[str] = NODES) -> list[str]:
    """Who of these nodes, and the launcher, subscribes to a topic of a node."""
    wanted = {each: NODES[each].subscribes for each in nodes} | {LAUNCHER: launcher_subscribes(nodes)}
    return [each for each, subscribes in wanted.items() if topic in subscribes.get(node, ())]


def launcher_subscribes(nodes: Iterable[str]) -> "Wanted":
    """What the launcher of these nodes subscribes to."""
    return publishers(("status",), nodes)


def subscribers(nodes: Iterable[str], launcher: bool = False, live: bool = False) -> "list[Wanted]":
    """What each of these nodes, and perhaps their launcher, subscribes to: a publisher waits for as many.

    live: goals come over a topic.
    """
    wanted = [LIVE_TARGET if live and node == TARGET else NODES[node].subscribes for node in nodes]
    return [*wanted, launcher_subscribes(nodes)] if launcher else wanted
