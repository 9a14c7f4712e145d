"""The recordings of the two computers of one run, joined to one recording on the clock of the plant's computer.

Each computer records the messages of its own nodes and of its relay, with times of its own clock. The statuses of the
relays say what stands between the two clocks, within some error. So near times say nothing about the order, but a
command says which state and which goal it answers.
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from servonode.bus.topology import CONTROLLER, PLANT, RELAY, TARGET
from servonode.closed_loop.hosts import shared_keys
from servonode.record.bag import RELAYED, Bag
from servonode.record.events import merged_faults
from servonode.record.run_rows import RunRows
from servonode.record.spool import Recorded
from servonode.record.typed import EVENTS
from servonode.record.write import BagError, write_contents

OTHER_RELAY = f"other_{RELAYED}"  # in the merged recording: of the other computer, whose offset has the other sign
_MADE_BY = ("servonode", "python", "libraries", "system", "libm", "processor", "kernels")  # of the metadata
_BY_NODE = ("nodes", "node_counts", "restarts", "lost_rows")  # of the statistics
LOOK_AHEAD_NS = 1_000_000_000  # more than any error of a clock that is of use
_COMMAND, _STATE, _GOAL = f"{CONTROLLER}/command", f"{PLANT}/state", f"{TARGET}/target"
Cause = tuple[str, int, int]  # topic, the plant's start, number: of a state or a goal that a command answers


def merge(first: Bag, second: Bag, out: Path | None) -> list[str]:
    """Write one recording of those of two computers, which are not changed. What was written and is lost, as lines.

    Raises:
        BagError: they are not the two halves of one run, a file is in the way, or cannot be written.
    """
    file = out or first.file.with_name(f"{first.about['run']}.merged.mcap")
    if file.exists():
        raise BagError(f"{file}: exists already; name another with --output, or remove it")
    halves = [_half(first), _half(second)]
    plant, other = halves if PLANT in halves[0].nodes else reversed(halves)
    _check(plant, other)
    clock = _clock(plant, other)
    schemas = other.bag.schemas() | plant.bag.schemas()
    try:
        written = write_contents(
            file,
            about=plant.bag.about,
            launch=plant.bag.launch,
            rows=_rows(plant, other),
            schemas=schemas | ({OTHER_RELAY: schemas[RELAYED]} if RELAYED in schemas else {}),
            messages=in_order(plant.bag.messages(), _converted(other.bag, clock)),
            ending=_ending(plant.bag, other.bag),
            merged=_about_other(other, clock),
        )
    except OSError as error:
        raise BagError(f"{file}: cannot be written ({error.strerror}); name another with --output") from error
    lost = [f"lost: {half.bag.file}: {text}" for half in (plant, other) for text in half.bag.damage]
    return [f"{file} ({written} messages)", *lost]


@dataclass
class _Half:
    """The recording of one computer.

    nodes: those whose messages it holds. starts: ids of the plant's starts, in order, by the node that names them.
    relayed: of each status of its relay that knows the offset: time [ns], offset and its largest error [s].
    """

    bag: Bag
    nodes: set[str] = field(default_factory=set)
    starts: dict[str, dict[int, None]] = field(default_factory=dict)
    relayed: list[tuple[int, float, float]] = field(default_factory=list)


def _half(bag: Bag) -> _Half:
    """What a recording holds. BagError where it is damaged: then recovery comes first."""
    half = _Half(bag)
    for mono, topic, message in bag.messages():
        if topic == EVENTS:
            continue
        node = topic.partition("/")[0]
        half.nodes.add(node)
        half.starts.setdefault(node, {})[message["run"]] = None
        if topic == RELAYED and "offset_s" in message["values"]:
            values = message["values"]
            half.relayed.append((mono, values["offset_s"], values["offset_error_s"]))
    if bag.damage and not bag.spool:
        raise BagError(f"{bag.file}: is damaged; merge what servonode bag recover makes of it")
    return half


# what is refused


def _check(plant: _Half, other: _Half) -> None:
    """BagError unless they are the two halves of one run."""
    one, two = plant.bag.file, other.bag.file
    if PLANT not in plant.nodes:
        raise BagError(f"{one}, {two}: neither holds messages of the plant; give the recording of its computer too")
    if twice := sorted(plant.nodes & other.nodes - {RELAY}):
        remedy = "give the recordings that servonode run --record made on the two computers"
        raise BagError(f"{one}, {two}: both hold messages of the {' and the '.join(twice)}; {remedy}")
    if other_key := _differing(plant.bag.launch["table"], other.bag.launch["table"]):
        raise BagError(f"{two}: of another launch file than {one}: {other_key}; give two recordings of one run")
    starts = {start for each in other.starts.values() for start in each}
    if not starts & plant.starts[PLANT].keys():
        text = f"{two}: not of the run in {one}, for none of its messages names a start of that plant"
        raise BagError(f"{text}; give two recordings of one run")


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first key of two launch files that should be alike and is not, with both values; empty where all are."""
    here, there = dict(shared_keys(one)), dict(shared_keys(other))
    key = next((key for key in {**here, **there} if here.get(key) != there.get(key)), None)
    return "" if key is None else f"{key} = {there.get(key, 'absent')}, there {here.get(key, 'absent')}"


