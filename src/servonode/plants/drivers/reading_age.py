"""The age of a machine's readings, from its step stamps and our clock."""

CREEP = 0.01  # share by which the machine's clock may be slower than ours without its readings counting as late


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
