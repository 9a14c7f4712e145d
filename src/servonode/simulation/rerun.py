"""A recorded run in lockstep run again, and its recording compared with the first one, bit by bit."""

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from servonode.bus.topology import NODES
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.launcher import Launcher
from servonode.nodes.recording import Recording
from servonode.record.bag import Bag, read_bag
from servonode.record.write import BagError
from servonode.simulation.replay import Difference, Replay

GOALS = "target/target"
COMPARED = ("plant/state", "plant/applied", "controller/command", GOALS)
# New in each run, whatever it computes. A goal is published again where the plant waits, so its number is of the clock.
OF_A_START = ("run", "src", "mono", "target_seq")
_pack = msgspec.msgpack.Encoder().encode


def run_again(bag: Bag, closed_loop: ClosedLoop) -> Replay:
    """Run what a bag holds on processes again, in lockstep, and compare all states, commands, inputs and goals.

    Raises:
        BagError: it was not recorded in lockstep, or the run cannot be run again; BusError: see `Launcher`.
    """
    if bag.about["mode"] != "lockstep":
        remedy = "record one with --set run.mode=lockstep, or replay its controller without --again"
        raise BagError(f"{bag.file}: recorded in real time, where no two runs are equal; {remedy}")
    if closed_loop.launch.run.mode != "lockstep":
        raise BagError(f"{bag.file}: only a run in lockstep can be compared; leave --set run.mode out")
    if not closed_loop.driver.simulated:
        raise BagError(f"{bag.file}: its machine is not a simulation, so it cannot be run again; leave --again out")
    if any(bag.holds(f"{node}/parameters") for node in NODES):
        text = "numbers of it were changed while it ran, which is not done again; replay its controller without --again"
        raise BagError(f"{bag.file}: {text}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "again.mcap"
        name, every = f"{bag.about['run']}_again", int(bag.about["every"])
        with Recording(closed_loop, every, name, bag=file) as recording:
            Launcher(closed_loop, name, every, lambda _: None, recording=recording, arm=True).launch()
            recording.write_bag({})
        return _compared(bag, read_bag(file))


def _compared(first: Bag, second: Bag) -> Replay:
    found = Replay()
    ones, others = _by_topic(first), _by_topic(second)
    for topic in COMPARED:
        steps = sorted(ones[topic].keys() | others[topic].keys())
        if topic == GOALS:  # they are published ahead: how far depends on the clock
            steps = [k for k in steps if k in ones[topic] and k in others[topic]]
        for k in steps:
            found.note(list(_differences(topic, ones[topic].get(k), others[topic].get(k))))
    return found


def _by_topic(bag: Bag) -> dict[str, dict[int, dict[str, Any]]]:
    """The messages that are compared, by topic and plant step; those that were sent twice once."""
    found: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for _, topic, message in bag.messages(COMPARED):
        new = (*OF_A_START, "seq") if topic == GOALS else OF_A_START
        found[topic].setdefault(message["k"], {name: each for name, each in message.items() if name not in new})
    return found


def _differences(topic: str, one: dict[str, Any] | None, other: dict[str, Any] | None) -> Iterator[Difference]:
    if one is None or other is None:
        there = one or other or {}
        yield Difference(
            there["k"], there["t"], topic, "absent" if one is None else "there", "absent" if other is None else "there"
        )
        return
    for name in sorted(one.keys() | other.keys()):
        was, now = one.get(name), other.get(name)
        if _pack(was) == _pack(now):
            continue
        if isinstance(was, dict) and isinstance(now, dict):
            inner = next(key for key in sorted(was.keys() | now.keys()) if _pack(was.get(key)) != _pack(now.get(key)))
            yield Difference(one["k"], one["t"], f"{topic} {name}.{inner}", was.get(inner), now.get(inner))
        else:
            yield Difference(one["k"], one["t"], f"{topic} {name}", was, now)
