"""The watchdog of commands in real time: since when a command has been due, and when it is overdue."""

from servonode.bus import Lifecycle
from servonode.nodes.guard import Guard


class CommandWatchdog:
    """Measures how long a command has been due.

    timeout_ns: the longest time [ns, wall clock]; None: any. first_ns: that of the first command after an arming.
    overdue: whether a command has been due for too long, and the plant waits for the next one without a fault.
    """

    def __init__(self, guard: Guard, timeout_ns: int | None, first_ns: int) -> None:
        self.overdue = False
        self._guard = guard
        self._timeout_ns, self._first_ns = timeout_ns, first_ns
        self._since: int | None = None  # time since which a command has been due
        self._afresh = False  # whether this wait was restarted after a stall of the host

    @property
    def allowed_ns(self) -> int | None:
        """How long a command may be due at present [ns, wall clock]; None: any time, which only `unsafe` allows."""
        arming = self._guard.lifecycle is Lifecycle.ARMING and self._timeout_ns is not None
        return self._first_ns if arming else self._timeout_ns

    def expect(self, now: int) -> None:
        """Note that a command is due from now on, if none is due already."""
        if self._since is None:
            self._since = now

    def answered(self, now: int, still_owed: bool) -> None:
        """Note a command. still_owed: whether the newest state still waits for its answer."""
        self._since = now if still_owed else None
        self._afresh = self.overdue = False

    def postpone(self, passed_ns: int, still_owed: bool) -> None:
        """After a pause of so long [ns], wait for as long as was left before it, if a command is still due."""
        if self._since is not None:
            self._since = self._since + passed_ns if still_owed else None

    def set_timeout(self, timeout_ns: int | None, now: int) -> None:
        """Allow so long a time from now on; of what was left of a wait, the same share is left."""
        if self._since is not None and timeout_ns and self._timeout_ns:
            self._since = now - round((now - self._since) * timeout_ns / self._timeout_ns)
        self._timeout_ns = timeout_ns

    def forget(self) -> None:
        """Note that no command is due, because the plant is not armed."""
        self._since, self.overdue = None, False

    def begin_afresh(self, now: int) -> None:
        """After a stall of the host, wait again from now on; only once, so that many stalls hide no fault."""
        if self._since is not None and not self._afresh:
            self._since, self._afresh = now, True

    def expires(self) -> int | None:
        """The time at which the due command is overdue; None where none is due or it is overdue already."""
        allowed = self.allowed_ns
        if self._since is None or self.overdue or allowed is None:
            return None
        return self._since + allowed
