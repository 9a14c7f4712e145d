"""The memory that the nodes' rows and messages go through, and the spool into which the writer puts them."""

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from servonode.bus import TOPICS, State
from servonode.bus.codec import encode_frames
from servonode.bus.topology import CONTROLLER, PLANT
from servonode.record import shared_memory
from servonode.record.events import merged_faults
from servonode.record.files import recovered_file, recovery
from servonode.record.recorder import Recorder
from servonode.record.run_rows import held, held_index
from servonode.record.shared_memory import MAX_FAULTS, NodeMemory, Ring
from servonode.record.spool import (
    MESSAGES,
    ROWS,
    SpooledRun,
    SpoolError,
    about_block,
    block,
    message_entry,
    read_spool,
)
from servonode.record.writer import Spooler

COLUMNS = ["k", "a", "b"]
TABLE = {"plant": {"machine": "m"}, "run": {"mode": "lockstep", "seed": 1}}
RUN = {"run": "r", "every": 1, "launch": {"table": TABLE, "path": "r.toml", "file": None}}
ABOUT = RUN | {"columns": {PLANT: COLUMNS, CONTROLLER: COLUMNS}, "topics": list(TOPICS)}
HEAD = about_block(ABOUT)


def table(first: int, count: int) -> Any:
    """Rows whose values tell their number."""
    k = np.arange(first, first + count, dtype=float)
    return np.column_stack([k, k + 0.25, -k])


def filled(recorder: Recorder, first: int, count: int) -> None:
    for row in table(first, count):
        recorder.add(int(row[0]), row[1:2], row[2:])


def recorder_of(ring: Ring) -> Recorder:
    return Recorder(COLUMNS[1:], 1, ring)


def rows_in(ring: Ring, first: int, last: int) -> Any:
    """The rows of these numbers in a ring, without the life in front of each."""
    return np.frombuffer(ring.content(32 * first, 32 * last)).reshape(-1, 4)[:, 1:]


# memory


def test_full_ring_takes_rows_again_and_counts_the_lost_ones() -> None:
    ring = Ring.of_rows(10, 3)
    filled(recorder := recorder_of(ring), 0, 12)
    assert (ring.count, ring.lost, recorder.last) == (10 * 32, 2, 11)
    ring.release(6 * 32)
    filled(recorder_of(ring), 12, 4)
    assert (ring.count, ring.lost) == (14 * 32, 2)
    np.testing.assert_array_equal(rows_in(ring, 6, 14), np.vstack([table(6, 4), table(12, 4)]))


@pytest.mark.skipif(sys.platform != "linux", reason="the memory is kept there")
def test_released_rows_give_back_their_own_memory_alone() -> None:
    ring = Ring.of_rows(10_000, 3)
    filled(recorder_of(ring), 0, 10_000)
    ring.release(9000 * 32)
    np.testing.assert_array_equal(rows_in(ring, 9000, 10_000), table(9000, 1000))
    assert not rows_in(ring, 200, 8800).any()  # the system has taken it
    filled(recorder_of(ring), 10_000, 5000)  # over the end of the ring, into what was given back
    np.testing.assert_array_equal(rows_in(ring, 9000, 15_000), table(9000, 6000))


def test_too_long_a_summary_loses_its_last_faults() -> None:
    memory = NodeMemory()
    memory.write_summary({"k": 3, "faults": [{"text": "x" * 200}] * 10_000})
    assert (len(memory.summary["faults"]), memory.summary["faults_left_out"]) == (MAX_FAULTS, 9000)


def test_messages_are_whole_however_often_the_ring_turns(rng) -> None:  # type: ignore[no-untyped-def]
    ring, at = Ring(1000), 0
    for _ in range(200):
        sent = [rng.bytes(int(rng.integers(0, 200))) for _ in range(4)]
        for each in sent:
            ring.add(each)
        assert ring.content(at, ring.count) == b"".join(sent)
        ring.release(at := ring.count)
    assert ring.lost == 0


def test_node_in_lockstep_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring(100, may_wait=True)
    ring.add(bytes(85))
    waits = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: ring.release(ring.count))  # as the writer does
    monkeypatch.setattr(shared_memory, "time", waits)
    ring.add(b"x" * 85)
    assert (ring.lost, ring.content(85, ring.count)) == (0, b"x" * 85)


# the spool


