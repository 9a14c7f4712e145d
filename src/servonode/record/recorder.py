"""What a node records: its rows and its messages, without allocating memory that grows."""

from collections.abc import Sequence

import numpy as np

from servonode.arrays import Array
from servonode.bus import Message, Publisher
from servonode.bus.codec import encode_frames
from servonode.errors import ServonodeError
from servonode.record.shared_memory import Ring
from servonode.record.spool import message_entry

LARGEST_RECORD = 2_000_000_000  # bytes


class RecordTooLarge(ServonodeError, ValueError):
    """The record of a run would not fit into memory."""


def check_size(rows: int, columns: int, remedy: str = "record fewer with a larger --every") -> None:
    """RecordTooLarge for a record of more than LARGEST_RECORD bytes."""
    size = rows * columns * 8
    if size > LARGEST_RECORD:
        most = f"at most {LARGEST_RECORD / 1e9:g} GB are kept"
        raise RecordTooLarge(f"a record of {rows} rows takes {size / 1e9:.1f} GB, {most}; {remedy}")


class Recorder:
    """Rows of named columns, at most `rows` of them; the first column is always the plant step `k`.

    With a `ring` the rows go to memory that launcher and writer share: they outlive this process, and new rows take the
    places of rows that have been written. Without one all rows stay in `data`.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: int,
        ring: Ring | None = None,
        remedy: str = "record fewer with a larger --every",
    ) -> None:
        self.columns = ("k", *columns)
        self.count = 0  # rows in `data`
        self.last = -1  # step of the newest row; -1: none yet
        self._ring = ring
        if ring is None:
            check_size(rows, len(self.columns), remedy)
            self.data = np.zeros((rows, len(self.columns)))
        else:
            self._entry = np.zeros(1 + len(self.columns))
            self._row, self._bytes = self._entry[1:], self._entry.data.cast("B")

    def add(self, k: int, *parts: Array) -> None:
        """Append a row. A full record drops it; a ring counts the lost rows."""
        ring = self._ring
        if ring is not None:
            row = self._row
        elif self.count < len(self.data):
            row = self.data[self.count]
        else:
            return
        row[0] = self.last = k
        start = 1
        for part in parts:
            row[start : start + len(part)] = part
            start += len(part)
        if ring is None:
            self.count += 1
        else:
            self._entry[0] = ring.life
            ring.add(self._bytes)

    @property
    def rows(self) -> Array:
        """The rows written so far, (count, columns), of a record without a ring."""
        return self.data[: self.count]


class RecordedPublisher(Publisher):
    """A node's publisher that also keeps every message for the recording."""

    def __init__(self, address: str, expected_subscriptions: int, ring: Ring) -> None:
        super().__init__(address, expected_subscriptions)
        self._ring = ring

    def has_subscriber(self, topic: str) -> bool:  # noqa: ARG002
        """True: the recording takes every topic."""
        return True

    def publish(self, topic: str, message: Message) -> None:
        """Send to all that are subscribed now, and keep the message; never blocks in real time."""
        self.publish_frames(*encode_frames(topic, message))

    def publish_frames(self, word: bytes, *payloads: bytes) -> None:
        """Send and keep several messages of one topic at once."""
        super().publish_frames(word, *payloads)
        for payload in payloads:  # after sending, because others wait for the messages
            self._ring.add(message_entry(word.decode(), payload))
