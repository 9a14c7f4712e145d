"""The interfaces a node sees, whether its bus is made of sockets or of memory, and the intake both share."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from servonode.bus.codec import MessageError, decode
from servonode.bus.messages import Message, topic_named

HWM = 1000  # messages a queue holds; at 1 kHz a reader may stall for a second and lose nothing
BOUND = 1000  # messages taken in one drain, so that a flooding peer cannot pin the loop

Identity = tuple[Any, ...]  # the client to reply to; opaque
Wanted = Mapping[str, Sequence[str]]  # publisher node -> topic words
T = TypeVar("T")


class PublisherFace(Protocol):
    """The interface with which a node publishes."""

    def publish(self, topic: str, message: Message) -> None:
        """Send to all that are subscribed now; never blocks."""

    def publish_all(self, topic: str, messages: Iterable[Message]) -> None:
        """Send several messages of one topic at once; never blocks."""

    def subscriptions_seen(self) -> int:
        """The number of subscriptions held at present."""

    @property
    def joined(self) -> int:
        """Subscriptions received since the start, ended ones counted too; grows when a node joins."""

    def listened(self, topic: str) -> bool:
        """Whether the topic had a subscription when they were last counted."""

    def ready(self) -> bool:
        """Whether the expected subscriptions are held."""

    def wait_ready(self, deadline_ns: int) -> bool:
        """Sleep until `ready`; False if the monotonic deadline [ns] comes first."""


class SubscriberFace(Protocol):
    """The interface with which a node receives messages."""

    counts: Counter[str]

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """The waiting messages, oldest first, at most `bound`; never blocks."""

    def wait(self, deadline_ns: int | None) -> bool:
        """Whether something came before the monotonic deadline [ns]; None waits for ever."""


class RequestsFace(Protocol):
    """The interface with which a node answers requests."""

    def poll_request(self) -> tuple[Identity, dict[str, Any]] | None:
        """The client and content of the oldest request, or None; never blocks."""

    def reply(self, identity: Identity, content: dict[str, Any]) -> None:
        """Answer a request; never blocks; dropped if its client has disconnected."""


class BusFace(Protocol):
    """One node's bus, as `Bus` and `MemoryBus` implement it."""

    node: str

    def publisher(self, expected_subscriptions: int = 0) -> PublisherFace:
        """The node's one publisher."""

    def subscriber(self, wanted: Wanted) -> SubscriberFace:
        """A subscriber to topics of other nodes."""

    def requests(self) -> RequestsFace:
        """The node's one request socket."""

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:
        """Whether a subscriber, a request or one of `fds` became readable before the deadline [ns]."""

    def close(self) -> None:
        """Free everything; a second call does nothing."""


class Intake(Generic[T]):
    """What one subscriber makes of the frames that it gets; those that are refused are counted by reason.

    topics: all that may come. read: the content of a topic's payload, or a MessageError. subscribed: the topics to
    subscribe to at first, by their bytes on the wire (`words`); absent: all.
    """

    def __init__(
        self, topics: Iterable[str], read: Callable[[bytes, bytes], T], subscribed: Collection[str] | None = None
    ) -> None:
        self._topics = {word.encode(): word for word in topics}
        self._read = read
        self.words = {bits: word for bits, word in self._topics.items() if subscribed is None or word in subscribed}
        self.counts: Counter[str] = Counter()

    def take(self, topic: bytes, payload: bytes) -> tuple[str, T] | None:
        """The content with its topic word, or None after counting why not."""
        # ZeroMQ matches by prefix: a subscription to "state" also lets "state2" through.
        word = self._topics.get(topic)
        if word is None:
            self.counts["topic"] += 1
            return None
        try:
            return word, self._read(topic, payload)
        except MessageError as error:
            self.counts[error.reason] += 1
            return None


def message_intake(wanted: Wanted) -> Intake[Message]:
    """The intake of typed messages; ValueError for an unknown topic."""
    words = sorted({word for asked in wanted.values() for word in asked})
    for word in words:
        topic_named(word)
    return Intake(words, decode)


def undecoded(topic: bytes, payload: bytes) -> bytes:  # noqa: ARG001  (as an intake calls it)
    """The payload as it came."""
    return payload


def subscriptions_expected(node: str, subscribers: Iterable[Wanted]) -> int:
    """The number of subscriptions that the publisher of `node` will get from these subscribers.

    A subscriber's socket sends all its topic words to every node it connects to, so each counts with all of
    its words at each of its nodes.
    """
    return sum(len(message_intake(wanted).words) for wanted in subscribers if node in wanted)