@pytest.fixture
def spooler(tmp_path: Path) -> Spooler:
    """A spool of a plant that has recorded ten rows in each of two lives."""
    ring = Ring.of_rows(100, 3)
    made = spooler_of(tmp_path / "a.csv.spool", {ROWS[PLANT]: ring})
    recorder = recorder_of(ring)
    for first in (0, 100):
        ring.note_start()
        filled(recorder, first, 10)
    return made


def spooler_of(file: Path, rings: dict[int, Ring]) -> Spooler:
    spooler = Spooler(os.open(file, os.O_RDWR | os.O_CREAT), file, rings)
    spooler.begin(ABOUT)
    return spooler


def never(text: str) -> None:
    raise AssertionError(text)


def rows_block(node: str, first: int, rows: Any, life: int = 0) -> bytes:
    content = np.column_stack([np.full(len(rows), float(life)), rows])
    return block(ROWS[node], 32 * first, content.tobytes())


def changed_spools(spooler: Spooler, changed: Callable[[bytes, int], bytes]) -> list[SpooledRun]:
    """What is read of the spool, changed at every fifth place behind its first block."""
    spooler.spool(never)
    assert spooler.file is not None
    whole, found = spooler.file.read_bytes(), []
    for at in range(len(HEAD), len(whole), 5):
        spooler.file.write_bytes(changed(whole, at))
        found.append(read_spool(spooler.file))
    return found


def test_spool_gives_back_the_rows_of_each_life(spooler: Spooler) -> None:
    spooler.spool(never)
    run = read_spool(spooler.descriptor)
    assert (run.rows.lives, run.rows.columns, run.damaged) == ([0, 1], {PLANT: COLUMNS}, 0)
    np.testing.assert_array_equal(run.rows.table(PLANT, 0, 3), table(0, 10))
    np.testing.assert_array_equal(run.rows.table(PLANT, 1, 3), table(100, 10))
    assert run.rows.table(CONTROLLER, 0, 5).shape == (0, 5)


def test_rows_that_had_to_wait_are_written_in_several_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servonode.record.shared_memory.BLOCK_BYTES", 100)  # three rows and a part
    spooler = spooler_of(tmp_path / "a.spool", {ROWS[PLANT]: (ring := Ring.of_rows(100, 3))})
    filled(recorder_of(ring), 0, 10)
    spooler.spool(never)
    assert (tmp_path / "a.spool").read_bytes().count(b"SNrb") == 1 + 4
    np.testing.assert_array_equal(read_spool(spooler.descriptor).rows.table(PLANT, 0, 3), table(0, 10))


def test_spool_that_is_cut_loses_its_tail_alone(tmp_path: Path, spooler: Spooler) -> None:
    spooler.spool(never)
    filled(recorder_of(spooler.rings[ROWS[PLANT]]), 110, 10)
    for run in changed_spools(spooler, lambda whole, end: whole[:end]):
        rows = [len(run.rows.table(PLANT, life, 3)) for life in run.rows.lives]
        assert rows in ([], [10, 10])
        assert 0 <= run.damaged < 1000


def test_one_other_bit_costs_its_block_alone(spooler: Spooler) -> None:
    spooler.spool(never)
    filled(recorder_of(spooler.rings[ROWS[PLANT]]), 110, 10)
    known = np.vstack([table(0, 10), table(100, 20)]).tolist()

    def flipped(whole: bytes, at: int) -> bytes:
        return whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]

    for run in changed_spools(spooler, flipped):
        rows = [row for life in run.rows.lives for row in run.rows.table(PLANT, life, 3).tolist()]
        assert run.damaged > 0
        assert (len(rows) in (10, 20), all(row in known for row in rows)) == (True, True)


@pytest.mark.parametrize(
    "about",
    [b"[" * 9000 + b"]" * 9000, b"[1]", b'{"run": "r"}', {"columns": {PLANT: 3}}, {"launch": {"table": []}},
     {"every": "x"}, {"schemas": {"plant/state": []}}],
)  # fmt: skip
def test_first_block_that_describes_no_run_is_refused(tmp_path: Path, about: Any) -> None:
    content = about if isinstance(about, bytes) else json.dumps(ABOUT | about | {"format": 2}).encode()
    (tmp_path / "no.spool").write_bytes(block(0, 0, content))
    with pytest.raises(SpoolError, match="its first block does not describe a run"):
        read_spool(tmp_path / "no.spool")


