"""The topics that a relay carries: those of the nodes here to the other computer, and those of its nodes to here."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from servonode.bus import Bus, DirectSubscriber, MessageError, Publisher, Wanted, decode, subscriptions_expected
from servonode.bus.interfaces import Intake, undecoded
from servonode.bus.messages import Message
from servonode.bus.topology import NODES, PLANT

AT_ONCE = 100  # messages of one node that are taken in one go


class RelayedTopics:
    """Takes what nodes here publish, and publishes what nodes of the other computer have sent.

    Only topics are carried that somebody at the other end has subscribed to.
    """

    def __init__(self, bus: Bus, here: Sequence[str], there: Sequence[str], listeners: Sequence[Wanted]) -> None:
        """here, there: the nodes of this computer and of the other one; listeners: the subscriptions of those here."""
        self.counts: Counter[str] = Counter()
        self._wanted: set[str] = set()  # NODE/WORD that the other computer wants
        self._here: dict[str, DirectSubscriber] = {}
        for node in here:
            topics = NODES[node].publishes
            self._here[node] = bus.direct_subscriber({node: topics}, Intake(topics, undecoded))
        self._there = {node: bus.publisher_for(node, subscriptions_expected(node, listeners)) for node in there}

    @property
    def fds(self) -> list[int]:
        """Descriptors that become readable when somebody subscribes here to what comes from there."""
        return [publisher.fd for publisher in self._there.values()]

    def look(self) -> None:
        """Serve those who subscribe here to what comes from there."""
        for publisher in self._there.values():
            publisher.look()

    def ready(self) -> bool:
        """Whether all that is expected here to subscribe has subscribed."""
        return all(publisher.ready() for publisher in self._there.values())

    def wanted_here(self) -> list[str]:
        """The topics, NODE/WORD, of the other computer that somebody here has subscribed to."""
        return [
            f"{node}/{word}"
            for node, publisher in self._there.items()
            for word in NODES[node].publishes
            if publisher.listened(word)
        ]

    def want(self, topics: Iterable[str]) -> None:
        """Carry these topics from now on, and no others."""
        known = {f"{node}/{word}" for node in self._here for word in NODES[node].publishes}
        self._wanted = known.intersection(topics)

    def take(self, send: Callable[[str, str, bytes], None]) -> Message | None:
        """Give `send` node, word and payload of what has come from the nodes here and is wanted there.

        Returns a new status of a plant here, if there is one: it tells the time.
        """
        status: bytes | None = None
        for node, subscriber in self._here.items():
            taken: list[tuple[str, Any]] = list(subscriber.receive(AT_ONCE))  # bytes, as the intake keeps them
            for word, payload in taken:
                if f"{node}/{word}" in self._wanted:
                    send(node, word, payload)
                if word == "status" and node == PLANT:
                    status = payload
        return None if status is None else self._decoded(b"status", status)

    def publish(self, node: str, topic: bytes, payload: bytes) -> Message | None:
        """Publish here what a node of the other computer has sent; None if it is refused, which is counted."""
        publisher: Publisher | None = self._there.get(node)
        word = topic.decode(errors="replace")
        if publisher is None or word not in NODES[node].publishes:
            self.counts["refused_topic"] += 1
            return None
        message = self._decoded(topic, payload)
        if message is None:
            return None
        if message.node != node:
            self.counts["refused_node"] += 1
            return None
        publisher.publish_frames(topic, payload)
        return message

    def _decoded(self, topic: bytes, payload: bytes) -> Message | None:
        """The message; None if it is not valid, which is counted."""
        try:
            return decode(topic, payload)
        except MessageError as error:
            self.counts[f"refused_{error.reason}"] += 1
            return None
