"""The plant contract: the interface of a machine behind the safety filter, simulated or real."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
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


class EstimateOf(msgspec.Struct, frozen=True):
    """Quality of an estimated state, and of its readings since the one before.

    std: standard deviation by entry of the state. innovation: by sensor, the last reading less its prediction.
    consistency: `nis`, the squared innovations of all `readings` in units of their predicted covariance. rejected: by
    sensor, how many more the gate rejected.
    """

    std: dict[str, float]
    innovation: dict[str, float]
    consistency: dict[str, float]
    rejected: dict[str, float]


class Reading(msgspec.Struct, frozen=True):
    """A measured state in the order of `Info.state_names`, as it is known at plant step k, time t [s].

    step: the machine's own number of it, which stands still where nothing new has come. age: how long before t it was
    measured [s of plant time]. readings: of the machine's sensors, those that were not read before, by name: step,
    value, step, value, ...; None where nobody reads them. estimate: its quality, where it is estimated.
    """

    k: int
    t: float
    state: Array
    step: int
    age: float = 0.0
    readings: dict[str, list[float]] | None = None
    estimate: EstimateOf | None = None


class Plant(Protocol):
    """A machine that takes inputs and shows its state. The plant node's filter stands in front of `write`.

    `x` is the newest kernel state: the states and, as its last entry, the work [J] of inputs and losses (nan where it
    is not known); `output` the inputs that act; `finite` whether `x` is.
    """

    simulated: bool
    step_ns: int
    k: int
    x: Array
    finite: bool

    @property
    def distrust(self) -> tuple[str, str] | None:
        """Name and text of a fault where the newest readings are not plausible; `x` is then the last that could."""

    @property
    def extra(self) -> Mapping[str, float]:
        """What else it measures beside its state, by name."""

    @property
    def counts(self) -> Counter[str]:
        """Messages of a machine that were refused, by reason."""

    @property
    def t(self) -> float:
        """Plant time [s]: k * step_ns / 1e9."""

    @property
    def output(self) -> Array:
        """The inputs that act, as far as is known."""

    @property
    def age(self) -> float:
        """How old `x` is [s of plant time]."""

    @property
    def latency(self) -> float:
        """How long an input takes from its writing until it acts, as measured [s of plant time]; 0: not measured.

        Beyond `age`: a state is to be foreseen by both together.
        """

    @property
    def fds(self) -> tuple[int, ...]:
        """File descriptors that become readable when something may have come from the machine."""

    def open(self) -> Info:
        """Make the plant ready; nothing moves yet. Raises what tells why it cannot be."""

    def connect(self, run: int, k: int) -> None:
        """Begin the handshake for the run of this id, at plant step k."""

    def connected(self) -> bool:
        """Whether the machine has answered the handshake; never blocks, asks again where that is due."""

    def due(self) -> int | None:
        """The monotonic time [ns] at which to look again though no descriptor became readable, if any."""

    def no_answer_reason(self) -> str:
        """Why the handshake may not have been answered, for people."""

    def read(self) -> Reading:
        """The newest measurement."""

    def drops(self) -> bool:
        """Whether the sensor loses this measurement."""

    def write(self, applied: Array) -> None:
        """Hold these inputs until the next write. They have passed the safety filter."""

    def advance(self, steps: int) -> None:
        """Let plant time pass: integrate, or ask the machine to, or take what it has sent."""

    def advance_watched(self, steps: int) -> Array | None:
        """As `advance`, to the first step that ends in a fault at most: the state before that step, else None."""

    def arrived(self) -> bool:
        """Whether the machine has come to where `advance` sent it; never blocks."""

    def link_fault(self, now: int | None = None) -> tuple[str, str] | None:
        """Name and text of a fault of the machine or its link, or None; judged at `now` [monotonic ns] if given."""

    def restart_timeouts(self, now: int) -> None:
        """This process was stalled until now [monotonic ns]: what is awaited is awaited afresh."""

    def energy(self) -> float:
        """Kinetic plus potential energy [J]."""

    def safe(self) -> None:
        """Zero input, at once; a machine's own safe action comes through `write`."""

    def close(self) -> None:
        """Give the device back, in the safe state. A second call does nothing."""


class FollowingPlant(Plant, Protocol):
    """A machine that has a law of its own, such as firmware with the controller's law in it."""

    def follow(self, applied: Array, goal: list[float]) -> None:
        """As `write`, but these inputs are those near which the machine's own law acts until the next write.

        goal: the machine's step at which it is the goal, the goal's own step, then its entries.
        """
