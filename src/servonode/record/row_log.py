"""The rows that a node records during a run, in a preallocated array, so that recording allocates no memory."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from servonode.errors import ServonodeError
from servonode.record.store import Store

Array = npt.NDArray[np.float64]
LARGEST_RECORD = 2_000_000_000  # bytes


class RecordTooLarge(ServonodeError, ValueError):
    """The record of a run would not fit into memory."""


def check_size(rows: int, columns: int, remedy: str = "record fewer with a larger --every") -> int:
    """The size [bytes] of a record of this many rows; RecordTooLarge for more than LARGEST_RECORD."""
    size = rows * columns * 8
    if size > LARGEST_RECORD:
        most = f"at most {LARGEST_RECORD / 1e9:g} GB are kept"
        raise RecordTooLarge(f"a record of {rows} rows takes {size / 1e9:.1f} GB, {most}; {remedy}")
    return size


class Recorder:
    """Rows of named columns, at most `rows` of them; the first column is always the plant step `k`.

    With a `store` the rows are in a ring buffer that launcher and writer share: they outlive this process, and new rows
    take the places of rows that have been written. Without one all rows stay in `data`.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: int,
        store: Store | None = None,
        remedy: str = "record fewer with a larger --every",
    ) -> None:
        self.columns = ("k", *columns)
        self.count = 0  # rows added so far; in a store also those of this node's earlier lives
        self.last = -1  # step of the newest row of this life; -1: none yet
        self._store = store
        if store is None:
            check_size(rows, len(self.columns), remedy)
            self.data = np.zeros((rows, len(self.columns)))
        else:
            self.data = store.attach(self.columns)
            self.count = store.count

    def add(self, k: int, *parts: Array) -> None:
        """Append a row. A full record drops it; a store counts the lost rows."""
        count, store = self.count, self._store
        if store is None:
            if count == len(self.data):
                return
        elif count - store.written >= len(self.data):
            store.lost += 1
            return
        row = self.data[count % len(self.data)]
        row[0] = self.last = k
        start = 1
        for part in parts:
            row[start : start + len(part)] = part
            start += len(part)
        self.count = count + 1
        if store is not None:
            store.count = self.count  # after the row, so that only complete rows are counted

    @property
    def rows(self) -> Array:
        """The rows written so far, (count, columns), of a record without a store."""
        assert self._store is None
        return self.data[: self.count]
