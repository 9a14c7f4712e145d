"""What a node keeps of a run: rows in an array made beforehand, so that recording allocates nothing."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
LARGEST_RECORD = 2_000_000_000  # bytes


class RecordTooLarge(ValueError):
    """The record of a run would not fit into memory."""


class Recorder:
    """Rows of named columns, at most `rows` of them; the first column is always the plant step `k`."""

    def __init__(self, columns: Sequence[str], rows: int) -> None:
        self.columns = ("k", *columns)
        size = rows * len(self.columns) * 8
        if size > LARGEST_RECORD:
            raise RecordTooLarge(
                f"a record of {rows} rows takes {size / 1e9:.1f} GB; record fewer with a larger --every"
            )
        self.data = np.zeros((rows, len(self.columns)))
        self.count = 0

    def add(self, k: int, *parts: Array) -> None:
        """Append a row; nothing happens when the record is full."""
        if self.count == len(self.data):
            return
        row = self.data[self.count]
        row[0] = k
        start = 1
        for part in parts:
            row[start : start + len(part)] = part
            start += len(part)
        self.count += 1

    @property
    def rows(self) -> Array:
        """The rows written so far, (count, columns)."""
        return self.data[: self.count]

    def save(self, file: Path) -> None:
        """Write the rows as .npy, whole or not at all."""
        draft = file.with_suffix(".tmp")
        with draft.open("wb") as stream:
            np.save(stream, self.rows)
        draft.replace(file)