# time


class _Clock:
    """The other computer's clock, converted to that of the plant's.

    points: a time of the other's clock [ns], what is added to it there [s], and the largest error of that [s].
    """

    def __init__(self, points: Sequence[tuple[int, float, float]]) -> None:
        table = np.array(sorted(points))
        self._at, self.offset_s, errors_s = table.T
        self.bound_s = float(np.max(errors_s))

    def plant_time(self, mono: int) -> int:
        """A time on the clock of the plant's computer [ns], interpolated between the statuses of the relay."""
        return mono + round(1e9 * float(np.interp(mono, self._at, self.offset_s)))


def _clock(plant: _Half, other: _Half) -> _Clock:
    """By the statuses of the other computer's relay; where it left none, by those of the plant's."""
    if other.relayed:
        return _Clock(other.relayed)
    if plant.relayed:
        return _Clock([(mono + round(1e9 * offset), -offset, error) for mono, offset, error in plant.relayed])
    text = f"{plant.bag.file}, {other.bag.file}: no {RELAYED} in them has an offset_s, so that their clocks cannot"
    raise BagError(f"{text} be compared; record with servonode run --record on both computers")


def _converted(other: Bag, clock: _Clock) -> Iterator[Recorded]:
    """The messages of the other computer, at times of the plant's."""
    for mono, topic, message in other.messages():
        yield clock.plant_time(mono), OTHER_RELAY if topic == RELAYED else topic, message


# order


def in_order(plant: Iterator[Recorded], other: Iterator[Recorded]) -> Iterator[Recorded]:
    """All messages in the order of their times, each command behind the state and the goal that it answers.

    The times of the plant's computer stay. Those of the other are moved where that order asks for it.
    """
    here, there, last = _Ahead(plant), _Ahead(other), 0
    while here.first or there.first:
        if there.first is None or (
            here.first and not here.waits_for(there) and (here.first[0] <= there.first[0] or there.waits_for(here))
        ):
            last, topic, message = here.take()
        else:
            at, topic, message = there.take()
            last = max(min(at, here.first[0]) if here.first else at, last)
        yield last, topic, message


