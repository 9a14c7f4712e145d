"""The bus within one process: the same interfaces, the same bytes, no sockets and no threads.

`simulate` steps all nodes on it. Each message is encoded once and decoded by each reader, so what arrives is
what would have arrived over the wire, refusals included, in the order in which it was published.
"""

from collections import Counter, deque
from collections.abc import Iterable

from servonode.bus.codec import BOUND, HWM, Wanted, encode_frames, message_intake
from servonode.bus.messages import Message
from servonode.bus.run_folder import BusError


class Switchboard:
    """Joins the memory buses of one process, as the run's folder joins those of processes."""

    def __init__(self) -> None:
        self.subscribers: dict[str, list[MemorySubscriber]] = {}  # by publisher node, in order of arrival
        self.publishers: set[str] = set()


class MemoryPublisher:
    """Delivers to the queues of all subscribers of its node at once."""

    def __init__(self, switchboard: Switchboard, node: str, expected_subscriptions: int) -> None:
        self._readers = switchboard.subscribers.setdefault(node, [])
        self.expected_subscriptions = expected_subscriptions

    def publish(self, topic: str, message: Message) -> None:
        """Deliver to all that are subscribed now; a full queue drops the message, as on the wire. Raises as there."""
        frames = encode_frames(topic, message)
        for reader in self._readers:
            reader.deliver(frames)

    def publish_all(self, topic: str, messages: Iterable[Message]) -> None:
        """Deliver several messages, one after the other."""
        for message in messages:
            self.publish(topic, message)

    def subscriptions_seen(self) -> int:
        """The number of subscriptions held at present."""
        return sum(len(reader.words) for reader in self._readers)

    @property
    def subscription_count(self) -> int:
        """Subscriptions held at present: those that have ended are not counted here."""
        return self.subscriptions_seen()

    def has_subscriber(self, topic: str) -> bool:
        """Whether the topic has a subscription."""
        return any(topic.encode() in reader.words for reader in self._readers)

    def ready(self) -> bool:
        """Whether the expected subscriptions are held."""
        return self.subscriptions_seen() >= self.expected_subscriptions


class MemorySubscriber:
    """A subscriber: a queue of the frames that were published to it."""

    def __init__(self, wanted: Wanted) -> None:
        self._intake = message_intake(wanted)
        self.words = frozenset(self._intake.words)
        self.counts: Counter[str] = self._intake.counts  # refused messages by reason
        self._queue: deque[tuple[bytes, bytes]] = deque()

    def deliver(self, frames: tuple[bytes, bytes]) -> None:
        """Queue the frames if their topic was asked for and there is room."""
        if frames[0] in self.words and len(self._queue) < HWM:
            self._queue.append(frames)

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """The waiting messages, oldest first, at most `bound`."""
        taken = []
        for _ in range(min(bound, len(self._queue))):
            if (message := self._intake.take(*self._queue.popleft())) is not None:
                taken.append(message)
        return taken

    def wait(self, deadline_ns: int | None) -> bool:  # noqa: ARG002
        """Whether something waits; returns at once."""
        return bool(self._queue)


class MemoryBus:
    """The interface of `Bus`, but for requests, on a switchboard."""

    def __init__(self, switchboard: Switchboard, node: str) -> None:
        self.node = node
        self._switchboard = switchboard
        self._subscribers: list[tuple[Wanted, MemorySubscriber]] = []

    def publisher(self, expected_subscriptions: int = 0) -> MemoryPublisher:
        """The node's publisher; BusError if the node has one."""
        if self.node in self._switchboard.publishers:
            raise BusError(f"node {self.node!r} publishes already; rename one of the two")
        self._switchboard.publishers.add(self.node)
        return MemoryPublisher(self._switchboard, self.node, expected_subscriptions)

    def subscriber(self, wanted: Wanted) -> MemorySubscriber:
        """A subscriber to `{publisher node: [topic words]}`; ValueError for an unknown word."""
        made = MemorySubscriber(wanted)
        for node in wanted:
            self._switchboard.subscribers.setdefault(node, []).append(made)
        self._subscribers.append((wanted, made))
        return made

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:  # noqa: ARG002
        """Whether a message waits; returns at once: nothing arrives while it waits."""
        return any(made.wait(None) for _, made in self._subscribers)

    def close(self) -> None:
        """Leave the switchboard; a second call does nothing."""
        for wanted, made in self._subscribers:
            for node in wanted:
                self._switchboard.subscribers[node].remove(made)
        self._subscribers.clear()
        self._switchboard.publishers.discard(self.node)
