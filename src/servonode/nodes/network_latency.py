"""The due times of plant steps, and how late commands act because their controller is on another computer."""

from bisect import bisect_left, insort
from collections import deque

from servonode.bus.durations import Clock

KEPT = 31  # measurements whose median is taken: at 100 Hz those of the last 0.3 seconds


class StepTimes:
    """The due times of plant steps on the monotonic clock, each computed from step 0, so that no error accumulates.

    step_ns: the time between two steps [ns, wall clock].
    """

    def __init__(self, step_ns: float) -> None:
        self.start_ns = 0  # time of step 0
        self.step_ns = step_ns

    def due(self, step: int) -> int:
        """The monotonic time [ns] at which a step is due."""
        return self.start_ns + round(step * self.step_ns)

    def set_step_ns(self, step_ns: float, now: int) -> None:
        """From the present moment on let so long a time pass between two steps."""
        self.start_ns = now - round((now - self.start_ns) / self.step_ns * step_ns)
        self.step_ns = step_ns

    def step(self, now: int) -> int:
        """The newest step that is due at a monotonic time [ns]."""
        return int((now - self.start_ns) / self.step_ns)


class NetworkLatency:
    """By how many plant steps an answer acts later than the instant at which it is to act: the median of the newest.

    A simulated machine takes an answer from the step on in which it arrives, so whole steps are counted. A machine
    behind a link is written at once, between two steps. What `controller.delay` leaves an answer to arrive counts for
    nothing: one that arrives in time acts at its instant.
    """

    def __init__(self, delay: int, steps_per_period: int, times: StepTimes, clock: Clock, simulated: bool) -> None:
        """delay: that of the controller [control periods]."""
        self._delay, self._steps_per_period = delay, steps_per_period
        self._times, self._clock, self._simulated = times, clock, simulated
        self._newest = deque[float](maxlen=KEPT)
        self._sorted: list[float] = []

    def answered(self, instant: int, present: int) -> None:
        """Take an answer to the state of a control instant. present: the step that the clock has reached."""
        due = (instant + self._delay) * self._steps_per_period
        late = present - due if self._simulated else (self._clock() - self._times.due(due)) / self._times.step_ns
        late = max(late, 0)
        if len(self._newest) == KEPT:
            del self._sorted[bisect_left(self._sorted, self._newest[0])]
        self._newest.append(late)
        insort(self._sorted, late)

    @property
    def steps(self) -> float:
        """The median [plant steps]; 0 before the first answer."""
        return self._sorted[len(self._sorted) // 2] if self._sorted else 0.0
