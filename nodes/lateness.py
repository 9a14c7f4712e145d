"""The lateness of a plant in real time: missed deadlines, stalls of the host, its own overruns."""

import time

from servonode.nodes.durations import Durations

OWN_SHARE = 0.5  # of a sudden lateness: with so much of it spent computing, it is no stall of the host
STALL_SHARE = 0.5  # of the command timeout: a sudden lateness of more is not the controller's fault


class Lateness:
    """Counts how late each wake-up is. limit_ns: beyond it an armed plant is in fault."""

    def __init__(self, limit_ns: int, timeout_ns: int | None) -> None:
        self.limit_ns = limit_ns
        self.durations = Durations()
        self.misses = self.stalls = self.overruns = 0
        self._stall_ns = round(STALL_SHARE * min(timeout_ns or limit_ns, limit_ns))
        self._late = self._stalled_ns = 0  # of the newest wake-up [ns], and how much of it came of stalls
        self._computed = time.thread_time_ns()  # own computing time until then

    def begin(self) -> None:
        """Count own computing time from now on."""
        self._computed = time.thread_time_ns()

    def count(self, late: int, step_ns: float) -> bool:
        """Count a wake-up so late [ns], at plant steps so far apart; whether it was a stall of the host.

        Much later than the one before is a stall, or an overrun where this process itself computed meanwhile.
        """
        computed = time.thread_time_ns()
        grew, used = late - self._late, computed - self._computed
        self._late, self._computed = late, computed
        self.durations.add(late / 1e9)
        if late < step_ns:
            self._stalled_ns = 0
        if grew > self._stall_ns and used < OWN_SHARE * grew:  # it did not run, nor did who shares this host
            self.stalls += 1
            self._stalled_ns += grew
            return True
        self.overruns += late > self._stall_ns and grew > 0
        return False

    def fault(self) -> tuple[str, str] | None:
        """Name and text of the fault that the newest wake-up came beyond the limit, or None."""
        if self._late <= self.limit_ns:
            return None
        if self._stalled_ns < self._late / 2:
            remedy = (
                "a step takes longer to compute than it lasts; lower run.speed, lengthen plant.step, or use lockstep"
            )
            return "overrun", f"the plant is {self._late / 1e9:.3g} s behind the clock: {remedy}"
        remedy = "the computer or the process was suspended, or is too busy"
        return "host_stall", f"the plant did not run for {self._late / 1e9:.3g} s: {remedy}"

    def obstacle(self) -> str | None:
        """Why the plant cannot be armed now: it has still to catch up with the clock."""
        if self._late <= self.limit_ns:
            return None
        return f"the plant is {self._late / 1e9:.3g} s behind the clock; wait until it has caught up"

    def values(self) -> dict[str, float]:
        """What a status says of it, by flat names."""
        counted = {"misses": float(self.misses), "stalls": float(self.stalls), "overruns": float(self.overruns)}
        return {"lateness": self.durations.recent(), **counted, **self.durations.flat("lateness")}
