"""What the texts of this folder may use beside Python, as type checkers are to know it."""

from typing import Any, Generic, SupportsIndex, TypeVarTuple

Sizes = TypeVarTuple("Sizes")


class Size(type):
    """The type of sizes, which stand in types of arrays and, as whole numbers, in expressions."""

    def __index__(cls) -> int: ...  # type: ignore[empty-body]
    def __add__(cls, other: int) -> int: ...  # type: ignore[empty-body]
    def __rmul__(cls, other: int) -> int: ...  # type: ignore[empty-body]


class f64(Generic[*Sizes]):
    """An array of numbers, by its sizes; with fewer indices than sizes a row of it."""

    def __getitem__(self, at: SupportsIndex | tuple[int, ...]) -> Any: ...
    def __setitem__(self, at: SupportsIndex | tuple[int, ...], value: float) -> None: ...


class i64(Generic[*Sizes]):
    """An array of whole numbers, by its sizes."""

    def __getitem__(self, at: SupportsIndex | tuple[int, ...]) -> Any: ...
    def __setitem__(self, at: SupportsIndex | tuple[int, ...], value: int) -> None: ...


def fabs(value: float) -> float: ...  # type: ignore[empty-body]
def isfinite(value: float) -> bool: ...  # type: ignore[empty-body]
def rint(value: float) -> float: ...  # type: ignore[empty-body]


class any_size(metaclass=Size):
    """The first size of an array that may have any."""


class n_tau(metaclass=Size):
    """The inputs of a machine."""


class n_state(metaclass=Size):
    """The states of a machine, its coordinates and velocities."""


class n_x(metaclass=Size):
    """The states, and the work."""


class n_counts(metaclass=Size):
    """One count for each input's value and rate, one for power, one for all."""


class bounded(metaclass=Size):
    """The rows of the limits: value, rate."""


class drive_rows(metaclass=Size):
    """The rows of the drives' numbers."""


class error_rows(metaclass=Size):
    """The rows of the sensors' numbers."""


class believed_rows(metaclass=Size):
    """The rows of what a plausible reading keeps."""


class one(metaclass=Size):
    """A single number that a function writes."""
