"""The age of a machine's readings, from its step stamps and our clock."""

CREEP = 0.01  # share by which the machine's clock may be slower than ours without its readings counting as late


class ReadingAge:
    """Maps the machine's steps to our monotonic clock: to when they would have arrived without any waiting on the way.

    The quickest arrival so far is the measure, so an age counts what a reading has waited beyond that: in a queue, in a
    machine that sends what it measured long ago, or here. The two clocks need not agree; slow drift is followed.
    """

    def __init__(self, step_wall_ns: float) -> None:
        self._step_wall_ns = step_wall_ns
        self._base: float | None = None  # ns, when step 0 would have arrived
        self._newest = 0  # when the newest reading arrived

    def forget(self) -> None:
        """A new handshake: nothing is known of the machine's clock."""
        self._base = None

    def arrived(self, step: int, now: int) -> int:
        """When the state of this step was measured [monotonic ns], now that it has arrived."""
        base = now - step * self._step_wall_ns
        if self._base is None or base <= self._base:
            self._base = base
        else:
            self._base = min(base, self._base + CREEP * (now - self._newest))
        self._newest = now
        return now - round(base - self._base)
