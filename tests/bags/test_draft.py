"""The bag that the writer makes while a run goes on is the one that is made of its spool afterwards."""

import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.bus import State, Status
from servonode.bus.codec import encode_frames
from servonode.bus.topology import CONTROLLER, PLANT
from servonode.closed_loop.launch_file import table_of
from servonode.record import draft as drafts
from servonode.record import writer
from servonode.record.bag import read_bag
from servonode.record.draft import Draft
from servonode.record.mcap_records import Records
from servonode.record.recorder import Recorder
from servonode.record.run_rows import RunRows, columns_of
from servonode.record.shared_memory import Ring
from servonode.record.spool import MESSAGES, ROWS, blocks_of, message_entry, read_spool
from servonode.record.write import BagWriter, described, known_of, write_bag
from servonode.record.writer import Spooler
from tests.bags.test_bags import changed

OF_A_START: dict[str, Any] = {"run": 1, "seq": 0, "src": 7, "k": 0, "t": 0.0}
ENDING = {"ended": "completed"}


def never(text: str) -> None:
    raise AssertionError(text)


class Bench:
    """A spool with rows and messages of a plant and messages of a controller, in memory that the test fills."""

    def __init__(self, folder: Path) -> None:
        loop = servonode.load("trailer_pursuit").closed_loop
        launch = {"table": table_of(loop.launch), "path": "a.toml", "file": None}
        columns = columns_of(loop)
        self.about = {"columns": columns, "launch": launch, "every": 1, "run": "r"} | known_of(loop)
        self.rings = {PLANT: Ring(1 << 20), CONTROLLER: Ring(1 << 20)}
        self.recorder = Recorder(columns[PLANT][1:], 1, rows := Ring.of_rows(1000, len(columns[PLANT])))
        self.file, self.k, self.now_ns = folder / "a.mcap", 0, 10**12
        self._late = b""  # the controller's message that is on its way
        descriptor = os.open(folder / "a.mcap.spool", os.O_RDWR | os.O_CREAT)
        rings = {MESSAGES[node]: ring for node, ring in self.rings.items()} | {ROWS[PLANT]: rows}
        self.spooler = Spooler(descriptor, None, rings)
        self.spooler.begin(self.about)

    def draft(self) -> Draft:
        return Draft(self.spooler.descriptor, self.file, self.about)

    def step(self, ahead_ns: int) -> None:
        """A row, a state, and a status of the controller that is stamped before it; stamps are that far ahead.

        Fresh ones of the controller come a step later.
        """
        self.k += 1
        self.now_ns += 1_000_000
        mono = self.now_ns + ahead_ns
        self.recorder.add(self.k, np.full(len(self.recorder.columns) - 1, float(self.k)))
        start = OF_A_START | {"k": self.k, "seq": self.k}
        state = State(mono=mono, node=PLANT, state={}, input={}, control=True, **start)
        self.rings[PLANT].add(message_entry("state", encode_frames("state", state)[1]))
        lifecycle = ("active", "inactive")[self.k // 5 % 2]
        status = Status(mono=mono - 1000, node=CONTROLLER, lifecycle=lifecycle, counts={}, values={}, **start)
        entry = message_entry("status", encode_frames("status", status)[1])
        self.rings[CONTROLLER].add(entry if ahead_ns else self._late)
        self._late = entry

    def finished(self) -> int | None:
        """The messages of the bag that the writer makes, which works while the launcher waits."""
        return self.spooler.finish_draft(ENDING, [], lambda _: self.spooler.follow() or True)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = Bench(tmp_path)
    clock = SimpleNamespace(monotonic_ns=lambda: made.now_ns, monotonic=lambda: made.now_ns / 1e9, sleep=lambda _: None)
    monkeypatch.setattr(writer, "time", clock)
    yield made
    made.spooler.drop_draft()
    os.close(made.spooler.descriptor)


@pytest.mark.parametrize("ahead_ns", [-2 * drafts.SETTLE_NS, 0], ids=["settled", "settling"])
def test_what_is_written_during_the_run_is_what_is_made_of_its_spool(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_ns: int
) -> None:
    monkeypatch.setattr(drafts, "ROWS_BYTES", 8 * 14 * len(bench.recorder.columns))  # of three times five
    bench.spooler.begin_draft(bench.draft)
    for _ in range(20):
        for _ in range(5):
            bench.step(ahead_ns)
        bench.spooler.spool(never)
        while bench.spooler.follow():
            pass
    made, size = bench.finished(), bench.spooler.size
    assert os.fstat(bench.spooler.descriptor).st_size == size
    assert (
        write_bag(read_spool(bench.spooler.descriptor), tmp_path / "b.mcap", ENDING)
        == made
        == (221 if ahead_ns else 219)
    )
    one, other = read_bag(bench.file), read_bag(tmp_path / "b.mcap")
    assert list(one.messages()) == list(other.messages())
    assert (one.about, one.ending, one.damage) == (other.about, other.ending, [])
    np.testing.assert_array_equal(one.rows.newest(PLANT), other.rows.newest(PLANT))
    assert len(one.rows.newest(PLANT)) == 100
    assert len(Records(bench.file).described()[1]) == 2 + 7
    assert not list(tmp_path.glob("*.part"))


def test_a_bag_that_takes_the_last_room_gives_way_to_the_spool(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.spooler.begin_draft(bench.draft)
    bench.step(0)
    whole = writer.append

    def full(descriptor: int, at: int, data: bytes) -> int:
        if list(bench.file.parent.glob("*.part")):
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(descriptor, at, data)

    monkeypatch.setattr(writer, "append", full)
    bench.spooler.spool(never)
    assert bench.finished() is None
    assert bench.spooler.all_written()
    assert not bench.spooler.finishes_draft
    assert len(list(read_spool(bench.spooler.descriptor).messages())) == 1


def test_a_writer_that_stalls_makes_no_bag(bench: Bench) -> None:
    bench.spooler.begin_draft(bench.draft)
    bench.step(0)
    bench.spooler.spool(never)
    assert bench.spooler.finish_draft(ENDING, [], lambda _: False) is None
    assert bench.spooler.finishes_draft
    assert os.fstat(bench.spooler.descriptor).st_size == bench.spooler.size


def test_what_is_not_in_the_spool_makes_no_bag(bench: Bench) -> None:
    bench.spooler.begin_draft(bench.draft)
    bench.step(0)
    assert bench.finished() is None
    assert not list(bench.file.parent.glob("*.part"))
    bench.spooler.begin_draft(None)  # another writer
    bench.spooler.spool(never)
    assert bench.finished() is None
    assert not bench.file.exists()


def test_the_spool_is_written_five_times_a_second_however_much_waits_for_the_bag(bench: Bench) -> None:
    left = iter(range(2000))

    def ended(wait_s: float) -> bool:
        bench.step(0)  # a millisecond
        bench.now_ns += round(wait_s * 1e9)
        return next(left, None) is None

    bench.spooler.begin_draft(bench.draft)
    begin = bench.now_ns
    writer.work(bench.spooler, ended, never)
    blocks = list(blocks_of(memoryview(os.pread(bench.spooler.descriptor, bench.spooler.size, 0))))
    assert len(blocks) <= 1 + 3 * ((bench.now_ns - begin) / 1e9 / writer.FLUSH_S + 2)
    assert not bench.spooler.follow()  # all of it was used


def test_rows_of_each_life_stay_in_their_life_wherever_a_part_ends(tmp_path: Path) -> None:
    loop = servonode.load("trailer_pursuit").closed_loop
    about = {"launch": {"table": table_of(loop.launch), "path": "a.toml", "file": None}, "every": 1, "run": "r"}
    columns, file = {PLANT: ["k", "a"], CONTROLLER: ["k", "b"]}, tmp_path / "a.mcap"
    about |= known_of(loop) | {"columns": columns}
    parts = [[(PLANT, 0, 0)], [(CONTROLLER, 0, 0)], [(PLANT, 1, 0), (CONTROLLER, 0, 5)], [(CONTROLLER, 1, 0)]]
    with file.open("wb") as stream:
        bag = BagWriter(stream, described(about), about["launch"], about["schemas"])
        for part in parts:
            rows = RunRows({node: columns[node] for node, *_ in part})
            for node, life, first in part:
                rows.add(node, life, np.column_stack([np.arange(first, first + 5.0), np.full(5, float(life))]))
            bag.add_rows(rows)
        bag.finish(ENDING, [])
    found = read_bag(file).rows
    assert [len(found.table(PLANT, life, 2)) for life in (0, 1)] == [5, 5]
    assert [len(found.table(CONTROLLER, life, 2)) for life in (0, 1)] == [10, 5]
    records = Records(file).described()[1]
    assert len(records) == 2 + 4
    lost = changed(file, tmp_path / "b.mcap", lambda name, data: None if name == "rows2.npz" else data)
    lacking = read_bag(lost)
    assert lacking.damage == ["some of its rows are missing"]
    assert [len(lacking.rows.table(CONTROLLER, life, 2)) for life in (0, 1)] == [5, 5]


class Full(io.FileIO):
    """A file on a disk without room."""

    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_bag_on_a_full_disk_is_dropped_with_what_waits_to_be_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Path.open
    monkeypatch.setattr(Path, "open", lambda file, *_: io.BufferedWriter(Full(file, "wb"), 1 << 20))
    bench.spooler.begin_draft(bench.draft)
    monkeypatch.setattr(Path, "open", whole)
    bench.step(-2 * drafts.SETTLE_NS)
    bench.spooler.spool(never)
    bench.spooler.drop_draft()
    assert bench.finished() is None
    assert not list(bench.file.parent.glob("*.part"))


def test_a_bag_whose_draft_was_removed_leaves_no_empty_file(bench: Bench) -> None:
    bench.spooler.begin_draft(bench.draft)
    bench.step(0)
    bench.spooler.spool(never)
    for draft in bench.file.parent.glob("*.part"):
        draft.unlink()
    assert bench.finished() is None
    assert not bench.file.exists()
