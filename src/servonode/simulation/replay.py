"""The controller run again on the states of a recording: every command is computed again and compared bit by bit."""

import json
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from servonode.arrays import Array
from servonode.bus import (
    Command,
    MemoryBus,
    Message,
    MessageError,
    Parameters,
    State,
    Status,
    Switchboard,
    Target,
    decode,
)
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.known_code import digest
from servonode.nodes.answerer import MOST_GOALS
from servonode.nodes.controller_node import ControllerNode
from servonode.nodes.node import infinite
from servonode.record.bag import Bag
from servonode.record.write import BagError, provenance

COMMANDS, STATES, GOALS_SENT, STATUSES = "controller/command", "plant/state", "target/target", "controller/status"
CHANGES = "controller/parameters"
KEPT = 4096  # states kept for commands that are still to come
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True)
class Difference:
    """Where a command that was computed again differs from the recorded one. k: plant step of the state it answers."""

    k: int
    t: float
    name: str  # of the field, as input.U1
    recorded: Any
    computed: Any

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"step {self.k}, t = {self.t:.9g} s: {self.name} is {self.recorded!r}, computed again {self.computed!r}"


@dataclass
class Replay:
    """What a replay found. differing: commands by field; first: the first difference of each field, in order.

    left_out: commands that need states, goals or numbers that are not in the recording, as at the beginning of one by
    listening.
    """

    compared: int = 0
    left_out: int = 0
    differing: Counter[str] = field(default_factory=Counter)
    differing_messages: int = 0
    first: dict[str, Difference] = field(default_factory=dict)

    def note(self, found: list[Difference]) -> None:
        """Count a command and what differs in it."""
        self.compared += 1
        self.differing_messages += bool(found)
        for each in found:
            self.differing[each.name] += 1
            self.first.setdefault(each.name, each)


def replay(bag: Bag, closed_loop: ClosedLoop) -> Replay:
    """Feed the recorded states and goals to the controller of `closed_loop`, and compare its commands.

    Of the states those are fed that the recorded controller has answered, in its order; an estimator gets all.

    Raises:
        BagError: the run has no controller, or the bag none of its commands.
    """
    found = Replay()
    player = _Player(_controlled(bag, closed_loop))
    # without goals which of the empty messages had come is of the clock
    words = ("re", "target_seq", "fault") if closed_loop.targets.entries else ("re", "fault")
    for recorded, computed in _answers(bag, player):
        found.note(list(_compared(recorded, computed, words)))
    found.left_out = player.left_out
    if not found.compared:
        remedy = bag.remedy("record a run with a controller")
        raise BagError(f"{bag.file}: holds no {COMMANDS} with the state that it answers; {remedy}")
    return found


def play(bag: Bag, closed_loop: ClosedLoop) -> Iterator[tuple[int, Array]]:
    """What the controller computes on the recorded states: its rows, for each start id of the plant."""
    player = _Player(_controlled(bag, closed_loop))
    starts: dict[int, int] = {}  # by start id: how many rows there were before
    for recorded, _ in _answers(bag, player):
        starts.setdefault(recorded.run, max(player.count - 1, 0))
    rows = player.rows
    ends = [*starts.values(), len(rows)][1:]  # none where no command was answered
    for (run, first), last in zip(starts.items(), ends, strict=True):
        yield run, rows[first:last]


def _controlled(bag: Bag, closed_loop: ClosedLoop) -> ClosedLoop:
    if closed_loop.control is None:
        raise BagError(f"{bag.file}: the run has no controller, so there are no commands to compute again")
    return closed_loop


def _answers(bag: Bag, player: "_Player") -> Iterator[tuple[Command, Command | None]]:
    """Each recorded command, and what the controller answers now."""
    for _, topic, content in bag.messages((COMMANDS, STATES, GOALS_SENT, STATUSES, CHANGES)):
        message = _received(topic, content)
        if isinstance(message, State):
            player.keep(message)
        elif isinstance(message, Target):
            player.goal(message)
        elif isinstance(message, Status):
            player.status(message)
        elif isinstance(message, Parameters):
            player.changes[message.src, message.seq] = message
        elif isinstance(message, Command) and player.received_all(message):
            yield message, player.answer(message)


def made_otherwise(bag: Bag) -> list[str]:
    """What of the making of the recorded commands is another here, in words: then the bits may differ."""
    here, there = provenance(), bag.made_by(CONTROLLER)
    names = ("servonode", "python", "libraries", "system", "libm")
    texts = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode() for name, value in here.items()
    }
    found = [f"{name} {there.get(name, '?')}, here {texts[name]}" for name in names if _other(there, name, texts)]
    return found + (["another processor"] if _other(there, "processor", texts) else [])


def changed_files(bag: Bag) -> list[str]:
    """The files of the user's that state machine or program and are not what they were, a line each."""
    folder, lines = Path(bag.launch["path"]).parent, []
    for name, before in json.loads(bag.about.get("files", "{}")).items():
        now = digest(folder / name)
        if now != before:
            lines.append(f"{name!r} {'has changed since it was recorded' if now else 'is no longer there'}")
    return lines


def _other(there: dict[str, str], name: str, texts: dict[str, str]) -> bool:
    return there.get(name, "").replace(" ", "") != texts[name].replace(" ", "")