def test_a_spool_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "next.spool").write_bytes(block(0, 0, json.dumps(ABOUT | {"format": 3}).encode()))
    with pytest.raises(SpoolError, match="written by another version of servonode; use that one"):
        read_spool(tmp_path / "next.spool")


@pytest.mark.parametrize(
    "content",
    [bytes(13), np.full(4, np.nan).tobytes(), np.array([0.5, 1, 1, 1]).tobytes(), np.full(4, 1e300).tobytes()],
)
def test_blocks_that_hold_no_rows_count_as_damaged(tmp_path: Path, content: bytes) -> None:
    strange = block(ROWS[PLANT], 0, content)
    (tmp_path / "a.spool").write_bytes(HEAD + strange + block(ROWS[CONTROLLER] + 40, 0, content))
    run = read_spool(tmp_path / "a.spool")
    assert (run.rows.lives, run.lost()) == ([], [f"{len(strange)} bytes are damaged or cut off, and left out"])


def test_where_its_first_block_is_known_a_spool_is_read_without_it(spooler: Spooler) -> None:
    spooler.spool(never)
    os.pwrite(spooler.descriptor, bytes(20), 0)
    run = read_spool(spooler.descriptor, ABOUT)
    assert (run.rows.lives, run.damaged) == ([0, 1], len(HEAD))


@pytest.mark.parametrize(
    ("spool", "ending", "file"),
    [("a.csv.spool", ".csv", "a.csv"), ("a.csv.2.spool", ".csv", "a.2.csv"), ("a.mcap.spool", ".csv", "a.csv"),
     ("a.mcap.spool", ".mcap", "a.mcap"), ("v0.1.spool", ".csv", "v0.1.csv"), ("x.spool", ".mcap", "x.mcap")],
)  # fmt: skip
def test_a_recovered_file_has_the_ending_of_what_is_in_it(tmp_path: Path, spool: str, ending: str, file: str) -> None:
    assert recovered_file(tmp_path / spool, ending) == tmp_path / file
    (tmp_path / file).touch()
    assert recovery(tmp_path / spool, tmp_path / file).endswith(
        f" --output {tmp_path / file[: -len(ending)]}.2{ending}"
    )


@pytest.mark.parametrize("content", [b"", b"k,a\n1,2\n", HEAD[1:], rows_block(PLANT, 0, table(0, 2))])
def test_what_is_no_spool_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "no.spool").write_bytes(content)
    with pytest.raises(SpoolError, match="not a spool file, its beginning is damaged, or another version"):
        read_spool(tmp_path / "no.spool")


def test_rows_that_two_writers_wrote_are_there_once(tmp_path: Path) -> None:
    (tmp_path / "a.spool").write_bytes(
        HEAD + rows_block(PLANT, 0, table(0, 10)) + rows_block(PLANT, 0, 0 * table(0, 10))
        + rows_block(PLANT, 0, table(0, 4)) + rows_block(PLANT, 2, table(2, 13)) + rows_block(PLANT, 20, table(20, 5))
    )  # fmt: skip
    run = read_spool(tmp_path / "a.spool")
    np.testing.assert_array_equal(run.rows.table(PLANT, 0, 3), np.vstack([table(0, 15), table(20, 5)]))
    assert run.missing_rows[PLANT] == 5


def test_an_answer_is_held_for_its_period_and_no_longer() -> None:
    k, instants = np.arange(12), np.array([0.0, 5.0])  # the instant at step 10 has no answer
    found = held(*held_index(k, instants, 5), {"F": np.array([1.0, 2.0])})["F"]
    np.testing.assert_array_equal(found, [1.0] * 5 + [2.0] * 5 + [np.nan] * 2)


def test_late_answers_to_the_life_before_are_left_out(tmp_path: Path) -> None:
    content = rows_block(CONTROLLER, 0, np.vstack([table(90, 2), table(0, 3)]), life=1)
    (tmp_path / "a.spool").write_bytes(HEAD + content)
    np.testing.assert_array_equal(read_spool(tmp_path / "a.spool").rows.table(CONTROLLER, 1, 3), table(0, 3))


