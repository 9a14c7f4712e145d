"""Shared memory that keeps a node's published messages until the writer has put them into the spool.

Like the memory of the rows (`store.py`) it is made before the first fork and shared by the processes of one run: a
message costs the node one copy and no system call, and outlives the node.
"""

import struct
import time
from collections.abc import Iterable

from servonode.bus import TOPICS, Message, Publisher
from servonode.bus.codec import encode_frames
from servonode.record.store import shared

ROOM = 1 << 24  # bytes; at 1 MB/s the writer may stall for 16 seconds
WAIT_S = 2.0  # longest wait of a node that may wait, enough to replace a writer that has died
LOOK_S = 0.001
ENTRY = struct.Struct("<IB")  # precedes each message: bytes of the payload, number of the topic
NUMBERS = {word: number for number, word in enumerate(TOPICS)}
_COUNT, _WRITTEN, _LOST, _ENDED = range(4)  # words of the head
_HEAD_BYTES = 4096


class FrameStore:
    """A ring buffer of bytes: the messages of one node, over all its lives.

    may_wait: a node that finds no room waits, because time stands still (lockstep); else the message is lost and
    counted.
    """

    def __init__(self, may_wait: bool, room: int = ROOM) -> None:
        self._memory = shared(_HEAD_BYTES + room)
        self._words = memoryview(self._memory)[:_HEAD_BYTES].cast("q")
        self._ring = memoryview(self._memory)[_HEAD_BYTES:]
        self._room, self._may_wait = room, may_wait

    # the node's side

    def add(self, topic: int, payload: bytes) -> None:
        """Keep a message; does nothing once the recording has ended."""
        words = self._words
        if words[_ENDED]:
            return
        count, size = words[_COUNT], ENTRY.size + len(payload)
        if count + size - words[_WRITTEN] > self._room and not self._has_room(size):
            words[_LOST] += 1
            return
        place, data = count % self._room, ENTRY.pack(len(payload), topic) + payload
        first = self._room - place
        self._ring[place : place + size] = data[:first]
        if first < size:
            self._ring[: size - first] = data[first:]
        words[_COUNT] = count + size  # after the message, so that only complete messages are counted

    def _has_room(self, size: int) -> bool:
        """Whether there is room, after a wait where the node may wait."""
        words, limit = self._words, time.monotonic() + (WAIT_S if self._may_wait else 0.0)
        while words[_COUNT] + size - words[_WRITTEN] > self._room:
            if words[_ENDED] or time.monotonic() >= limit:
                return False
            time.sleep(LOOK_S)
        return True

    # the writer's and the launcher's side

    @property
    def count(self) -> int:
        """The number of bytes added so far."""
        return self._words[_COUNT]

    @property
    def lost(self) -> int:
        """The number of messages lost because nothing was written for too long."""
        return self._words[_LOST]

    @property
    def written(self) -> int:
        """The number of bytes in the spool, whose places are free again."""
        return self._words[_WRITTEN]

    @written.setter
    def written(self, written: int) -> None:
        self._words[_WRITTEN] = written

    @property
    def ended(self) -> bool:
        """Whether the recording has ended, because it could not be written."""
        return bool(self._words[_ENDED])

    def end(self) -> None:
        """End the recording: nothing is kept from now on."""
        self._words[_ENDED] = 1

    def taken(self, first: int, last: int) -> bytes:
        """A copy of the bytes from number `first` to `last`; whole messages if both are former values of `count`."""
        begin, size = first % self._room, last - first
        head = bytes(self._ring[begin : begin + size])
        return head + bytes(self._ring[: size - len(head)])


class RecordedPublisher:
    """A node's publisher that also keeps every message for the recording."""

    def __init__(self, publisher: Publisher, frames: FrameStore) -> None:
        self._publisher, self._frames = publisher, frames
        self.subscriptions_seen = publisher.subscriptions_seen
        self.ready, self.wait_ready = publisher.ready, publisher.wait_ready

    def listened(self, topic: str) -> bool:  # noqa: ARG002
        """True: the recording takes every topic."""
        return True

    @property
    def joined(self) -> int:
        """Subscriptions received since the start, ended ones counted too."""
        return self._publisher.joined

    def publish(self, topic: str, message: Message) -> None:
        """Send to all that are subscribed now, and keep the message; never blocks in real time."""
        word, payload = encode_frames(topic, message)
        self._publisher.publish_frames(word, payload)
        self._frames.add(NUMBERS[topic], payload)  # after sending, because others wait for the message

    def publish_all(self, topic: str, messages: Iterable[Message]) -> None:
        """Send and keep several messages of one topic at once."""
        word, payloads = topic.encode(), [encode_frames(topic, each)[1] for each in messages]
        self._publisher.publish_frames(word, *payloads)
        for payload in payloads:
            self._frames.add(NUMBERS[topic], payload)
