"""A node's publishing socket: sends each message to all that have subscribed to its topic and read it."""

import socket
import time
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from servonode.bus.codec import encode_frames
from servonode.bus.messages import Message
from servonode.bus.server import Server
from servonode.bus.topics import TOPICS
from servonode.bus.waiter import Waiter
from servonode.bus.wire import MORE, Connection, frame

LARGEST = 64  # bytes of a frame that a subscriber may send: a subscription
SUBSCRIBERS = 32  # connections at once
SUBSCRIPTIONS = 32  # of one connection; a socket of servonode has as many as it wants topics
KIND, PEERS = b"XPUB", frozenset((b"SUB", b"XSUB"))


class Words:
    """The topics that a publisher publishes, and the prefixes of them that may be subscribed to."""

    def __init__(self, topics: Collection[str]) -> None:
        self.heads = {word.encode(): frame(word.encode(), MORE) for word in topics}  # the first frame, ready to be sent
        # the topics that each prefix lets through, from the empty prefix to the whole topic
        self.prefixes = {
            word[:length]: [other for other in self.heads if other.startswith(word[:length])]
            for word in self.heads
            for length in range(len(word) + 1)
        }


_NODES_WORDS = Words(TOPICS)


class Held:
    """The subscriptions of one connection, counted by prefix, and by topic that they let through."""

    def __init__(self) -> None:
        self.words: Counter[bytes] = Counter()
        self.topics: Counter[bytes] = Counter()


class Publisher:
    """The node's one publishing socket; knows the subscriptions that are held.

    Their table is bounded: a subscription that no topic of `words` begins with, or beyond SUBSCRIPTIONS, is ignored.
    """

    def __init__(self, listening: socket.socket, expected_subscriptions: int, words: Words = _NODES_WORDS) -> None:
        self.server = Server(listening, KIND, PEERS, LARGEST, SUBSCRIBERS, self._receive, self._ended)
        self.expected_subscriptions = expected_subscriptions
        self.subscriptions: Counter[str] = Counter()  # held at present, by topic word
        self.joined = 0  # subscriptions received since the start, ended ones counted too
        self._words = words
        self._held: dict[Connection, Held] = {}
        self._readers: dict[bytes, list[Connection]] = {word: [] for word in words.heads}
        self._waiter = Waiter()
        self._waiter.serve(self.server, self._is_expected)

    def publish(self, topic: str, message: Message) -> None:
        """Send to all that are subscribed now; never blocks. A subscriber that does not read loses it.

        Raises ValueError if the message is not of this topic, and what `encode` raises.
        """
        word, payload = encode_frames(topic, message)
        self._send(word, self._words.heads[word] + frame(payload))

    def publish_all(self, topic: str, messages: Iterable[Message]) -> None:
        """Send several messages of a topic at once: a reader gets all of them, or none."""
        self.publish_frames(topic.encode(), *(encode_frames(topic, each)[1] for each in messages))

    def publish_frames(self, word: bytes, *payloads: bytes) -> None:
        """Send payloads without looking into them: a reader gets all of them, or none."""
        head = self._words.heads[word]
        self._send(word, b"".join([head + frame(payload) for payload in payloads]))

    def _send(self, word: bytes, data: bytes) -> None:
        if readers := self._readers[word]:
            send = self.server.send
            # a copy, because one that has disconnected leaves the list
            for reader in readers if len(readers) == 1 else readers.copy():
                send(reader, data)

    def subscriptions_seen(self) -> int:
        """The number of subscriptions held at present, without those of a closed or killed subscriber."""
        self._waiter.look(time.monotonic_ns())
        return self.subscriptions.total()

    def listened(self, topic: str) -> bool:
        """Whether there is a subscription to this topic, to its beginning or to everything."""
        return bool(self._readers[topic.encode()])

    def ready(self) -> bool:
        """Whether the expected subscriptions are held, so that the next message reaches all."""
        return self.subscriptions_seen() >= self.expected_subscriptions

    def wait_ready(self, deadline_ns: int) -> bool:
        """Sleep until `ready`; False if the monotonic deadline [ns] comes first."""
        return self.ready() or self._waiter.wait(deadline_ns)

    def _is_expected(self) -> bool:
        return self.subscriptions.total() >= self.expected_subscriptions

    def _receive(self, connection: Connection, frames: list[bytes]) -> None:
        """Take a subscription or its end; anything else that a subscriber sends is ignored."""
        word = frames[0][1:]
        if word not in self._words.prefixes:
            return
        held = self._held.get(connection)
        if held is None:
            held = self._held[connection] = Held()
        if frames[0][:1] == b"\x01" and held.words.total() < SUBSCRIPTIONS:
            self.joined += 1
            self._change(connection, held, word, 1)
        elif frames[0][:1] == b"\x00" and held.words[word] > 0:
            self._change(connection, held, word, -1)

    def _change(self, connection: Connection, held: Held, word: bytes, by: int) -> None:
        """Add a subscription of a connection (`by` = 1), or remove one (-1)."""
        _add(held.words, word, by)
        _add(self.subscriptions, word.decode(), by)
        connection.wanted = bool(held.words)
        for topic in self._words.prefixes[word]:
            known = held.topics[topic] > 0
            _add(held.topics, topic, by)
            if not known:
                self._readers[topic].append(connection)
            elif topic not in held.topics:
                self._readers[topic].remove(connection)

    def _ended(self, connection: Connection) -> None:
        held = self._held.pop(connection, None)
        if held is not None:
            for word, number in held.words.items():
                _add(self.subscriptions, word.decode(), -number)
            for topic in held.topics:
                self._readers[topic].remove(connection)


def _add(counts: "Counter[Any]", key: bytes | str, number: int) -> None:
    """Add to a count, and remove it where it becomes 0."""
    counts[key] += number
    if counts[key] <= 0:
        del counts[key]
