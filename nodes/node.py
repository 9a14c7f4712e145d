"""What every node has: an identity, an outbox that stamps its messages, a running summary."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from servonode.bus import Applied, Command, Message, PublisherFace, Report, State, Status, Target
from servonode.bus.messages import EXACT

PLANT, CONTROLLER, TARGET, LAUNCHER = "plant", "controller", "target", "launcher"
WANTED: dict[str, dict[str, list[str]]] = {  # who listens to what of whom
    PLANT: {CONTROLLER: ["command"]},
    CONTROLLER: {PLANT: ["state"], TARGET: ["target"]},
    TARGET: {PLANT: ["status"]},
}
STATUS_PERIOD_NS = 200_000_000
_TOPIC_OF = {
    State: "state",
    Command: "command",
    Applied: "applied",
    Target: "target",
    Report: "report",
    Status: "status",
}
Clock = Callable[[], int]  # monotonic ns


def start_id() -> int:
    """A new number that tells this start from every other, exact as a float."""
    return secrets.randbelow(EXACT - 1) + 1


@dataclass(frozen=True)
class Fault:
    """Something that stopped or would have endangered the run: a name for programs, a sentence for people."""

    name: str
    text: str
    t: float  # plant time, s
    node: str

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "text": self.text, "t": self.t, "node": self.node}


class Outbox:
    """Publishes messages of one node with the common header: numbers per topic, clocks, ids."""

    def __init__(self, node: str, publisher: PublisherFace, clock: Clock = time.monotonic_ns) -> None:
        self.node = node
        self.src = start_id()
        self.run = self.src  # the plant's own id; others echo the plant's
        self.clock = clock
        self._publisher = publisher
        self._seq = dict.fromkeys(_TOPIC_OF.values(), -1)

    def ready(self) -> bool:
        """Whether all expected subscriptions are held, so that the next message reaches everybody."""
        return self._publisher.ready()

    def readers(self) -> int:
        """How many subscriptions were ever made: a node that comes later shows."""
        self._publisher.subscriptions_seen()
        return self._publisher.joined

    def heard(self, topic: str) -> bool:
        """Whether a message of this topic would reach anybody, also one who hears its beginning or everything."""
        return self._publisher.listened(topic)

    def send(self, kind: type[Message], k: int, t: float, *, seq: int | None = None, **values: Any) -> Message:
        """Publish one message; `seq` repeats an earlier number (the same message once more)."""
        topic = _TOPIC_OF[kind]
        if seq is None:
            seq = self._seq[topic] = self._seq[topic] + 1
        message = kind(t=t, seq=seq, run=self.run, k=k, mono=self.clock(), node=self.node, src=self.src, **values)
        self._publisher.publish(topic, message)
        return message
