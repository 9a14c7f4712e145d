"""Ring buffer of the newest rows of a run, in arrays of constant size."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Ring:
    """The newest `size` rows of named columns, the first of them the time `t`; older ones are overwritten.

    Every value is written twice, `size` apart, so that the newest rows always lie side by side and are read
    without being copied.
    """

    def __init__(self, names: Sequence[str], size: int) -> None:
        self.names = ("t", *names)
        self.size = size
        self.count = 0  # rows ever added since the last `clear`
        self._data = np.full((len(self.names), 2 * size), np.nan)

    def __len__(self) -> int:
        return min(self.count, self.size)

    def add(self, row: Array) -> None:
        """Append a row: t, then the columns in their order."""
        at = self.count % self.size
        self._data[:, at] = row
        self._data[:, at + self.size] = row
        self.count += 1

    def clear(self) -> None:
        """Drop all rows."""
        self.count = 0

    @property
    def columns(self) -> dict[str, Array]:
        """The rows there are, oldest first, by name; views that the next `add` may overwrite."""
        end = self.count if self.count < self.size else self.count % self.size + self.size
        begin = end - len(self)
        return {name: self._data[i, begin:end] for i, name in enumerate(self.names)}
