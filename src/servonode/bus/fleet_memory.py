"""What the robots of one launch know of one another, in memory that all their processes share.

It is made before the first fork. Each robot writes only its own words, and the others read them: which control instant
its plant has reached and with which state, when it was last alive, and whether it has stopped. A value is written
before the word that counts it, so that a reader finds only whole ones.
"""

import mmap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.arrays import Array

KEPT = 8  # states of each robot; no robot in lockstep is more than one instant ahead of another
LONGEST_TEXT = 500  # bytes
LOOK_S = 50e-6  # pause between two looks at the others in lockstep
OTHER = " has stopped: "  # behind the name of another robot
START_NS = 5_000_000  # from when the last robot is ready to the common t = 0
RESUME_NS = 50_000_000  # from the request to go on after a pause until all do
READY, BEGUN, REACHED, SEEN, ENDED = range(5)  # words of a robot; REACHED counts instants
PAUSED, RESUMED = 5, 6  # words of all robots, in the row of the first one, for the operator of any
FINISHED, STOPPED, EMERGENCY = 1, 2, 3  # values of ENDED; 0: it runs


class FleetMemory:
    """The memory of a fleet.

    entries: of each robot, its state's entries by name. kept: states of each. simulated: whether all robots are.
    """

    def __init__(self, entries: Mapping[str, Mapping[str, int]], kept: int = KEPT, simulated: bool = True) -> None:
        self.robots, self.entries, self.simulated = tuple(entries), entries, simulated
        count, width = len(entries), max(map(len, entries.values()))
        memory = self._memory = mmap.mmap(-1, count * (64 + LONGEST_TEXT + 4 + 8 * kept * width))
        self.words = np.frombuffer(memory, np.int64, count * 8).reshape(count, 8)
        self.states = np.frombuffer(memory, np.float64, count * kept * width, count * 64).reshape(count, kept, width)
        self.texts = memoryview(memory)[count * (64 + 8 * kept * width) :]
        self.kept = kept

    def member(self, robot: str) -> "Member":
        """The position of a robot in the fleet."""
        return Member(self, robot, self.robots.index(robot))

    def all_have(self, word: int) -> bool:
        """Whether all robots are READY, or have BEGUN."""
        return bool(self.words[:, word].all())

    def text_of(self, index: int) -> str:
        """Why a robot has stopped."""
        at = index * (LONGEST_TEXT + 4)
        size = int.from_bytes(self.texts[at : at + 4], "little")
        return bytes(self.texts[at + 4 : at + 4 + size]).decode(errors="replace")

    def causes(self) -> list[tuple[str, str]]:
        """The robots that have stopped of themselves, not because of another one, and why."""
        stopped = [(robot, self.text_of(i)) for i, robot in enumerate(self.robots) if self.words[i, ENDED] >= STOPPED]
        return [(robot, text) for robot, text in stopped if OTHER not in text]

    # a simulation, in which one robot moves after the other

    def end_all(self) -> None:
        """Let all robots have come to their end."""
        self.words[:, ENDED] = FINISHED

    def begin_again(self, robot: str) -> None:
        """Let a robot run that has not begun."""
        self.words[self.robots.index(robot)] = 0

    def content(self) -> bytes:
        """All that is known now."""
        return bytes(self._memory)

    def restore(self, content: bytes) -> None:
        """Let that be known which was known before."""
        self._memory[:] = content


