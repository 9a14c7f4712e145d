"""The plant contract: what stands behind the safety filter, simulated or real."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Info:
    """What a plant says of itself when it is opened."""

    machine: str
    state_names: tuple[str, ...]
    input_names: tuple[str, ...]
    step: float  # s, the grid on which it can be read and written
    limits: tuple[float, ...]  # largest magnitude of each input, the input's unit
    simulated: bool  # time advances only through `advance`


@dataclass(frozen=True)
class Reading:
    """A measured state: plant time [s], its step number, and the state in the order of `Info.state_names`."""

    k: int
    t: float
    state: Array


class Plant(Protocol):
    """A machine that takes inputs and shows its state. The plant node's filter stands in front of `write`."""

    def open(self) -> Info:
        """Make the plant ready; nothing moves yet."""

    def read(self) -> Reading:
        """The newest measurement."""

    def write(self, applied: Array) -> None:
        """Hold these inputs until the next write. They have passed the safety filter."""

    def safe(self) -> None:
        """Zero input; a machine's own safe action comes through `write`."""

    def close(self) -> None:
        """Give the device back, in the safe state."""