def test_full_disk_is_told_once_and_costs_no_row(spooler: Spooler, monkeypatch: pytest.MonkeyPatch) -> None:
    said, full, pwrite = list[str](), spooler.size + 20, os.pwrite

    def bounded(descriptor: int, data: Any, at: int) -> int:
        if at >= full:
            raise OSError(28, "No space left on device")
        return pwrite(descriptor, data[: full - at], at)

    monkeypatch.setattr(os, "pwrite", bounded)
    for _ in range(3):
        spooler.spool(said.append)
        assert spooler.failed
        assert os.fstat(spooler.descriptor).st_size == spooler.size  # nothing that is half a block
    (line,) = said
    assert line.endswith("a.csv.spool: cannot be written (No space left on device); the record stays in memory until "
                         "it can be")  # fmt: skip
    monkeypatch.setattr(os, "pwrite", pwrite)
    spooler.spool(never)
    assert not spooler.failed
    rows = read_spool(spooler.descriptor).rows
    assert [len(rows.table(PLANT, life, 3)) for life in rows.lives] == [10, 10]


def test_full_disk_ends_the_recording_of_messages_with_one_line(tmp_path: Path) -> None:
    ring, said = Ring(1000), list[str]()
    read_only = tmp_path / "a.mcap.spool"
    read_only.write_bytes(b"")
    spooler = Spooler(os.open(read_only, os.O_RDONLY), read_only, {MESSAGES[PLANT]: ring})
    for _ in range(2):
        ring.add(b"x")
        spooler.spool(said.append)
    assert (ring.ended, ring.lost, spooler.failed, ring.count, spooler.all_written()) == (
        errno.EBADF,
        1,
        False,
        1,
        True,
    )
    assert said == [
        f"{read_only}: cannot be written (Bad file descriptor); the recording ends here; the run continues, and rows "
        "stay in memory until they can be written"
    ]


# messages


def message(mono: int) -> bytes:
    """A state with little in it but its clock."""
    of_a_start = dict.fromkeys(("run", "src"), 1) | dict.fromkeys(("k", "seq"), 0)
    state = State(t=0.0, mono=mono, node="", state={}, input={}, control=True, **of_a_start)
    return message_entry("state", encode_frames("state", state)[1])


def test_messages_are_read_in_the_order_of_their_clocks(tmp_path: Path) -> None:
    rings = {MESSAGES[PLANT]: Ring(1000), MESSAGES[CONTROLLER]: Ring(1000)}
    spooler = spooler_of(tmp_path / "a.spool", rings)
    for node, clocks in ((PLANT, (300, 310, 500)), (CONTROLLER, (290, 305)), (CONTROLLER, (400,)), (PLANT, (600,))):
        for mono in clocks:
            rings[MESSAGES[node]].add(message(mono))
        spooler.spool(never)
    run = read_spool(tmp_path / "a.spool")
    assert [(mono, topic) for mono, topic, _ in run.messages()] == [
        (290, "controller/state"), (300, "plant/state"), (305, "controller/state"), (310, "plant/state"),
        (400, "controller/state"), (500, "plant/state"), (600, "plant/state"),
    ]  # fmt: skip
    assert not +run.missing_bytes


@pytest.mark.parametrize(
    "entry",
    [b"\xff" * 9, message(1)[:-3], message_entry("command", message(1)[5:]), message_entry("state", b"\x91" * 9000)],
)
def test_what_is_no_message_of_the_run_is_refused(tmp_path: Path, entry: bytes) -> None:
    (tmp_path / "a.spool").write_bytes(HEAD + block(MESSAGES[PLANT], 0, entry))
    with pytest.raises(SpoolError, match="the spool holds what is no message of the plant"):
        list(read_spool(tmp_path / "a.spool").messages())


def test_faults_are_as_many_as_the_node_that_tells_most_of_them() -> None:
    law, stop = ({"text": text} for text in ("law", "stop"))
    assert merged_faults([law], [law, stop, stop, law, stop]) == [law, stop, stop, law, stop]
    assert merged_faults([], [stop, stop], [stop]) == [stop, stop]


def test_damaged_messages_are_missing_repeated_ones_count_once(tmp_path: Path) -> None:
    kind, size = MESSAGES[PLANT], len(message(1000))
    blocks = [block(kind, i * size, message(1000 + i)) for i in range(4)]
    damaged = bytearray(blocks[1])
    damaged[-1] ^= 1
    repeated = block(kind, 2 * size, message(1002) + message(1003))  # a writer died before it said what it had written
    (tmp_path / "a.spool").write_bytes(b"".join([HEAD, blocks[0], blocks[0], damaged, blocks[2], repeated]))
    run = read_spool(tmp_path / "a.spool")
    assert [mono for mono, *_ in run.messages()] == [1000, 1002, 1003]
    assert (run.missing_bytes, run.damaged) == ({PLANT: size}, len(damaged))