@dataclass(frozen=True, eq=False)
class Member:
    """The place of one robot in its fleet: what it tells the others, and what they tell it."""

    memory: FleetMemory
    robot: str
    index: int

    @property
    def _own(self) -> Any:
        return self.memory.words[self.index]

    def _others(self) -> list[int]:
        return [i for i in range(len(self.memory.robots)) if i != self.index]

    # the start

    def get_ready(self) -> bool:
        """Note that all nodes of the robot are ready; returns whether those of all robots are."""
        self._own[READY] = 1
        return self.memory.all_have(READY)

    def begin(self, now_ns: int) -> int:
        """Note that the plant can begin; the monotonic time of the common t = 0 [ns], or 0 until all can."""
        self._own[BEGUN] = self._own[BEGUN] or now_ns
        begun = self.memory.words[:, BEGUN]
        return int(begun.max()) + START_NS if begun.all() else 0

    # pauses, which are of all robots

    @property
    def paused_from(self) -> int | None:
        """The control instant from which the time of all robots stands still; None: it passes."""
        return int(self.memory.words[0, PAUSED]) - 1 if self.memory.words[0, PAUSED] else None

    def pause_from(self, instant: int | None, now_ns: int) -> None:
        """Let the time of all robots stand still from a control instant on, or pass again (None)."""
        words = self.memory.words[0]
        words[RESUMED] = now_ns + RESUME_NS
        words[PAUSED] = 0 if instant is None else instant + 1

    @property
    def resume_ns(self) -> int:
        """The monotonic time at which all robots go on after a pause [ns]."""
        return int(self.memory.words[0, RESUMED])

    # states

    def reach(self, instant: int, state: Array | None) -> None:
        """Note a control instant with the state that the plant publishes there; None: that message was lost."""
        kept, states = self.memory.kept, self.memory.states[self.index]
        if state is None:
            states[instant % kept] = states[(instant - 1) % kept]
        else:
            states[instant % kept, : len(state)] = state
        self._own[REACHED] = instant + 1

    def instant_of(self, robot: str) -> int:
        """The control instant that another robot has reached; -1: none yet."""
        return int(self.memory.words[self.memory.robots.index(robot), REACHED]) - 1

    def entry_of(self, robot: str, entry: str, instant: int) -> float:
        """An entry of another robot's state at a control instant that it has reached."""
        memory = self.memory
        return float(memory.states[memory.robots.index(robot), instant % memory.kept, memory.entries[robot][entry]])

    def awaited(self, instant: int) -> str:
        """A robot that runs and has not reached a control instant yet; empty: all have."""
        words = self.memory.words
        late = (i for i in self._others() if words[i, REACHED] <= instant and not words[i, ENDED])
        return next((self.memory.robots[i] for i in late), "")

    # the end

    def look(self, now_ns: int) -> None:
        """Note that the plant is alive."""
        self._own[SEEN] = now_ns

    def end(self, text: str = "", emergency: bool = False) -> None:
        """Note why the robot has stopped, or without a text that it has come to its end; only the first note counts."""
        if self._own[ENDED]:
            return
        data = text.encode()[:LONGEST_TEXT]
        at = self.index * (LONGEST_TEXT + 4)
        self.memory.texts[at : at + 4 + len(data)] = len(data).to_bytes(4, "little") + data
        self._own[ENDED] = (EMERGENCY if emergency else STOPPED) if text else FINISHED

    def resume(self) -> None:
        """Note that the robot is well again: its faults were reset."""
        self._own[ENDED] = 0

    def stopped(self, before: int | None = None) -> tuple[str, bool] | None:
        """Another robot that has stopped, in words, and whether by an emergency stop; None: none has.

        before: only one that has not reached this control instant.
        """
        words = self.memory.words
        for i in self._others():
            if words[i, ENDED] >= STOPPED and (before is None or words[i, REACHED] <= before):
                text = f"robot {self.memory.robots[i]}{OTHER}{self.memory.text_of(i)}"
                return text, bool(words[i, ENDED] == EMERGENCY)
        return None

    def silent(self, now_ns: int, limit_ns: int, since: int = BEGUN) -> str:
        """Another robot that has BEGUN, or was SEEN, and shown no sign of life for this long; empty: all are alive."""
        words = self.memory.words
        gone = (i for i in self._others() if words[i, since] and not words[i, ENDED])
        return next((self.memory.robots[i] for i in gone if now_ns - words[i, SEEN] > limit_ns), "")


class RobotSamples:
    """A state of another robot, such as `leader.X`, as if it were samples of a topic."""

    def __init__(self, member: Member, state: str) -> None:
        self.counts: Counter[str] = Counter()
        self._member, (self._robot, _, self._entry) = member, state.partition(".")
        self._taken = -1  # control instant of the newest number that was taken

    def newest(self) -> float | None:
        """The newest number since the last call, until all robots have begun also an older one; None: no robot yet."""
        instant = self._member.instant_of(self._robot)
        if instant < 0 or (instant == self._taken and self._member.memory.all_have(BEGUN)):
            return None
        return self.at(instant)

    def at(self, instant: int) -> float | None:
        """The number at a control instant; None: the robot has not reached it."""
        reached = self._member.instant_of(self._robot)
        if reached < instant:
            return None
        instant = self._taken = max(instant, reached - self._member.memory.kept + 1)  # after a new arming
        return self._member.entry_of(self._robot, self._entry, instant)