class _Player:
    """A controller node, and what it is fed; one that was restarted is made again.

    What it keeps is what messages that are still to come refer to.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self._closed_loop = closed_loop
        self._states: dict[tuple[int, int], State] = {}  # by run and seq
        self._goals: dict[tuple[int, int], Target] = {}
        self.changes: dict[tuple[int, int], Parameters] = {}  # by start id of the controller and seq
        self._fed: dict[int, int] = {}  # by run: seq of the state that was answered last
        self._src = self._silent = 0
        self.left_out = 0
        self._done: list[Array] = []  # rows of controllers before
        self._now = 0  # the node's clock: it stands, so that only what was recorded clears the law's memory
        self._begin()

    def _begin(self) -> None:
        switchboard = Switchboard()
        self._node = ControllerNode(self._closed_loop, MemoryBus(switchboard, CONTROLLER), (), clock=lambda: self._now)
        self._answers = MemoryBus(switchboard, "replay").subscriber({CONTROLLER: ("command",)})
        self._plant = MemoryBus(switchboard, PLANT).publisher()
        self._target = MemoryBus(switchboard, TARGET).publisher()
        self._silent = 0

    @property
    def count(self) -> int:
        """How many answers were recorded."""
        return sum(map(len, self._done)) + self._node.record.count

    @property
    def rows(self) -> Array:
        """What the controllers have recorded: a row for each answer."""
        return np.concatenate([*self._done, self._node.record.rows])

    def keep(self, state: State) -> None:
        """Keep a state until a command answers it."""
        self._states[state.run, state.seq] = state
        if len(self._states) > KEPT:
            del self._states[next(iter(self._states))]

    def goal(self, goal: Target) -> None:
        """Feed a goal."""
        self._goals[goal.run, goal.seq] = goal
        if len(self._goals) > MOST_GOALS:
            del self._goals[next(iter(self._goals))]
        self._feed(goal)

    def _feed(self, goal: Target) -> None:
        self._target.publish("target", goal)
        self._node.work()

    def status(self, status: Status) -> None:
        """Have the law's memory cleared where the recorded controller has done so: the plant had been silent."""
        silent = status.counts.get("plant_silent", 0)
        if status.src == self._src and silent > self._silent:
            self._silent = silent
            self._now += 10**12
            self._node.work()

    def _feed_states(self, recorded: Command) -> None:
        """Publish the state that a command answers; where there is an estimator, those before it too."""
        run, last = recorded.run, recorded.re
        first = self._fed.get(run, -1) + 1 if self._closed_loop.estimation else last
        for seq in (*range(first, last), last):
            if (run, seq) in self._states:
                self._plant.publish("state", self._states[run, seq])
        self._fed[run] = last

    def received_all(self, recorded: Command) -> bool:
        """Whether the state and the goal that a command answers are in the recording; counts those that are not."""
        state, goal = (recorded.run, recorded.re), (recorded.run, recorded.target_seq)
        complete = state in self._states and (recorded.target_seq < 0 or goal in self._goals)
        complete = complete and (recorded.parameters_seq is UNSET or self._change_of(recorded) in self.changes)
        complete = complete and not (recorded.seq > 0 and recorded.src != self._src and self._fades(recorded))
        self.left_out += not complete
        return complete

    def _fades(self, recorded: Command) -> bool:
        """Whether the inputs of a command still go from older numbers to those of its newest change."""
        change, times = self.changes.get(self._change_of(recorded)), self._closed_loop.launch.times
        fading = self._closed_loop.safety.soft_start.ramp * (times.steps_per_period or 1)
        return change is not None and 0 <= recorded.k - change.k < fading

    @staticmethod
    def _change_of(recorded: Command) -> tuple[int, Any]:
        """The change of parameters that a command uses, by start id and seq."""
        return recorded.src, recorded.parameters_seq

    def answer(self, recorded: Command) -> Command | None:
        """What the controller answers to the state that a recorded command answers; None where it does not."""
        if recorded.src != self._src:
            if self._src:
                self._done.append(self._node.record.rows)
                self._begin()
                self._fed[recorded.run] = recorded.re - 1  # it received nothing from before
                for goal in self._goals.values():
                    self._feed(goal)
            self._src = recorded.src
        exact = self._goals.get((recorded.run, recorded.target_seq))
        if exact is not None:  # the very one: it may have been published again since
            self._feed(exact)
        change = self.changes.get(self._change_of(recorded))
        if change is not self._node.changed and change is not None and change.numbers is not UNSET:
            self._node.changed = change
            self._node.answerer.use(np.array(infinite(change.numbers)))
        self._feed_states(recorded)
        self._node.work()
        commands = [message for _, message in self._answers.receive() if isinstance(message, Command)]
        return commands[-1] if commands else None


def _compared(recorded: Command, computed: Command | None, words: tuple[str, ...]) -> Iterator[Difference]:
    """What differs in a command: in its inputs, and in these words."""
    if computed is None:
        yield Difference(recorded.k, recorded.t, "command", "an answer", "none")
        return
    for name in sorted(recorded.input.keys() | computed.input.keys()):
        was, now = recorded.input.get(name), computed.input.get(name)
        if was is None or now is None or _bits(was) != _bits(now):
            yield Difference(recorded.k, recorded.t, f"input.{name}", was, now)
    for name in words:
        was, now = getattr(recorded, name), getattr(computed, name)
        if was != now:
            yield Difference(recorded.k, recorded.t, name, was, now)


def _bits(value: float) -> bytes:
    return struct.pack("<d", value)


def _received(topic: str, content: dict[str, Any]) -> Message | None:
    """The message of a map; None where the bus would have refused it, as one with a NaN, which JSON has as null."""
    try:
        return decode(topic.rpartition("/")[2].encode(), _encode(content))
    except (MessageError, OverflowError):
        return None
