"""Shared memory for the record and the summary of a node; they survive the death of the node's process.

It is made before the first fork and belongs to no file, so that neither a full disk nor the death of a process affects
it. A node adds rows by a copy, without a system call; the writer writes them to the spool (`writer.py`), and at the end
of the run the launcher takes the rest.
"""

import json
import mmap
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

NAMES_BYTES = 1 << 16
SUMMARY_BYTES = 1 << 20
MOST_LIVES = 256  # lives of the plant that are told apart; later ones are merged into the last
MOST_FAULTS = 1000  # faults in a summary that would else be too long
_COUNT, _WRITTEN, _LOST, _COLUMNS, _NAMES, _SUMMARY, _LIVES, _STARTS = range(8)  # words of the head
_HEAD_BYTES = -(-8 * (_STARTS + MOST_LIVES) // mmap.PAGESIZE) * mmap.PAGESIZE
_ROWS_AT = _HEAD_BYTES + NAMES_BYTES + SUMMARY_BYTES


def shared(size: int) -> mmap.mmap:
    """Memory that forked processes share, all zero; the system provides pages only when they are touched."""
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return mmap.mmap(-1, size, flags=flags)


class Store:
    """The memory of one node: a ring buffer of rows, the names of its columns, and its summary.

    A row's number counts all rows that the node has added, over all its lives. It has many methods, because node,
    writer and launcher each use the memory in another way.
    """

    def __init__(self, room: int) -> None:
        """room: bytes for rows."""
        self._memory = shared(_ROWS_AT + max(room, 1))
        self._words = memoryview(self._memory)[:_HEAD_BYTES].cast("q")
        self._room = room
        self._ring: Array | None = None

    # the node's side

    def attach(self, columns: Sequence[str]) -> Array:
        """The ring buffer, (capacity, columns), for rows of these columns."""
        names = json.dumps(list(columns)).encode()
        if len(names) > NAMES_BYTES:
            raise ValueError(f"the names of {len(columns)} columns take more than {NAMES_BYTES} bytes")
        self._memory[_HEAD_BYTES : _HEAD_BYTES + len(names)] = names
        self._words[_NAMES] = len(names)
        self._words[_COLUMNS] = len(columns)
        return self.ring

    @property
    def count(self) -> int:
        """The number of rows added so far, all complete."""
        return self._words[_COUNT]

    @count.setter
    def count(self, count: int) -> None:
        self._words[_COUNT] = count

    @property
    def lost(self) -> int:
        """The number of rows lost because nothing was written for too long."""
        return self._words[_LOST]

    @lost.setter
    def lost(self, lost: int) -> None:
        self._words[_LOST] = lost

    def leave(self, summary: dict[str, Any]) -> None:
        """Leave the node's summary."""
        text = json.dumps(summary).encode()
        if len(text) > SUMMARY_BYTES:
            faults = summary.get("faults", [])
            kept = summary | {"faults": faults[:MOST_FAULTS], "faults_left_out": len(faults) - MOST_FAULTS}
            text = json.dumps(kept).encode()
        begin = _HEAD_BYTES + NAMES_BYTES
        self._memory[begin : begin + len(text)] = text
        self._words[_SUMMARY] = len(text)  # after the text, so that an incomplete one does not count

    # the launcher's and the writer's side

    @property
    def ring(self) -> Array:
        """The ring buffer as an array; empty until the node has begun."""
        if self._ring is None:
            n = self._words[_COLUMNS]
            capacity = self._room // (8 * n) if n else 0
            table = np.frombuffer(self._memory, dtype=np.float64, count=capacity * n, offset=_ROWS_AT)
            table = table.reshape(capacity, n)
            if not n:
                return table  # the node has not begun
            self._ring = table
        return self._ring

    @property
    def columns(self) -> list[str]:
        """The names of the columns; empty until the node has begun."""
        names: list[str] = json.loads(self._memory[_HEAD_BYTES : _HEAD_BYTES + self._words[_NAMES]] or b"[]")
        return names

    @property
    def written(self) -> int:
        """The number of rows in the spool or no longer wanted, whose places are free."""
        return self._words[_WRITTEN]

    @written.setter
    def written(self, written: int) -> None:
        self._words[_WRITTEN] = written

    def begin_life(self) -> None:
        """Begin a new life of the plant: in the rows from now on time begins again."""
        life = min(self._words[_LIVES], MOST_LIVES - 1)
        self._words[_STARTS + life] = self.count
        self._words[_LIVES] = life + 1

    def life_of(self, number: int) -> tuple[int, int]:
        """The life of the plant in which a row was added, from 0, and the first row of the next life."""
        starts = list(self._words[_STARTS : _STARTS + self._words[_LIVES]])
        life = max(bisect_right(starts, number) - 1, 0)
        return life, starts[life + 1] if life + 1 < len(starts) else self.count

    def rows(self, first: int, last: int) -> Array:
        """A copy of the rows of these numbers."""
        ring = self.ring
        return ring[np.arange(first, last) % max(len(ring), 1)]

    def free(self, first: int, last: int) -> None:
        """Return the memory of these rows to the system, as far as they fill whole pages."""
        ring = self.ring
        while first < last:
            place = first % len(ring)
            count = min(last - first, len(ring) - place)
            size = 8 * ring.shape[1]
            begin = -(-(_ROWS_AT + place * size) // mmap.PAGESIZE) * mmap.PAGESIZE
            end = (_ROWS_AT + (place + count) * size) // mmap.PAGESIZE * mmap.PAGESIZE
            if end > begin:
                with suppress(OSError, AttributeError):  # where the system cannot, the memory is kept
                    self._memory.madvise(mmap.MADV_REMOVE, begin, end - begin)
            first += count

    @property
    def summary(self) -> dict[str, Any]:
        """The summary that the node left at its end; empty if it left none."""
        begin = _HEAD_BYTES + NAMES_BYTES
        text = self._memory[begin : begin + self._words[_SUMMARY]]
        content: dict[str, Any] = json.loads(text) if text else {}
        return content
