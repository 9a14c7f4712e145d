"""A publisher of libzmq, for readers outside the run's folder; it knows which topics are subscribed to."""

from collections.abc import Collection

from servonode.bus.connection_limit import ConnectionLimit
from servonode.bus.zmq_io import MORE, NOBLOCK, Reader, Socket

LARGEST = 4096  # bytes of a frame that a subscriber may send: subscriptions, and the handshake with keys
LAST_MS = 500  # for which what was sent last may still go out
AT_ONCE = 32  # subscriptions that are taken in one look


class ZmqPublisher:
    """Publishes these topics at a bound XPUB socket, which it closes.

    A subscription that is not the beginning of one of the topics is not kept here. libzmq tells the first subscription
    to each and the end of the last; a subscriber that ends what it never began hides others from this account, but
    takes no message from them.
    """

    def __init__(self, opened: Socket, topics: Collection[str], limit: ConnectionLimit | None = None) -> None:
        """limit: of its connections, which is looked at here and closed with it."""
        self._socket, self._reader, self._limit = opened, Reader(opened), limit
        self._topics = [topic.encode() for topic in topics]
        self._held: set[bytes] = set()  # what is subscribed to: beginnings of topics

    def publish(self, word: bytes, payload: bytes) -> None:
        """Send to all that are subscribed; never blocks. Who does not read loses it."""
        self._socket.send(word, MORE)
        self._socket.send(payload, NOBLOCK)
        self._reader.disturbed()

    def look(self) -> None:
        """Take some of the subscriptions that have come."""
        if self._limit is not None:
            self._limit.look()
        for _ in range(AT_ONCE):
            said = self._reader.read()
            if said is None:
                return
            kind, word = said[0][:1], said[0][1:]
            if kind == b"\x00":
                self._held.discard(word)
            elif kind == b"\x01" and any(topic.startswith(word) for topic in self._topics):
                self._held.add(word)

    def listened(self) -> bool:
        """Whether there is any subscription."""
        self.look()
        return bool(self._held)

    def has_subscriber(self, topic: str) -> bool:
        """Whether there was a subscription to this topic, or to its beginning, at the last look."""
        return any(topic.encode().startswith(word) for word in self._held)

    def close(self) -> None:
        """Close the socket; what was sent last still goes out, as far as it is read. A second call does nothing."""
        self._socket.close(linger=LAST_MS)
        if self._limit is not None:
            self._limit.close()
