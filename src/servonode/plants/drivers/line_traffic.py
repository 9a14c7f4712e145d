"""The traffic on a line: what a run sends each way, and what a serial line or a CAN bus carries."""

from collections.abc import Callable
from dataclasses import dataclass

SHARE = 0.95  # of a line, which may be in use


@dataclass(frozen=True)
class Line:
    """What packets go over.

    rate [bit/s], its key and those that there are; size: bytes that a packet of so many takes, each of so many `bits`;
    shared: whether both directions have it together.
    """

    rate: int
    key: str
    rates: tuple[int, ...]
    size: Callable[[int], int]
    bits: float
    shared: bool = False

    def share(self, states: float, inputs: float) -> float:
        """The share of it that so many bytes per second from and to the machine take."""
        return (states + inputs if self.shared else max(states, inputs)) * self.bits / self.rate


@dataclass(frozen=True)
class Traffic:
    """The traffic of a run over packets.

    state_every: plant steps between two states; 0: the machine chooses. states, inputs: bytes per second of wall-clock
    time on the line, from and to the machine. line: None: a network, which has none.
    """

    state_every: int
    states: float
    inputs: float
    line: Line | None

    @property
    def share(self) -> float:
        """The share of the line that is taken, of one with two directions by the busier one; 0 without a line."""
        return self.line.share(self.states, self.inputs) if self.line else 0.0

    def problem(self) -> str:
        """Why the line cannot carry this, with the rate that could; empty: it can."""
        line = self.line
        if line is None or self.share <= SHARE:
            return ""
        enough = next((each for each in line.rates if each >= line.rate * self.share / SHARE * (1 - 1e-9)), None)
        what = f"a bus of {line.rate} bit/s carries" if line.shared else f"a line of {line.rate} baud carries"
        text = (
            f"{what} {line.rate * SHARE / line.bits:.0f} bytes/s with room to spare; this run "
            f"sends {self.states:.0f} bytes/s from the machine and {self.inputs:.0f} to it"
        )
        faster = f"set plant.device.{line.key} = {enough} here and in the firmware, or " if enough else ""
        return f"{text}; {faster}lower plant.device.state_rate, or raise the control period"
