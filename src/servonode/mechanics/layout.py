"""Which part of an array holds what."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Self, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Layout:
    """Named parts of an array, one behind the other."""

    @classmethod
    def _consecutive(cls, *sizes: int) -> Self:
        return cls(*(slice(begin, end) for begin, end in pairwise(accumulate(sizes, initial=0))))

    @property
    def size(self) -> int:
        """The length of the array."""
        return sum(self._sizes.values())

    @property
    def _sizes(self) -> dict[str, int]:
        return {name: part.stop - part.start for name, part in vars(self).items()}

    def arranged(self, **parts: Sequence[T]) -> list[T]:
        """What stands in each part, by its name, in the order of the array.

        Raises:
            ValueError: not all parts are given, or one has another size.
        """
        given = {name: len(part) for name, part in parts.items()}
        if given != self._sizes:
            raise ValueError(f"entries {given} do not fit into the parts {self._sizes}; give each part its entries")
        return [each for name in self._sizes for each in parts[name]]
