"""The traffic on a line: what a run sends each way, and the rate of states that a serial line or a CAN bus carries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from servonode.mechanics.machine import Machine
from servonode.plants.drivers.packets import HEADER, TRAILER

SHARE = 0.95  # of a line, which may be in use
FASTEST_S = 1e-3  # between two states, wall clock, unless another rate is asked for


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


class Pace(Protocol):
    """Of the keys for a driver: plant step [s], control period [s] (0: none), plant s per s of wall clock, device."""

    @property
    def step_s(self) -> float: ...
    @property
    def period_s(self) -> float: ...
    @property
    def speed(self) -> float: ...
    @property
    def device(self) -> Mapping[str, Any]: ...


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


def traffic_of(stated: Pace, machine: Machine, line: Line | None, n_goal: int, n_sensors: int) -> Traffic:
    """The traffic of a run with this machine over a line; None: it has none.

    Without `state_rate` states come a thousand times a second, or as often as the line can carry them, at equal
    distances within a control period and at least once in each. n_goal: entries of the goal that goes with inputs;
    n_sensors: of a machine that sends readings, each once in every packet.
    """
    description, sends = machine.description, stated.device["sends"]
    n_u = len(description.input_names)
    measured = 8 * n_sensors if sends == "readings" else 4 * machine.n_state
    size = line.size if line else (lambda n: n)
    state = size(HEADER + 4 + 4 * n_u + measured + TRAILER)
    applied = size(HEADER + 8 + 4 * n_u + (16 + 4 * n_goal if n_goal else 0) + TRAILER)
    step_s = stated.step_s / stated.speed  # wall clock
    periods = max(round(stated.period_s / stated.step_s), 1) if stated.period_s else 0
    inputs = applied / (periods * step_s if periods else FASTEST_S)
    rate = stated.device["state_rate"]
    if rate is not None:
        every = max(round(1 / (rate * step_s)), 1)
    elif line is None:
        every = 0
    else:
        free = SHARE * line.rate / line.bits - (inputs if line.shared else 0.0)  # bytes per second
        least = max(FASTEST_S, state / free if free > 0 else inf)
        choices = [n for n in range(1, periods + 1) if periods % n == 0] or range(1, round(1 / step_s) + 1)
        every = next((n for n in choices if n * step_s > least * (1 - 1e-9)), choices[-1])
    return Traffic(every, state / (every * step_s or FASTEST_S), inputs, line)
