"""The lateness of a plant in real time: missed deadlines, stalls of the host, its own overruns."""

import time

from servonode.bus.durations import Durations

OWN_SHARE = 0.5  # share of a sudden lateness; if the process computed for so much of it, the host did not stall
STALL_SHARE = 0.5  # share of the command timeout; a sudden lateness of more is not the controller's fault


class Lateness:
    """Counts how late each wake-up is. limit_ns: a lateness beyond it is a fault of an armed plant."""

    def __init__(self, limit_ns: int, timeout_ns: int | None) -> None:
        self.limit_ns = limit_ns
        self.durations = Durations()
        self.misses = self.stalls = self.overruns = 0
        self.set_timeout(timeout_ns)
        self._late = self._stalled_ns = 0  # lateness of the newest wake-up [ns], and the part of it due to stalls
        self._computed = time.thread_time_ns()  # own computing time up to that wake-up

    def set_timeout(self, timeout_ns: int | None) -> None:
        """Judge stalls by this timeout of commands from now on."""
        self._stall_ns = round(STALL_SHARE * min(timeout_ns or self.limit_ns, self.limit_ns))

    def begin(self) -> None:
        """Count own computing time from now on."""
        self._computed = time.thread_time_ns()

    def count(self, late: int, step_ns: float) -> bool:
        """Count a wake-up that is `late` [ns], with plant steps of `step_ns`; returns whether the host stalled.

        A sudden lateness is a stall, or an overrun if this process itself computed meanwhile.
        """
        computed = time.thread_time_ns()
        grew, used = late - self._late, computed - self._computed
        self._late, self._computed = late, computed
        self.durations.add(late / 1e9)
        if late < step_ns:
            self._stalled_ns = 0
        if grew > self._stall_ns and used < OWN_SHARE * grew:  # this process did not run, nor did others on this host
            self.stalls += 1
            self._stalled_ns += grew
            return True
        self.overruns += late > self._stall_ns and grew > 0
        return False

    def fault(self) -> tuple[str, str] | None:
        """Name and text of the fault if the newest wake-up was later than the limit, else None."""
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
        """Why the plant cannot be armed now: it is behind the clock; None: it can."""
        if self._late <= self.limit_ns:
            return None
        return f"the plant is {self._late / 1e9:.3g} s behind the clock; wait until it has caught up"

    def values(self) -> dict[str, float]:
        """The values for a status, by flat names."""
        counted = {"misses": float(self.misses), "stalls": float(self.stalls), "overruns": float(self.overruns)}
        return {"lateness": self.durations.recent(), **counted, **self.durations.flat("lateness")}
