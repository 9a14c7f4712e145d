"""The traffic on a serial line: what a run sends each way, and the rate of states that the line can carry."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from servonode.mechanics.machine import Machine
from servonode.plants.drivers.packets import HEADER, TRAILER

SHARE = 0.95  # of a line, which may be in use
BITS = 10  # of a byte on the line, with its start and stop bit
FASTEST_S = 1e-3  # between two states, wall clock, unless another rate is asked for
BAUDS = (9600, 19200, 38400, 57600, 115200, 230400, 460800, 921600, 1_500_000, 2_000_000, 3_000_000, 6_000_000)


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
    time, from and to the machine. baud: of the line; None: it has none.
    """

    state_every: int
    states: float
    inputs: float
    baud: int | None

    @property
    def share(self) -> float:
        """The share of the line that the busier direction takes; 0 without a line."""
        return max(self.states, self.inputs) * BITS / self.baud if self.baud else 0.0

    def problem(self) -> str:
        """Why the line cannot carry this, with the rate that could; empty: it can."""
        if self.baud is None or self.share <= SHARE:
            return ""
        least = max(self.states, self.inputs) * BITS / SHARE
        enough = next((each for each in BAUDS if each >= least), None)
        text = (
            f"a line of {self.baud} baud carries {self.baud * SHARE / BITS:.0f} bytes/s with room to spare; this run "
            f"sends {self.states:.0f} bytes/s from the machine and {self.inputs:.0f} to it"
        )
        faster = f"set plant.device.baud = {enough} here and in the firmware, or " if enough else ""
        return f"{text}; {faster}lower plant.device.state_rate, or raise the control period"


def traffic_of(stated: Pace, machine: Machine, baud: int | None, n_goal: int, n_sensors: int) -> Traffic:
    """The traffic of a run with this machine over a line of this baud rate; None: it has none.

    Without `state_rate` states come a thousand times a second, or as often as the line can carry them, at equal
    distances within a control period and at least once in each. n_goal: entries of the goal that goes with inputs;
    n_sensors: of a machine that sends readings, each once in every packet.
    """
    description, sends = machine.description, stated.device["sends"]
    n_u = len(description.input_names)
    measured = 8 * n_sensors if sends == "readings" else 4 * machine.n_state
    state = _frame(4 + 4 * n_u + measured)
    step_s = stated.step_s / stated.speed  # wall clock
    periods = max(round(stated.period_s / stated.step_s), 1) if stated.period_s else 0
    rate = stated.device["state_rate"]
    if rate is not None:
        every = max(round(1 / (rate * step_s)), 1)
    elif baud is None:
        every = 0
    else:
        least = max(FASTEST_S, state * BITS / (SHARE * baud))
        choices = [n for n in range(1, periods + 1) if periods % n == 0] or range(1, round(1 / step_s) + 1)
        every = next((n for n in choices if n * step_s > least * (1 - 1e-9)), choices[-1])
    applied = _frame(8 + 4 * n_u + (16 + 4 * n_goal if n_goal else 0))
    interval_s = periods * step_s if periods else FASTEST_S
    return Traffic(every, state / (every * step_s or FASTEST_S), applied / interval_s, baud)


def _frame(payload: int) -> int:
    """The bytes of a packet on a serial line."""
    size = HEADER + payload + TRAILER
    return size + size // 254 + 2
