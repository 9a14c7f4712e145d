"""The plant contract: the interface of a machine behind the safety filter, simulated or real."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from servonode.arrays import Array


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


class Remote(Protocol):
    """A machine that is not simulated in this process, as far as its link shows it; no call blocks."""

    @property
    def fds(self) -> tuple[int, ...]:
        """File descriptors that become readable when something may have come from the machine."""

    @property
    def latency(self) -> float:
        """How long an input takes from its writing until it acts, as measured [s of plant time]; 0: not measured.

        Beyond the age of a state, which is to be foreseen by both together.
        """

    @property
    def obstacle(self) -> str:
        """Why the plant must not be armed, with the remedy: the machine has started anew; empty: it may be."""

    def accept_origin(self) -> None:
        """Take the positions of a machine that has started anew as they are."""

    def connected(self) -> bool:
        """Whether the machine has answered the handshake of `Plant.begin`; asks again where that is due."""

    def no_answer_reason(self) -> str:
        """Why the handshake may not have been answered, for people."""

    def due(self) -> int | None:
        """The monotonic time [ns] at which to look again though no descriptor became readable, if any."""

    def arrived(self) -> bool:
        """Whether the machine has come to where `Plant.advance` sent it."""

    def fault(self, now: int | None = None) -> tuple[str, str] | None:
        """Name and text of a fault of the machine or its link, or None; judged at `now` [monotonic ns] if given."""

    def restart_timeouts(self, now: int) -> None:
        """This process was stalled until now [monotonic ns]: what is awaited is awaited afresh."""


class Plant(Protocol):
    """A machine that takes inputs and shows its state. The plant node's filter stands in front of `write`.

    `x` is the newest kernel state: the states and, as its last entry, the work [J] of inputs and losses (nan where it
    is not known); `finite` whether it is. `remote` is a machine behind a link; None: it is simulated here. It is as
    large as what the plant node must know of a machine, and what belongs to links alone is in `Remote`.
    """

    simulated: bool
    step_ns: int
    x: Array
    finite: bool

    @property
    def remote(self) -> Remote | None: ...

    @property
    def k(self) -> int:
        """Plant step."""

    @property
    def t(self) -> float:
        """Plant time [s]: k * step_ns / 1e9."""

    @property
    def age(self) -> float:
        """How old `x` is [s of plant time]."""

    @property
    def output(self) -> Array:
        """The inputs that act, as far as is known."""

    @property
    def distrust(self) -> tuple[str, str] | None:
        """Name and text of a fault where the newest readings are not plausible; `x` is then the last that could."""

    @property
    def extra(self) -> Mapping[str, float]:
        """What else it measures beside its state, by name."""

    @property
    def counts(self) -> Counter[str]:
        """Messages of a machine that were refused, by reason."""

    def open(self) -> Info:
        """Make the plant ready; nothing moves yet. Raises what tells why it cannot be."""

    def begin(self, run: int, k: int) -> None:
        """Begin the run of this id at plant step k: readings are judged afresh, and a remote machine is asked."""

    def read(self) -> Reading:
        """The newest measurement."""

    def drops(self) -> bool:
        """Whether the sensor loses this measurement."""

    def write(self, applied: Array) -> None:
        """Hold these inputs until the next write. They have passed the safety filter."""

    def advance(self, steps: int, watched: bool = False) -> Array | None:
        """Let plant time pass: integrate, or ask the machine to, or take what it has sent.

        watched: to the first step at most that ends in a fault; returns the state before that step, else None.
        """

    def safe(self) -> None:
        """Zero input, at once; a machine's own safe action comes through `write`."""

    def close(self) -> None:
        """Give the device back, in the safe state. A second call does nothing."""


class SpeedPlant(Plant, Protocol):
    """A machine whose drives take speeds; its zero input is zero speed."""

    def drive(self, applied: Array, speeds: Array) -> None:
        """Hold these speeds until the next call; `applied` are the inputs that bring them about."""


class FollowingPlant(Plant, Protocol):
    """A machine that has a law of its own, such as firmware with the controller's law in it."""

    def follow(self, applied: Array, goal: list[float]) -> None:
        """As `write`, but these inputs are those near which the machine's own law acts until the next write.

        goal: the machine's step at which it is the goal, the goal's own step, then its entries.
        """
