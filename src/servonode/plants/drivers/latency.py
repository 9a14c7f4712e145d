"""The latency of an input until it acts, measured on a machine that acknowledges the inputs it has taken."""

from bisect import bisect_left, insort
from collections import deque

KEPT = 127  # measurements whose median is taken: at 100 Hz those of the last 1.3 seconds


class Latency:
    """The median of the newest measurements [ns, wall clock]: a few outliers of a busy computer do not change it.

    A measurement is the time from the sending of an input to the step of the machine in which it began to act, on the
    clock by which readings have an age (`ReadingAge`). It contains both ways of the link and the machine's own time:
    the time by which a state must be predicted, beyond its age. In lockstep nothing is measured.
    """

    def __init__(self, step_wall_ns: float) -> None:
        self._step_wall_ns = step_wall_ns
        self._sorted: list[float] = []
        self._newest: deque[float] = deque(maxlen=KEPT)
        self._step = -1  # the machine's step in the state before

    def forget(self) -> None:
        """Forget all measurements: a handshake begins."""
        self._sorted.clear()
        self._newest.clear()
        self._step = -1

    def state(self, step: int, measured_ns: int, sent_ns: int | None) -> None:
        """Take a state of this step, measured at `measured_ns`.

        sent_ns: when the newest input that this state is the first to echo was sent; None: it echoes no new one. The
        input arrived between the two states, in the middle on average: with a state each step, it has acted since the
        step before.
        """
        before, self._step = self._step, step
        if sent_ns is None or not 0 <= before < step:
            return
        steps_ago = (step - before + 1) / 2
        self._add(max(measured_ns - steps_ago * self._step_wall_ns - sent_ns, 0.0))

    def _add(self, value: float) -> None:
        if len(self._newest) == KEPT:
            del self._sorted[bisect_left(self._sorted, self._newest[0])]
        self._newest.append(value)
        insort(self._sorted, value)

    def ns(self) -> float:
        """The median [ns, wall clock]; 0 before the first measurement."""
        return self._sorted[len(self._sorted) // 2] if self._sorted else 0.0
