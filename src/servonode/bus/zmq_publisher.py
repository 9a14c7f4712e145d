"""A publisher of libzmq, for readers outside the run's folder; it knows which topics are subscribed to."""

from collections import Counter
from collections.abc import Collection

from servonode.bus.zmq_io import CLOSE_MS, MORE, NOBLOCK, Reader, Socket

LARGEST = 4096  # bytes of a frame that a subscriber may send: subscriptions, and the handshake with keys
AT_ONCE = 32  # subscriptions that are taken in one look


class ZmqPublisher:
    """Publishes these topics at a bound XPUB socket, which it closes.

    A subscription that is not the beginning of one of the topics is not kept here.
    """

    def __init__(self, opened: Socket, topics: Collection[str]) -> None:
        self._socket, self._reader = opened, Reader(opened)
        self._topics = [topic.encode() for topic in topics]
        self._held: Counter[bytes] = Counter()  # subscriptions, by what they begin with

    def publish(self, word: bytes, payload: bytes) -> None:
        """Send to all that are subscribed; never blocks. Who does not read loses it."""
        self._socket.send(word, MORE)
        self._socket.send(payload, NOBLOCK)
        self._reader.disturbed()

    def look(self) -> None:
        """Take some of the subscriptions that have come."""
        for _ in range(AT_ONCE):
            said = self._reader.read()
            if said is None:
                return
            word = said[0][1:]
            if any(topic.startswith(word) for topic in self._topics):
                self._held[word] += 1 if said[0][:1] == b"\x01" else -1

    def subscriptions_seen(self) -> int:
        """The number of subscriptions held at present."""
        self.look()
        return self._held.total()

    def has_subscriber(self, topic: str) -> bool:
        """Whether there was a subscription to this topic, or to its beginning, at the last look."""
        return any(number > 0 and topic.encode().startswith(word) for word, number in self._held.items())

    def close(self) -> None:
        """Close the socket; what was sent last still goes out, as far as it is read. A second call does nothing."""
        self._socket.close(linger=CLOSE_MS)
