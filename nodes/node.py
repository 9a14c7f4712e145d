"""The common parts of all nodes: an identity, an outbox that stamps messages, an inbox, a status, a summary."""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from servonode.bus import TOPICS, BusFace, Lifecycle, Message, PublisherFace, Status, Wanted, subscriptions_expected
from servonode.bus.messages import EXACT
from servonode.nodes.topology import NODES, PLANT

STATUS_PERIOD_NS = 200_000_000
_TOPIC_OF = {kind: word for word, kind in TOPICS.items()}
Clock = Callable[[], int]  # monotonic ns


def start_id() -> int:
    """A new number that tells this start from every other, exact as a float."""
    return secrets.randbelow(EXACT - 1) + 1


@dataclass(frozen=True)
class Fault:
    """A fault that stopped the run or made the machine safe: a name for programs, a sentence for people."""

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
        self._seq = dict.fromkeys(NODES[node].publishes, -1)

    def ready(self) -> bool:
        """Whether all expected subscriptions are held, so that the next message reaches everybody."""
        return self._publisher.ready()

    def readers(self) -> int:
        """How many subscriptions have been made since the start; the number grows when a reader connects."""
        self._publisher.subscriptions_seen()
        return self._publisher.joined

    def has_subscriber(self, topic: str) -> bool:
        """Whether the topic has a subscriber, also one that subscribed to a prefix of its name."""
        return self._publisher.listened(topic)

    def send(self, kind: type[Message], k: int, t: float, *, seq: int | None = None, **values: Any) -> Message:
        """Publish one message; `seq` repeats an earlier number (the same message once more)."""
        topic = _TOPIC_OF[kind]
        message = self._stamped(topic, kind, k, t, seq, values)
        self._publisher.publish(topic, message)
        return message

    def send_all(self, kind: type[Message], several: Iterable[tuple[int, float, dict[str, Any]]]) -> None:
        """Publish messages of (k, t, values), at once."""
        topic = _TOPIC_OF[kind]
        self._publisher.publish_all(topic, [self._stamped(topic, kind, k, t, None, values) for k, t, values in several])

    def _stamped(
        self, topic: str, kind: type[Message], k: int, t: float, seq: int | None, values: dict[str, Any]
    ) -> Message:
        if seq is None:
            seq = self._seq[topic] = self._seq[topic] + 1
        return kind(t=t, seq=seq, run=self.run, k=k, mono=self.clock(), node=self.node, src=self.src, **values)


class Node:
    """What every node has: inbox, outbox, counters, faults, an answer to the operator, a summary of its run.

    stop: asked from outside to end. Subclasses say where the node stands: `standing`.
    """

    def __init__(
        self, name: str, bus: BusFace, listeners: Sequence[Wanted], clock: Clock, subscribes: Wanted | None = None
    ) -> None:
        """subscribes: to what it does, in place of what the table of nodes says."""
        self.name, self.bus, self.clock = name, bus, clock
        self.inbox = bus.subscriber(NODES[name].subscribes if subscribes is None else subscribes)
        self.outbox = Outbox(name, bus.publisher(subscriptions_expected(name, listeners)), clock)
        self.counts: Counter[str] = Counter()
        self.faults: list[Fault] = []  # of the whole run
        self.stop = False

    def standing(self) -> dict[str, Any]:
        """The state of the node, in words and numbers."""
        raise NotImplementedError

    def asked(self, word: str) -> dict[str, Any]:
        """The answer to what the operator asks: for the status, or for what only some nodes can do."""
        if word not in NODES[self.name].words:
            return {"refused": f"the {self.name} does not handle {word}; send it to the {PLANT}"}
        return self.standing()

    def all_counts(self) -> dict[str, int]:
        """The node's counters, and the messages that were refused before it saw them, by reason."""
        return dict(self.counts) | {f"refused_{name}": n for name, n in self.inbox.counts.items()}

    def summary(self) -> dict[str, Any]:
        """What the launcher needs of the node when the run is over."""
        return {"faults": [fault.as_dict() for fault in self.faults], "counts": self.all_counts()}


class EventNode(Node):
    """A node that works when messages come: controller and target. `work` handles what has arrived and returns."""

    def __init__(
        self, name: str, bus: BusFace, listeners: Sequence[Wanted], clock: Clock, subscribes: Wanted | None = None
    ) -> None:
        super().__init__(name, bus, listeners, clock, subscribes)
        self.failed: Fault | None = None  # the fault in which the node stands
        self.active = False  # whether the plant publishes
        self.t = 0.0  # s, to which the node has come
        self._status_due = 0

    def work(self) -> float:
        """Handle what has arrived; how long to sleep [s] unless more comes."""
        raise NotImplementedError

    def fail(self, name: str, text: str, t: float) -> None:
        """Enter the fault state and stay in it."""
        self.failed = Fault(name, text, t, self.name)
        self.faults.append(self.failed)

    @property
    def lifecycle(self) -> Lifecycle:
        if self.failed:
            return Lifecycle.FAULT
        return Lifecycle.ACTIVE if self.active else Lifecycle.INACTIVE

    def values(self) -> dict[str, float]:
        """What is measured of time, by flat names."""
        return {}

    def standing(self) -> dict[str, Any]:
        fault, text = (self.failed.name, self.failed.text) if self.failed else ("", "")
        stands = {"node": self.name, "lifecycle": self.lifecycle, "fault": fault, "text": text, "t": self.t}
        return stands | {"counts": dict(self.counts), "values": self.values()}

    def status_is_due(self) -> bool:
        """Whether a status is to be published now; the next one is due a period later."""
        now = self.clock()
        if now < self._status_due:
            return False
        self._status_due = now + STATUS_PERIOD_NS
        return True

    def publish_status(self, k: int, t: float, **more: float) -> None:
        """Publish lifecycle, fault, counters, and the values with `more`."""
        self.outbox.send(
            Status, k, t, lifecycle=self.lifecycle, fault=self.failed.name if self.failed else "",
            counts=dict(self.counts), values=self.values() | more,
        )  # fmt: skip
