"""The age of a machine's readings, from its step stamps and our clock; the latency of an input until it acts."""

from collections import deque

CREEP = 0.01  # share by which the machine's clock may be slower than ours without its readings counting as late
KEPT = 127  # measurements whose median is taken: at 100 Hz those of the last 1.3 seconds


class ReadingAge:
    """Maps the machine's steps to our monotonic clock: to the time at which they would arrive without any delay.

    The quickest arrival so far is the reference. An age is what a reading has waited beyond that: in a queue, in a
    machine that sends what it measured long ago, or here. The two clocks need not agree; slow drift is followed.
    """

    def __init__(self, step_wall_ns: float) -> None:
        self._step_wall_ns = step_wall_ns
        self._base: float | None = None  # ns, when step 0 would have arrived
        self._newest = 0  # when the newest reading arrived

    def forget(self) -> None:
        """Forget the machine's clock: a handshake begins."""
        self._base = None

    def arrived(self, step: int, now: int) -> int:
        """The time at which the state of this step, which has just arrived, was measured [monotonic ns]."""
        base = now - step * self._step_wall_ns
        if self._base is None or base <= self._base:
            self._base = base
        else:
            self._base = min(base, self._base + CREEP * (now - self._newest))
        self._newest = now
        return now - round(base - self._base)


class Latency:
    """The median of the newest measurements [ns, wall clock]: a few outliers of a busy computer do not change it.

    A measurement is the time from the sending of an input to the step of the machine in which it began to act, on the
    clock by which readings have an age (`ReadingAge`). It contains both ways of the link and the machine's own time:
    the time by which a state must be predicted, beyond its age. In lockstep nothing is measured.
    """

    def __init__(self, step_wall_ns: float) -> None:
        self._step_wall_ns = step_wall_ns
        self._newest: deque[float] = deque(maxlen=KEPT)
        self._step = -1  # the machine's step in the state before

    def forget(self) -> None:
        """Forget all measurements: a handshake begins."""
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
        self._newest.append(max(measured_ns - steps_ago * self._step_wall_ns - sent_ns, 0.0))

    def ns(self) -> float:
        """The median [ns, wall clock]; 0 before the first measurement."""
        return sorted(self._newest)[len(self._newest) // 2] if self._newest else 0.0