class _Ahead:
    """Messages that are read some time ahead, to know which states and goals are still to come."""

    def __init__(self, messages: Iterator[Recorded]) -> None:
        self._messages, self._ahead = messages, deque[Recorded]()
        self._coming = set[Cause]()
        self._newest: dict[tuple[str, int], int] = {}  # number of the newest one, by topic and its sender's start
        self._read()

    @property
    def first(self) -> Recorded | None:
        """The next message; None at the end."""
        return self._ahead[0] if self._ahead else None

    def take(self) -> Recorded:
        """The next message, which is then behind."""
        taken = self._ahead.popleft()
        self._coming.discard(_itself(taken[1], taken[2]))
        self._read()
        return taken

    def waits_for(self, others: "_Ahead") -> bool:
        """Whether the next message is a command that answers something which is still to come from others."""
        if self.first is None or self.first[1] != _COMMAND:
            return False
        run, message = self.first[2]["run"], self.first[2]
        causes = {(_STATE, run, message["re"]), (_GOAL, run, message["target_seq"])}
        return not causes.isdisjoint(others._coming)

    def _read(self) -> None:
        """Read on until what is known reaches far enough ahead."""
        while not self._ahead or self._ahead[-1][0] <= self._ahead[0][0] + LOOK_AHEAD_NS:
            found = next(self._messages, None)
            if found is None:
                return
            self._ahead.append(found)
            _, topic, message = found
            if topic in (_STATE, _GOAL) and message["seq"] > self._newest.get((topic, message["src"]), -1):
                self._newest[topic, message["src"]] = message["seq"]  # one that is sent again is no new one
                self._coming.add(_itself(topic, message))


def _itself(topic: str, message: dict[str, Any]) -> Cause:
    return topic, message.get("run", 0), message.get("seq", -1)  # events have neither


# rows and metadata


def _rows(plant: _Half, other: _Half) -> RunRows:
    """The rows of each node by life of the plant, which the plant's computer alone has counted."""
    known, elsewhere = plant.bag.rows, other.bag.rows
    if CONTROLLER not in elsewhere.columns:
        return known
    joined = RunRows(known.columns | elsewhere.columns)
    for life in known.lives:
        joined.add(PLANT, life, known.table(PLANT, life, len(known.columns[PLANT])))
    table = elsewhere.all_of(CONTROLLER, len(elsewhere.columns[CONTROLLER]))
    by_life = np.split(table, np.flatnonzero(np.diff(table[:, 0]) < 0) + 1)  # with each life the steps begin anew
    lives = zip(reversed(known.lives), reversed(plant.starts[PLANT]), strict=False)
    answered = [life for life, start in lives if start in other.starts[CONTROLLER]]  # the last one first
    for life, rows in zip(answered, reversed(by_life), strict=False):
        joined.add(CONTROLLER, life, rows)
    return joined


def _ending(plant: Bag, other: Bag) -> dict[str, Any]:
    """How the run ended on the plant's computer, with the faults, statistics and losses of both."""
    here, there = ({name: json.loads(text) for name, text in bag.ending.items()} for bag in (plant, other))
    faults = merged_faults(here.get("faults", []), there.get("faults", []))
    stats, more = here.get("stats", {}), there.get("stats", {})
    joined = {name: more.get(name, {}) | stats.get(name, {}) for name in _BY_NODE if name in stats or name in more}
    lost = {name: there.get(name, {}) | here.get(name, {}) for name in ("lost_messages", "missing_bytes")}
    damaged = here.get("damaged_bytes", 0) + there.get("damaged_bytes", 0)
    lacks = "; ".join(each["incomplete"] for each in (here, there) if "incomplete" in each)
    return (
        {"ended": "killed"} | here
        | {"faults": faults}
        | ({"stats": stats | joined} if stats or more else {})
        | {name: value for name, value in (lost | {"damaged_bytes": damaged, "incomplete": lacks}).items() if value}
    )  # fmt: skip


def _about_other(other: _Half, clock: _Clock) -> dict[str, str]:
    """What is known of the other computer: its nodes, what made them, its clock, how the run ended there."""
    offsets = clock.offset_s.tolist()
    numbers = {"offset_s": offsets[0], "last_offset_s": offsets[-1], "bound_s": clock.bound_s}
    return {
        "nodes": json.dumps(sorted(other.nodes)),
        **{name: json.dumps(value) for name, value in numbers.items()},
        "ended": json.dumps(other.bag.ended or "killed"),
        **{name: other.bag.about.get(name, "") for name in _MADE_BY},
    }
