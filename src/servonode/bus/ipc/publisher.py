"""A node's publishing socket: sends each message to all that have subscribed to its topic and read it.

Everything happens in the node's own thread: `look` accepts subscribers, and reads what they ask for, in small bounded
steps. Only processes that may enter the run's folder can connect.
"""

import select
import socket
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from servonode.bus.codec import encode_frames
from servonode.bus.ipc.wire import MORE, Connection, frame
from servonode.bus.messages import TOPICS, Message
from servonode.bus.run_folder import BusError, clear_path

LARGEST = 64  # bytes of a frame that a subscriber may send: a subscription
SUBSCRIBERS = 64  # connections at once; any more are closed
SUBSCRIPTIONS = 32  # of one connection; a socket of servonode has as many as it wants topics
BACKLOG = 512  # connections that wait to be accepted
AT_ONCE = 8  # connections that are served, and that are accepted, in one call of `look`
PIECE = 256  # bytes read from a connection in one call, or what is missing of a frame: some 100 frames at most
KIND, PEERS = b"XPUB", frozenset((b"SUB", b"XSUB"))

_IN, _OUT, _END = select.EPOLLIN, select.EPOLLOUT, select.EPOLLHUP | select.EPOLLERR
_HEADS = {word.encode(): frame(word.encode(), MORE) for word in TOPICS}  # the first frame, ready to be sent
# the topics that each prefix lets through, from the empty prefix to the whole topic
_MATCHES = {
    word[:length]: [other for other in _HEADS if other.startswith(word[:length])]
    for word in _HEADS
    for length in range(len(word) + 1)
}


class Subscriptions:
    """The subscriptions of one connection, counted by prefix, and by topic that they let through."""

    def __init__(self) -> None:
        self.words: Counter[bytes] = Counter()
        self.topics: Counter[bytes] = Counter()


