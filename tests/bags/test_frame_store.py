"""The memory of messages: a ring that loses nothing while the writer comes, and says what it lost."""

import os
import threading
import time
from pathlib import Path

import pytest

from servonode.bus.topology import CONTROLLER, PLANT
from servonode.record.frame_store import ENTRY, FrameStore
from servonode.record.frames import read_frames
from servonode.record.spool import FRAMES, about_block, append, frames_block
from servonode.record.writer import Files, Spooler


def entries(data: bytes) -> list[tuple[int, bytes]]:
    """Topic and payload of each message."""
    found, at = [], 0
    while at < len(data):
        size, topic = ENTRY.unpack_from(data, at)
        at += ENTRY.size + size
        found.append((topic, data[at - size : at]))
    return found


def test_messages_come_out_as_they_went_in_however_often_the_ring_turns(rng) -> None:  # type: ignore[no-untyped-def]
    store, at = FrameStore(may_wait=False, room=1000), 0
    for turn in range(200):
        sent = [(turn % 7, rng.bytes(int(rng.integers(0, 200)))) for _ in range(4)]
        for each in sent:
            store.add(*each)
        assert entries(store.taken(at, store.count)) == sent
        store.written = at = store.count
    assert store.lost == 0


def test_what_finds_no_room_is_counted_and_what_is_there_stays_whole() -> None:
    store = FrameStore(may_wait=False, room=100)
    for i in range(10):
        store.add(i, bytes([i]) * 30)
    assert store.lost == 8
    assert entries(store.taken(0, store.count)) == [(i, bytes([i]) * 30) for i in (0, 1)]  # 35 bytes each


def test_in_lockstep_a_node_waits_for_room() -> None:
    store = FrameStore(may_wait=True, room=100)

    def make_room() -> None:
        time.sleep(0.05)
        store.written = store.count

    store.add(0, bytes(80))
    writer = threading.Thread(target=make_room)
    writer.start()
    store.add(1, bytes(80))
    writer.join()
    assert (store.lost, entries(store.taken(85, store.count))) == (0, [(1, bytes(80))])


def test_an_ended_recording_costs_nothing_and_waits_for_nobody() -> None:
    store = FrameStore(may_wait=True, room=100)
    store.end()
    for _ in range(1000):
        store.add(0, bytes(80))
    assert (store.count, store.lost, store.ended) == (0, 0, True)


def test_a_disk_that_is_full_ends_the_recording_with_one_line(tmp_path: Path) -> None:
    frames, said = {PLANT: FrameStore(may_wait=False)}, list[str]()
    read_only = tmp_path / "a.mcap.spool"
    read_only.write_bytes(b"")
    spooler = Spooler(Files(os.open(read_only, os.O_RDONLY), read_only), {}, frames)
    frames[PLANT].add(0, b"x")
    spooler.spool(said.append)
    assert (frames[PLANT].ended, spooler.failed) == (True, True)
    frames[PLANT].add(0, b"x")
    spooler.spool(said.append)
    assert spooler.all_written()
    assert said == [
        f"{read_only}: cannot be written (Bad file descriptor); the recording ends here; the run continues, and rows "
        "stay in memory until they can be written"
    ]


def message(mono: int) -> bytes:
    """A message with nothing in it but its clock."""
    body = b"\x81\xa4mono\xcd" + mono.to_bytes(2)
    return ENTRY.pack(len(body), 0) + body


def test_messages_of_all_nodes_are_read_in_the_order_of_their_clocks(tmp_path: Path) -> None:
    file = tmp_path / "a.spool"
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT)
    size = append(descriptor, 0, about_block({"topics": ["state"]}))
    written = {PLANT: 0, CONTROLLER: 0}
    for node, clocks in ((PLANT, (300, 310, 500)), (CONTROLLER, (290, 305)), (CONTROLLER, (400,)), (PLANT, (600,))):
        content = b"".join(map(message, clocks))
        size = append(descriptor, size, frames_block(node, written[node], content))
        written[node] += len(content)
    run = read_frames(file)
    assert [(mono, topic) for mono, topic, _ in run.messages()] == [
        (290, "controller/state"), (300, "plant/state"), (305, "controller/state"), (310, "plant/state"),
        (400, "controller/state"), (500, "plant/state"), (600, "plant/state"),
    ]  # fmt: skip
    assert not run.missing


def test_a_block_that_is_damaged_is_missing_and_one_that_was_written_twice_counts_once(tmp_path: Path) -> None:
    file = tmp_path / "a.spool"
    one = message(1000)
    blocks = [
        about_block({"topics": ["state"]}),
        *(frames_block(PLANT, i * len(one), message(1000 + i)) for i in range(4)),
    ]
    damaged = bytearray(blocks[2])
    damaged[-1] ^= 1
    file.write_bytes(b"".join([blocks[0], blocks[1], blocks[1], damaged, *blocks[3:]]))
    run = read_frames(file)
    assert [mono for mono, *_ in run.messages()] == [1000, 1002, 1003]
    assert (run.missing, run.pieces.damaged) == ({PLANT: len(one)}, len(damaged))


def test_every_node_that_publishes_has_a_kind_of_blocks() -> None:
    from servonode.bus.topology import NODES

    assert FRAMES.keys() == NODES.keys()
    with pytest.raises(KeyError):
        frames_block("stranger", 0, b"")
