"""The control states that wait for an answer, and the commands that answer them: a sign that the controller runs."""

import math
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from servonode.bus import Command, Lifecycle
from servonode.bus.durations import Clock, Durations

OUTSTANDING = 64  # control states that may wait for an answer at once


class AskedState(NamedTuple):
    """A control state that waits for its answer; both clocks are the plant's [ns]."""

    instant: int  # control instant
    sent: int  # when it was published
    measured: int  # when its reading was taken
    goal_at: int = 0  # the machine's own step at that instant
    goal_step: int = 0  # the step of the goal at that instant


@dataclass(slots=True)
class Expected:
    """What a command is compared with: the run, the states that may still be answered, the input names.

    The plant keeps one and updates it, rather than make one for each command.
    """

    run: int
    newest: int  # seq of the newest control state published
    answered: int  # seq of the newest one already answered
    outstanding: Container[int]  # seqs of the control states that wait for an answer
    input_names: frozenset[str]


def refusal(command: Command, expected: Expected) -> str | None:
    """The reason to count if a command is refused, or None for a good one.

    Checked in this order: shape, finiteness, run id, sequence and age. A refused command has no effect.
    """
    if command.input.keys() != expected.input_names:
        return "shape"
    if not all(map(math.isfinite, command.input.values())):
        return "non_finite"
    if command.run != expected.run:
        return "run"
    if command.re > expected.newest:
        return "future"
    if command.re <= expected.answered:
        return "repeated" if command.re == expected.answered else "old"
    if command.re not in expected.outstanding:
        return "old"
    return None


class Answers:
    """The control states that were published, and the commands that answer them.

    successors: whether another controller may answer than the one with which the plant became active.
    oldest_ns: the largest age of a state at its answer [ns, wall clock]; set in real time.
    """

    def __init__(
        self, run: int, input_names: Iterable[str], successors: bool, counts: Counter[str], clock: Clock
    ) -> None:
        self.oldest_ns: int | None = None
        self.round_trip = Durations()
        self._waiting: dict[int, AskedState] = {}  # by the seq of the state, oldest first
        self._expected = Expected(run, -1, -1, self._waiting, frozenset(input_names))
        self._newest_ns = 0  # time of the newest good command, whether it acted or not
        self._successors, self._src = successors, 0  # start id of the controller with which the plant became active
        self._counts, self._clock = counts, clock

    def begin(self, run: int) -> None:
        """Begin under a new run id: answers to earlier states are refused."""
        self._expected.run = run
        self._expected.answered = self._expected.newest
        self._waiting.clear()

    def expect(self, seq: int, asked: AskedState, lifecycle: Lifecycle) -> None:
        """Note that a control state of this number was published, so that its answer is expected."""
        self._expected.newest = seq
        self._waiting[seq] = asked
        if len(self._waiting) > OUTSTANDING:
            self._miss(next(iter(self._waiting)), lifecycle)

    def take_only(self, src: int) -> None:
        """While the plant is active, take only answers of the controller with this start id."""
        self._src = src

    def age_ns(self) -> int:
        """The time since the newest good command [ns]."""
        return self._clock() - self._newest_ns

    def are_due(self) -> bool:
        """Whether the newest control state has no answer yet."""
        return self._expected.newest > self._expected.answered

    def take(self, command: Command, lifecycle: Lifecycle) -> AskedState | None:
        """The state that a command answers; None where the command is refused, which is counted by its reason."""
        reason = refusal(command, self._expected)
        if reason is None and lifecycle is Lifecycle.ACTIVE and not (self._successors or command.src == self._src):
            reason = "src"  # another controller than the one with which the plant became active, such as its restart
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
        """Drop a state that gets no answer any more; count it while the plant is active."""
        del self._waiting[seq]
        if lifecycle is Lifecycle.ACTIVE:
            self._counts["missed_commands"] += 1