class Publisher:
    """The node's one publishing socket, bound at an ipc address; knows the subscriptions that are held.

    Their table is bounded: a subscription that no topic begins with, or beyond SUBSCRIPTIONS, is ignored. BusError is
    raised where the address is served already, or cannot be bound.
    """

    def __init__(self, address: str, expected_subscriptions: int) -> None:
        self.expected_subscriptions = expected_subscriptions
        self.subscriptions: Counter[str] = Counter()  # held at present, by topic word
        self.subscription_count = 0  # subscriptions received since the start, ended ones counted too
        self._path = Path(address.removeprefix("ipc://"))
        self._listening = _listen(address, self._path)
        self._listening_fd = self._listening.fileno()
        self._connections: dict[int, tuple[Connection, Subscriptions]] = {}
        self._readers: dict[bytes, list[Connection]] = {word: [] for word in _HEADS}
        self._epoll = select.epoll()
        self._epoll.register(self._listening_fd, _IN)
        self.fd = self._epoll.fileno()  # readable when `look` has something to do

    def publish(self, topic: str, message: Message) -> None:
        """Send to all that are subscribed now; never blocks. A subscriber that does not read loses it.

        Raises ValueError if the message is not of this topic, and what `encode` raises.
        """
        word, payload = encode_frames(topic, message)
        self._send(word, _HEADS[word] + frame(payload))

    def publish_all(self, topic: str, messages: Iterable[Message]) -> None:
        """Send several messages of a topic at once: a reader gets all of them, or none."""
        self.publish_frames(topic.encode(), *(encode_frames(topic, each)[1] for each in messages))

    def publish_frames(self, word: bytes, *payloads: bytes) -> None:
        """Send payloads without looking into them: a reader gets all of them, or none."""
        head = _HEADS[word]
        self._send(word, b"".join([head + frame(payload) for payload in payloads]))

    def subscriptions_seen(self) -> int:
        """The number of subscriptions held at present, without those of a closed or killed subscriber."""
        self.look()
        return self.subscriptions.total()

    def has_subscriber(self, topic: str) -> bool:
        """Whether there is a subscription to this topic, to its beginning or to everything."""
        return bool(self._readers[topic.encode()])

    def ready(self) -> bool:
        """Whether the expected subscriptions are held, so that the next message reaches all."""
        return self.subscriptions_seen() >= self.expected_subscriptions

    def look(self) -> None:
        """Accept, read and end connections, AT_ONCE at most; what is left keeps `fd` readable."""
        # one by one: epoll then puts each behind the others, so that the next call begins with the next one
        for _ in range(AT_ONCE):
            ready = self._epoll.poll(0, 1)
            if not ready:
                return
            fd, event = ready[0]
            if fd == self._listening_fd:
                self._accept()
            elif fd in self._connections:
                self._serve(self._connections[fd][0], event)

    def close(self) -> None:
        """Stop listening, and remove the path; sent data still arrives, as far as peers read it."""
        self._listening.close()
        for connection, _ in self._connections.values():
            connection.close()
        self._connections.clear()
        self._epoll.close()
        self._path.unlink(missing_ok=True)

    def _send(self, word: bytes, data: bytes) -> None:
        if readers := self._readers[word]:
            # a copy, because one that has disconnected leaves the list
            for reader in readers if len(readers) == 1 else readers.copy():
                try:
                    reader.send(data)
                except OSError:
                    self._end(reader)
                else:
                    if reader.rest:
                        self._epoll.modify(reader.fd, _IN | _OUT)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                opened, _address = self._listening.accept()
            except OSError:  # none waits, it has gone already, or no descriptor is free
                return
            if len(self._connections) >= SUBSCRIBERS:
                opened.close()
                continue
            connection = Connection(opened, KIND, PEERS, LARGEST, PIECE)
            self._connections[connection.fd] = connection, Subscriptions()
            self._epoll.register(connection.fd, _IN)

    def _serve(self, connection: Connection, event: int) -> None:
        """Send what is left to send, and read one piece of what has come."""
        try:
            if event & _OUT and connection.flush():
                self._epoll.modify(connection.fd, _IN)
            if event & _IN:
                for frames in connection.read(PIECE):
                    self._receive(connection, frames[0])
            elif event & _END:
                raise ConnectionResetError("closed by the peer")
        except OSError:
            self._end(connection)

    def _receive(self, connection: Connection, said: bytes) -> None:
        """Take a subscription or its end; anything else that a subscriber sends is ignored."""
        held, word = self._connections[connection.fd][1], said[1:]
        if word not in _MATCHES:
            return
        if said[:1] == b"\x01" and held.words.total() < SUBSCRIPTIONS:
            self.subscription_count += 1
            self._change(connection, held, word, 1)
        elif said[:1] == b"\x00" and held.words[word] > 0:
            self._change(connection, held, word, -1)

    def _change(self, connection: Connection, held: Subscriptions, word: bytes, by: int) -> None:
        """Add a subscription of a connection (`by` = 1), or remove one (-1)."""
        _add(held.words, word, by)
        _add(self.subscriptions, word.decode(), by)
        for topic in _MATCHES[word]:
            known = held.topics[topic] > 0
            _add(held.topics, topic, by)
            if not known:
                self._readers[topic].append(connection)
            elif topic not in held.topics:
                self._readers[topic].remove(connection)

    def _end(self, connection: Connection) -> None:
        """Close a connection and drop its subscriptions; a second call does nothing."""
        _, held = self._connections.pop(connection.fd, (None, None))
        if held is not None:
            connection.close()  # epoll forgets it by itself
            for word, number in held.words.items():
                _add(self.subscriptions, word.decode(), -number)
            for topic in held.topics:
                self._readers[topic].remove(connection)


def _listen(address: str, path: Path) -> socket.socket:
    """A socket that listens at a path. BusError where that fails."""
    clear_path(address, path)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        opened.bind(str(path))
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise BusError(f"{address} cannot be bound ({error.strerror}); does its folder exist?") from None
    return opened


def _add(counts: "Counter[Any]", key: bytes | str, number: int) -> None:
    """Add to a count, and remove it where it becomes 0."""
    counts[key] += number
    if counts[key] <= 0:
        del counts[key]
