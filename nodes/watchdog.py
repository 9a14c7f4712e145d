"""The watchdog of commands in real time: how long one has been due, and when it is overdue."""

from servonode.bus import Lifecycle
from servonode.nodes.guard import Guard


class CommandWatchdog:
    """The time since a command has been due. timeout_ns: how long one may be overdue [ns, wall clock]; None: for ever.

    first_ns: how long the first command after an arming may be owed. overdue: one has been owed for too long, and the
    plant waits for the next one without a fault.
    """

    def __init__(self, guard: Guard, timeout_ns: int | None, first_ns: int) -> None:
        self.overdue = False
        self._guard = guard
        self._timeout_ns, self._first_ns = timeout_ns, first_ns
        self._since: int | None = None  # clock from which a command has been owed
        self._afresh = False  # this wait has begun again after a stall of the host

    @property
    def allowed_ns(self) -> int | None:
        """How long a command may be owed now [ns, wall clock]; None: for ever, which only `unsafe` allows."""
        arming = self._guard.lifecycle is Lifecycle.ARMING and self._timeout_ns is not None
        return self._first_ns if arming else self._timeout_ns

    def expect(self, now: int) -> None:
        """A command is owed from now on, if none is owed already."""
        if self._since is None:
            self._since = now

    def answered(self, now: int, still_owed: bool) -> None:
        """A command has come; whether the newest state still waits for its own."""
        self._since = now if still_owed else None
        self._afresh = self.overdue = False

    def forget(self) -> None:
        """No command is owed: the plant is not armed."""
        self._since, self.overdue = None, False

    def begin_afresh(self, now: int) -> None:
        """After a stall of the host, wait again from now on; only once, so that many stalls hide no fault."""
        if self._since is not None and not self._afresh:
            self._since, self._afresh = now, True

    def expires(self) -> int | None:
        """The clock at which the command that is owed is overdue; None where none is owed or that is known already."""
        allowed = self.allowed_ns
        if self._since is None or self.overdue or allowed is None:
            return None
        return self._since + allowed
