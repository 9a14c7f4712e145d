"""The fault ladder: the safe state that each fault demands, latched until it is reset."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


@dataclass(frozen=True)
class Fault:
    """A fault that stopped the run or made the machine safe: a name for programs, a sentence for people."""

    name: str
    text: str
    t: float  # plant time, s
    node: str

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "text": self.text, "t": self.t, "node": self.node}


class SafeState(IntEnum):
    """What reaches the machine, in order of severity; the most severe wins."""

    NOMINAL = 0  # the inputs of the law
    WARN = 1  # the inputs of the law, changed by a limit
    HOLD = 2  # the last inputs, held for no more periods than allowed
    DAMP = 3  # the machine's own safe action, from its state
    ZERO = 4  # zero input: the state cannot be trusted, or the machine has no safe action
    STOP = 5  # the driver makes the machine safe, and the run ends


SAFE_STATES = {
    "stale_command": SafeState.DAMP,
    "law": SafeState.DAMP,
    "estop": SafeState.DAMP,
    "robot": SafeState.DAMP,
    "overrun": SafeState.DAMP,
    "host_stall": SafeState.DAMP,
    "lockstep_timeout": SafeState.DAMP,
    "stale_state": SafeState.ZERO,
    "stale_applied": SafeState.DAMP,
    "link_lost": SafeState.ZERO,
    "implausible_state": SafeState.ZERO,
    "frozen_state": SafeState.ZERO,
    "estimate": SafeState.ZERO,
    "sensor_lost": SafeState.ZERO,
    "sensor_misfit": SafeState.ZERO,
    "flooding": SafeState.ZERO,
    "device_law": SafeState.ZERO,
    "device": SafeState.STOP,
    "diverged": SafeState.STOP,
    "jumps": SafeState.STOP,
}
MACHINE = SafeState.DAMP  # safe state of the machine's own fault conditions, such as fallen or tilt
ESTOP = "estop"  # has a latch of its own, which only reset --estop clears
ESTOP_STAYS_LATCHED = "the emergency stop stays latched; clear it with servonode reset --estop"
# faults that end the run in any case
FINAL = frozenset(name for name, safe_state in SAFE_STATES.items() if safe_state == SafeState.STOP)


class Ladder:
    """The faults of a run. `faults` keeps all of them, `latched` those since the last reset.

    waits: after a fault that is not final the run continues and waits for a reset; estop_waits: it does so at least
    after an emergency stop. told: called with each fault that is latched.
    """

    def __init__(
        self,
        faults: list[Fault],
        waits: bool = False,
        estop_waits: bool = False,
        told: Callable[[Fault], None] = lambda _: None,
    ) -> None:
        self.faults, self._told = faults, told
        self.latched: list[Fault] = []
        self.passing = SafeState.NOMINAL  # safe state without a latched fault
        self._waits, self._estop_waits = waits, estop_waits

    @property
    def safe_state(self) -> SafeState:
        """The most severe safe state of the latched faults; without any, `passing`."""
        return max((SAFE_STATES.get(fault.name, MACHINE) for fault in self.latched), default=self.passing)

    def latch(self, fault: Fault) -> bool:
        """Latch a fault until the reset; returns whether it is the first of its name since the last reset."""
        if any(each.name == fault.name for each in self.latched):
            return False
        self.latched.append(fault)
        self.faults.append(fault)
        self._told(fault)
        return True

    def reset(self, estop: bool = False) -> None:
        """Clear the latched faults, an emergency stop only with `estop`; `faults` still has them."""
        self.latched = [fault for fault in self.latched if fault.name == ESTOP and not estop]
        self.passing = SafeState.NOMINAL

    def ends_run(self) -> bool:
        """Whether the latched faults end the run, rather than wait for a reset."""
        names = {fault.name for fault in self.latched}
        return bool(names & FINAL) or not (self._waits or (self._estop_waits and ESTOP in names))

    def obstacle(self) -> str | None:
        """A sentence: the latched faults, and the command that clears them; None where no fault is latched."""
        names = [fault.name for fault in self.latched]
        if not names:
            return None
        what = (
            f"fault {names[0]} is latched; reset it"
            if len(names) == 1
            else (f"faults {', '.join(names)} are latched; reset them")
        )
        return f"{what} first (servonode reset{' --estop' if ESTOP in names else ''})"
