"""Memory that the processes of a run share: what a node puts there survives the death of its process.

It is made before the first fork and belongs to no file, so that neither a full disk nor the death of a process affects
it. A node adds rows and messages by a copy, without a system call; the writer writes them to the spool (`spool.py`),
and at the end of the run the launcher takes the rest.
"""

import json
import mmap
import time
from contextlib import suppress
from typing import Any

MESSAGES_ROOM = 1 << 24  # bytes; at 1 MB/s the writer may stall for 16 seconds
SUMMARY_BYTES = 1 << 20
MAX_FAULTS = 1000  # faults in a summary that would else be too long
BLOCK_BYTES = 1 << 22  # of rows that are written at once
WAIT_S = 2.0  # longest wait of a node that may wait, enough to replace a writer that has died
LOOK_S = 0.001
_COUNT, _WRITTEN, _LOST, _ENDED, _STARTS = range(5)  # words of a ring's head
_HEAD_BYTES = mmap.PAGESIZE


def shared(size: int) -> mmap.mmap:
    """Memory that forked processes share, all zero; the system provides pages only when they are touched."""
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return mmap.mmap(-1, size, flags=flags)


class Ring:
    """A ring buffer of bytes: the rows or the messages of one node, over all its lives.

    Positions in it count all bytes that were ever added. It has many methods, because node, writer and launcher each
    use it in another way.
    """

    def __init__(self, room: int, row: int = 0, may_wait: bool = False) -> None:
        """A ring of `room` bytes.

        row: the bytes of a row; 0 for messages. may_wait: a node that finds no room waits, because time stands still
        (lockstep); else the entry is lost and counted.
        """
        self._memory = shared(_HEAD_BYTES + room)
        self._words = memoryview(self._memory)[:_HEAD_BYTES].cast("q")
        self._ring = memoryview(self._memory)[_HEAD_BYTES:]
        self._room, self._row, self._may_wait = room, row, may_wait

    @classmethod
    def of_rows(cls, rows: int, columns: int) -> "Ring":
        """A ring for this many rows; in front of its columns each row has the plant's life."""
        size = 8 * (1 + columns)
        return cls(rows * size, size)

    # the node's side

    def add(self, entry: bytes | memoryview) -> None:
        """Keep an entry; it is lost once the recording has ended."""
        words, size = self._words, len(entry)
        if words[_ENDED]:
            words[_LOST] += 1
            return
        count = words[_COUNT]
        if count + size - words[_WRITTEN] > self._room and not self._has_room(size):
            words[_LOST] += 1
            return
        place = count % self._room
        first = self._room - place
        self._ring[place : place + size] = entry[:first]
        if first < size:
            self._ring[: size - first] = entry[first:]
        words[_COUNT] = count + size  # after the entry, so that only complete ones are counted

    def _has_room(self, size: int) -> bool:
        """Whether there is room, after a wait where the node may wait."""
        words, limit = self._words, time.monotonic() + (WAIT_S if self._may_wait else 0.0)
        while words[_COUNT] + size - words[_WRITTEN] > self._room:
            if words[_ENDED] or time.monotonic() >= limit:
                return False
            time.sleep(LOOK_S)
        return True

    @property
    def life(self) -> int:
        """The present life of the plant, from 0."""
        return max(self._words[_STARTS] - 1, 0)

    # the writer's and the launcher's side

    def note_start(self) -> None:
        """The plant begins at t = 0, for the first time or after a restart."""
        self._words[_STARTS] += 1

    @property
    def count(self) -> int:
        """The number of bytes added so far."""
        return self._words[_COUNT]

    @property
    def lost(self) -> int:
        """The number of entries lost because nothing was written for too long, or the recording has ended."""
        return self._words[_LOST]

    @property
    def written(self) -> int:
        """The number of bytes in the spool or no longer wanted, whose places are free."""
        return self._words[_WRITTEN]

    @property
    def ended(self) -> int:
        """The error number of the system for which the recording has ended; 0 while it goes on."""
        return self._words[_ENDED]

    def end(self, number: int) -> None:
        """End the recording for an error of the system: nothing is kept from now on."""
        self._words[_ENDED] = number

    def next_end(self, last: int) -> int:
        """Where to end the next block, at most at `last`: rows that had to wait are written in several."""
        return min(last, self.written + BLOCK_BYTES // self._row * self._row) if self._row else last

    def content(self, first: int, last: int) -> bytes:
        """A copy of the bytes from position `first` to `last`; whole entries if both are former values of `count`."""
        begin, size = first % self._room, last - first
        head = bytes(self._ring[begin : begin + size])
        return head + bytes(self._ring[: size - len(head)])

    def release(self, last: int) -> None:
        """Let the node use the places of the bytes up to `last` again.

        The memory of rows, which have room for a whole run, goes back to the system.
        """
        if self._row:
            self._return_pages(self.written, last)
        self._words[_WRITTEN] = last

    def _return_pages(self, first: int, last: int) -> None:
        """Return the memory of these bytes to the system, as far as they fill whole pages."""
        while first < last:
            place = first % self._room
            size = min(last - first, self._room - place)
            begin = -(-(_HEAD_BYTES + place) // mmap.PAGESIZE) * mmap.PAGESIZE
            end = (_HEAD_BYTES + place + size) // mmap.PAGESIZE * mmap.PAGESIZE
            if end > begin:
                with suppress(OSError, AttributeError):  # where the system cannot, the memory is kept
                    self._memory.madvise(mmap.MADV_REMOVE, begin, end - begin)
            first += size


class NodeMemory:
    """What one node leaves: its rows and its messages, None where none are recorded, and its summary."""

    def __init__(self, rows: Ring | None = None, messages: Ring | None = None) -> None:
        self.rows, self.messages = rows, messages
        self._memory = shared(mmap.PAGESIZE + SUMMARY_BYTES)
        self._size = memoryview(self._memory)[:8].cast("q")

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Leave the node's summary."""
        text = json.dumps(summary).encode()
        if len(text) > SUMMARY_BYTES:
            faults = summary.get("faults", [])
            kept = summary | {"faults": faults[:MAX_FAULTS], "faults_left_out": len(faults) - MAX_FAULTS}
            text = json.dumps(kept).encode()
        self._memory[mmap.PAGESIZE : mmap.PAGESIZE + len(text)] = text
        self._size[0] = len(text)  # after the text, so that an incomplete one does not count

    @property
    def summary(self) -> dict[str, Any]:
        """The summary that the node left at its end; empty if it left none."""
        text = self._memory[mmap.PAGESIZE : mmap.PAGESIZE + self._size[0]]
        content: dict[str, Any] = json.loads(text) if text else {}
        return content
