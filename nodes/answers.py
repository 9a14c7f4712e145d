"""The control states that wait for an answer, and the commands that answer them; they show that a controller lives."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from servonode.bus import Command, Lifecycle
from servonode.nodes.command_filter import Expected, refusal
from servonode.nodes.durations import Durations
from servonode.nodes.node import Clock

OUTSTANDING = 64  # control states that may wait for an answer at once


class AskedState(NamedTuple):
    """A control state that waits for its answer; both clocks are the plant's [ns]."""

    instant: int  # control instant
    sent: int  # when it was published
    measured: int  # when its reading was taken
    goal_at: int = 0  # the machine's own step of that instant
    goal_step: int = 0  # that of the goal


class Answers:
    """The control states that were published, and the commands that answer them.

    successors: whether a controller may answer in the place of the one with which the plant became active.
    oldest_ns: how old a state may be that is answered [ns, wall clock]; set in real time.
    """

    def __init__(
        self, run: int, input_names: Iterable[str], successors: bool, counts: Counter[str], clock: Clock
    ) -> None:
        self.oldest_ns: int | None = None
        self.round_trip = Durations()
        self._waiting: dict[int, AskedState] = {}  # by the seq of the state, oldest first
        self._expected = Expected(run, -1, -1, self._waiting, frozenset(input_names))
        self._newest_ns = 0  # clock of the newest good command, also of one that did not act
        self._successors, self._src = successors, 0  # start id of the controller with which the plant became active
        self._counts, self._clock = counts, clock

    def begin(self, run: int) -> None:
        """Under a new run id: no answer to a state of before is taken any more."""
        self._expected.run = run
        self._expected.answered = self._expected.newest
        self._waiting.clear()

    def expect(self, seq: int, asked: AskedState, lifecycle: Lifecycle) -> None:
        """A control state of this number was published, and an answer to it is expected."""
        self._expected.newest = seq
        self._waiting[seq] = asked
        if len(self._waiting) > OUTSTANDING:
            self._miss(next(iter(self._waiting)), lifecycle)

    def take_only(self, src: int) -> None:
        """The plant becomes active with the controller of this start id: while it is, no other is taken."""
        self._src = src

    def age_ns(self) -> int:
        """How long ago the newest good command came [ns]."""
        return self._clock() - self._newest_ns

    def are_due(self) -> bool:
        """Whether the newest control state has no answer yet."""
        return self._expected.newest > self._expected.answered

    def take(self, command: Command, lifecycle: Lifecycle) -> AskedState | None:
        """The state that a command answers; None where the command is refused, which is counted by its reason."""
        reason = refusal(command, self._expected)
        if reason is None and lifecycle is Lifecycle.ACTIVE and not (self._successors or command.src == self._src):
            reason = "src"  # another controller than the one that was armed, such as its successor
        now, seq = self._clock(), command.re
        if reason is None and self.oldest_ns is not None and now - self._waiting[seq].sent > self.oldest_ns:
            # a slow link must not pass for a controller that answers in time
            reason = "stale" if lifecycle.accepts_commands else None
        if reason is not None:
            self._counts[f"refused_{reason}"] += 1
            return None
        while (oldest := next(iter(self._waiting))) < seq:
            self._miss(oldest, lifecycle)
        state = self._waiting.pop(seq)
        self._expected.answered, self._newest_ns = seq, now
        self.round_trip.add((now - state.sent) / 1e9)
        return state

    def _miss(self, seq: int, lifecycle: Lifecycle) -> None:
        """A state gets no answer any more."""
        del self._waiting[seq]
        if lifecycle is Lifecycle.ACTIVE:
            self._counts["missed_commands"] += 1
