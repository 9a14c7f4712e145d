"""Recordings of runs whose nodes are stepped in this process: each publishes, records and is clocked as in a run.

The clock goes with the plant's time, at the launch file's speed, and by a microsecond at each look at it. A launch file
in real time is run from answer to answer too: its recording says real time, and no sleep of it was too long.
"""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from servonode.bus import MemoryBus, Message, Switchboard
from servonode.bus.codec import encode_frames
from servonode.bus.memory import MemoryPublisher
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.cli.deliver import _drawings
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.nodes.controller_node import ControllerNode
from servonode.nodes.lockstep import lockstep, prepare
from servonode.nodes.node_main import listeners_of
from servonode.nodes.plant_node import PlantNode
from servonode.nodes.recording import Outcome, Recording, collect
from servonode.nodes.target_node import target_node_of
from servonode.record.bag import Bag, bag_of_spool, read_bag
from servonode.record.shared_memory import Ring
from servonode.record.spool import message_entry
from servonode.record.write import write_bag
from servonode.views.run_view import drawing

US = 1_000  # ns


class Clock:
    """A monotonic clock [ns] that goes with a plant."""

    def __init__(self, speed: float) -> None:
        self.begin, self.looks, self.speed = time.monotonic_ns(), 0, speed
        self.plant: PlantNode | None = None

    def __call__(self) -> int:
        self.looks += 1
        passed = self.plant.plant.k * self.plant.plant.step_ns if self.plant else 0
        return self.begin + round(passed / self.speed) + self.looks * US


class Recorded(MemoryPublisher):
    """A publisher that also keeps every message for the recording."""

    ring: Ring

    def has_subscriber(self, topic: str) -> bool:  # noqa: ARG002
        return True

    def publish(self, topic: str, message: Message) -> None:
        super().publish(topic, message)
        self.ring.add(message_entry(topic, encode_frames(topic, message)[1]))


class RecordedBus(MemoryBus):
    """A node's bus, all of whose messages are recorded; the plant's has the other nodes work while it waits."""

    def __init__(self, switchboard: Switchboard, node: str, ring: Ring | None) -> None:
        super().__init__(switchboard, node)
        self._board, self._node, self._ring = switchboard, node, ring
        self.peers: list[Any] = []

    def publisher(self, expected_subscriptions: int = 0) -> MemoryPublisher:
        super().publisher(expected_subscriptions)
        made = Recorded(self._board, self._node, expected_subscriptions)
        assert self._ring is not None
        made.ring = self._ring
        return made

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:
        for peer in self.peers:
            peer.work()
        return super().wait(deadline_ns, fds)


def stepped(closed_loop: ClosedLoop, recording: Recording, clock: Clock) -> None:
    """Run the nodes to their end; their rows, messages and summaries are in the memory of the recording."""
    switchboard, listeners, memories = Switchboard(), listeners_of(closed_loop), recording.memories
    buses = {node: RecordedBus(switchboard, node, memory.messages) for node, memory in memories.items()}
    recording.note_start()
    plant = PlantNode(closed_loop, buses[PLANT], listeners, recording.every, clock, ring=memories[PLANT].rows)
    clock.plant = plant
    nodes: dict[str, Any] = {PLANT: plant}
    if closed_loop.control is not None:
        nodes[TARGET] = target_node_of(closed_loop)(closed_loop, buses[TARGET], listeners, clock)
        nodes[CONTROLLER] = ControllerNode(
            closed_loop, buses[CONTROLLER], listeners, clock, ring=memories[CONTROLLER].rows
        )
    buses[PLANT].peers = [each for name, each in nodes.items() if name != PLANT]
    if prepare(plant, arm=True, timeout_s=0.0):
        lockstep(plant, closed_loop.launch.run.lockstep_timeout)
    else:
        plant.finish()
    for name, node in nodes.items():
        memories[name].write_summary(node.summary())


def recorded(file: Path, launch: str | Path, *settings: str, every: int = 1) -> Path:
    """The recording of a run, settings as in `--set`."""
    closed_loop = resolve(read_launch(str(launch), list(settings)))
    clock, recording = Clock(closed_loop.launch.run.speed), Recording(closed_loop, every, file.stem, bag=file)
    recording._described = recording._about()
    stepped(closed_loop, recording, clock)
    outcome = Outcome()
    collect(outcome, closed_loop, recording, dict.fromkeys(recording.memories, 0), 1.0)
    assert not any(memory.messages.lost for memory in recording.memories.values() if memory.messages)
    ending: dict[str, Any] = {"faults": outcome.faults, "ended": outcome.ending, "exit": outcome.exit_code}
    if run := outcome.run:
        ending |= {"stats": run.stats, "wall_s": run.wall_s}
    drawn, _ = _drawings(drawing(), bag_of_spool(recording.recorded, file), closed_loop)
    write_bag(recording.recorded, file, ending, drawn)
    return file


def recording(folder: Path, launch: str | Path, *settings: str) -> Bag:
    """The recording of a run, read."""
    return read_bag(recorded(folder / "run.mcap", launch, *settings))
