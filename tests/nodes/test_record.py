"""The record of a run: written while the run goes on, beside the output, and whole whoever dies and however it ends."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servonode.bus import State
from servonode.bus.topology import CONTROLLER, PLANT
from servonode.record.row_log import Recorder
from servonode.record.spool import SpoolError, about_block, append, names_block, read_spool, rows_block
from servonode.record.store import Store
from servonode.record.writer import Files, Spooler
from tests.helpers.runs import MANY, START_S, Process, Runs, Watch, eventually, signalled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
LAUNCH = "trailer_pursuit"
DEATHS = MANY // 4
COMMON = (
    "run.speed=1",
    "run.duration=600",
    "plant.safety.command_timeout=5",
    "plant.safety.lateness_limit=10",
    "plant.safety.safe_time=0.1",
)
COST_S = 0.5  # of record, that a death may cost
COLUMNS = ("k", "a", "b")


def table(first: int, count: int) -> Any:
    """Rows whose values tell their number."""
    k = np.arange(first, first + count, dtype=float)
    return np.column_stack([k, k + 0.25, -k])


def filled(recorder: Recorder, first: int, count: int) -> None:
    for row in table(first, count):
        recorder.add(int(row[0]), row[1:2], row[2:])


# memory


def test_rows_in_shared_memory_are_those_that_a_private_record_keeps() -> None:
    store = Store(8 * 3 * 10)
    shared, private = Recorder(COLUMNS[1:], 10, store), Recorder(COLUMNS[1:], 10)
    for recorder in (shared, private):
        filled(recorder, 0, 7)
    np.testing.assert_array_equal(store.rows(0, 7), private.rows)
    assert (store.count, store.columns, shared.last) == (7, list(COLUMNS), 6)


def test_a_full_ring_takes_rows_again_once_some_are_written_and_counts_what_it_could_not_take() -> None:
    store = Store(8 * 3 * 10)
    recorder = Recorder(COLUMNS[1:], 10, store)
    filled(recorder, 0, 12)
    assert (store.count, store.lost) == (10, 2)
    store.written = 6
    filled(recorder, 12, 4)
    assert (store.count, store.lost) == (14, 2)
    np.testing.assert_array_equal(store.rows(6, 14), np.vstack([table(6, 4), table(12, 4)]))


def test_what_a_process_has_recorded_is_there_when_it_has_been_killed() -> None:
    store = Store(8 * 3 * 1000)
    pid = os.fork()
    if pid == 0:
        try:
            filled(Recorder(COLUMNS[1:], 1000, store), 0, 500)
            store.leave({"k": 499})
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.waitpid(pid, 0)
    np.testing.assert_array_equal(store.rows(0, store.count), table(0, 500))
    assert store.summary == {"k": 499}


def test_memory_that_is_given_back_is_that_of_the_rows_alone() -> None:
    store = Store(8 * 3 * 10_000)
    recorder = Recorder(COLUMNS[1:], 10_000, store)
    filled(recorder, 0, 10_000)
    store.free(1000, 9000)
    np.testing.assert_array_equal(store.rows(0, 1000), table(0, 1000))
    np.testing.assert_array_equal(store.rows(9000, 10_000), table(9000, 1000))
    assert not store.rows(2000, 8000).any()  # the system has taken it
    store.written = 9000
    filled(recorder, 10_000, 5000)  # over the end of the ring, into what was given back
    np.testing.assert_array_equal(store.rows(9000, 15_000), table(9000, 6000))


def test_a_summary_that_is_too_long_loses_the_last_of_its_faults() -> None:
    store = Store(0)
    store.leave({"k": 3, "faults": [{"text": "x" * 200}] * 10_000})
    assert (len(store.summary["faults"]), store.summary["faults_left_out"]) == (1000, 9000)


# the spool


@pytest.fixture
def spooler(tmp_path: Path) -> Spooler:
    """A spool of a plant that has recorded ten rows in each of two lives."""
    file = tmp_path / "a.csv.spool"
    store = Store(8 * 3 * 100)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT)
    spooler = Spooler(Files(descriptor, file), {PLANT: store}, {})
    spooler.begin({"out": "a.csv"})
    for first in (0, 100):
        store.begin_life()
        filled(Recorder(COLUMNS[1:], 100, store), first, 10)
    return spooler


def never(text: str) -> None:
    raise AssertionError(text)


def test_a_spool_gives_back_the_rows_of_each_life(spooler: Spooler) -> None:
    spooler.spool(never)
    pieces = read_spool(spooler.files.descriptor)
    assert (pieces.lives, pieces.columns, pieces.damaged) == ([0, 1], {PLANT: list(COLUMNS)}, 0)
    np.testing.assert_array_equal(pieces.rows(PLANT, 0, 3), table(0, 10))
    np.testing.assert_array_equal(pieces.rows(PLANT, 1, 3), table(100, 10))
    assert pieces.rows(CONTROLLER, 0, 5).shape == (0, 5)


def test_a_spool_that_is_cut_anywhere_loses_its_tail_alone(spooler: Spooler) -> None:
    spooler.spool(never)
    assert spooler.files.spool is not None
    whole, about = spooler.files.spool.read_bytes(), len(about_block({"out": "a.csv"}))
    for end in range(about, len(whole), 5):
        spooler.files.spool.write_bytes(whole[:end])
        pieces = read_spool(spooler.files.spool)
        rows = [pieces.rows(PLANT, life, 3) for life in pieces.lives]
        assert [len(each) for each in rows] in ([], [10])
        assert 0 <= pieces.damaged < len(whole) - about


def test_a_bit_that_falls_over_anywhere_costs_its_block_alone(spooler: Spooler) -> None:
    spooler.spool(never)
    assert spooler.files.spool is not None
    whole, about = bytearray(spooler.files.spool.read_bytes()), len(about_block({"out": "a.csv"}))
    for at in range(about, len(whole), 5):
        whole[at] ^= 1 << at % 8
        spooler.files.spool.write_bytes(whole)
        pieces = read_spool(spooler.files.spool)
        assert pieces.damaged > 0
        rows = [row for life in pieces.lives for row in pieces.rows(PLANT, life, 3).tolist()]
        assert len(rows) in (10, 20)  # 20: it was the names that were lost
        assert all(row in np.vstack([table(0, 10), table(100, 10)]).tolist() for row in rows)
        whole[at] ^= 1 << at % 8


def test_what_is_no_spool_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"k,a\n1,2\n", about_block({})[1:], rows_block(PLANT, 0, 0, table(0, 2))):
        file = tmp_path / "no.spool"
        file.write_bytes(content)
        with pytest.raises(SpoolError, match="not a spool file, or its beginning is damaged"):
            read_spool(file)


def test_rows_that_a_dead_writer_left_and_its_successor_wrote_again_are_there_once(tmp_path: Path) -> None:
    file = tmp_path / "a.spool"
    file.write_bytes(
        about_block({}) + rows_block(PLANT, 0, 0, table(0, 10)) + rows_block(PLANT, 0, 0, 0 * table(0, 10))
        + rows_block(PLANT, 0, 0, table(0, 15)) + rows_block(PLANT, 0, 20, table(20, 5))
    )  # fmt: skip
    pieces = read_spool(file)
    np.testing.assert_array_equal(pieces.rows(PLANT, 0, 3), np.vstack([table(0, 15), table(20, 5)]))
    assert pieces.missing[PLANT] == 5


def test_what_a_controller_still_answered_to_the_life_before_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "a.spool"
    file.write_bytes(about_block({}) + rows_block(CONTROLLER, 1, 0, np.vstack([table(90, 2), table(0, 3)])))
    np.testing.assert_array_equal(read_spool(file).rows(CONTROLLER, 1, 3), table(0, 3))


def test_a_disk_that_is_full_is_told_once_and_nothing_is_lost_when_there_is_room_again(
    spooler: Spooler, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    full = spooler.size + len(names_block(PLANT, list(COLUMNS))) + 20
    pwrite = os.pwrite

    def bounded(descriptor: int, data: Any, at: int) -> int:
        if at >= full:
            raise OSError(28, "No space left on device")
        return pwrite(descriptor, data[: full - at], at)

    monkeypatch.setattr(os, "pwrite", bounded)
    for _ in range(3):
        spooler.spool(said.append)
        assert spooler.failed
        assert os.fstat(spooler.files.descriptor).st_size == spooler.size  # nothing that is half a block
    (line,) = said
    assert line.endswith("a.csv.spool: cannot be written (No space left on device); the record stays in memory until "
                         "it can be")  # fmt: skip
    monkeypatch.setattr(os, "pwrite", pwrite)
    spooler.spool(never)
    assert not spooler.failed
    pieces = read_spool(spooler.files.descriptor)
    assert [len(pieces.rows(PLANT, life, 3)) for life in pieces.lives] == [10, 10]


def test_bytes_are_written_behind_those_that_are_good(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    assert append(descriptor, append(descriptor, 0, b"abc"), b"de") == 5
    assert append(descriptor, 3, b"x") == 4
    assert os.pread(descriptor, 10, 0)[:4] == b"abcx"


# processes that die


class Going:
    """A run that goes on, watched by the test: how far it has come."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(self, run: Process, at_least: float = 1.0) -> Callable[[], float]:
        """Wait until the run has gone on for so long [s]; what gives the plant time [s] of its newest state."""
        run.wait_open()
        watch = self._stack.enter_context(Watch(run.name, {PLANT: ["state", "status"]}))
        first = watch.until(lambda message: type(message) is State and message.t >= at_least, within_s=START_S)
        return lambda: float(watch.of(State, first.mono)[-1].t)


@pytest.fixture
def going() -> Iterator[Going]:
    """Waits for runs, and watches them to the end of the test."""
    with ExitStack() as stack:
        yield Going(stack)


def assert_complete(columns: dict[str, Any], until: float, answered: float | None = None) -> None:
    """Each step is there once, to half a second before a state [s] that was published, and what was answered.

    answered: plant time [s] to which the controller lived, if not to the end.
    """
    k = np.round(columns["t"] * 1000).astype(int)
    np.testing.assert_array_equal(k, np.arange(len(k)))
    assert columns["t"][-1] >= until - COST_S
    known = np.isfinite(columns["residual_heading"])  # a period without its command has none
    lived = until if answered is None else answered
    newest = np.flatnonzero(np.diff(columns["residual_heading"][known]) != 0)[-1]
    assert columns["t"][known][newest] >= lived - COST_S


def recover(spool: Path, out: Path) -> str:
    command = [sys.executable, "-m", "servonode.cli.main", "recover", str(spool), "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_promise_25_a_launcher_that_is_killed_leaves_the_csv_file(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON)
    newest = going(run)
    signalled(run.popen.pid, signal.SIGKILL)
    run.popen.wait(START_S)
    assert eventually(lambda: run.left_over() == [], START_S)
    assert_complete(run.columns, newest())
    assert run.spools() == []


def test_promise_25_when_all_are_killed_the_spool_has_all_but_the_last_half_second(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON)
    newest = going(run)
    pids = [run.writer(), run.popen.pid, *run.pids().values()]
    for pid in pids:
        signalled(pid, signal.SIGKILL)
    run.popen.wait(START_S)
    assert not run.csv.exists()
    (spool,) = run.spools()
    assert f"{run.csv} (" in recover(spool, run.csv)
    assert_complete(run.columns, newest())
    again = runs.start(LAUNCH, "run.duration=0.2", words=("--out", str(run.csv)))
    again.ends_with(0, START_S)
    assert run.spools() == [spool]  # another run leaves it alone


def test_promise_25_a_plant_that_is_killed_leaves_its_record_and_a_new_life_its_own(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON, 'supervision.plant="on-failure"')
    newest = going(run)
    before = run.pids()[PLANT]
    run.kill(PLANT)
    assert eventually(lambda: run.is_open() and run.pids()[PLANT] != before, START_S)
    with Watch(run.name) as watch:
        run.arm(watch)
    killed, again = newest(), going(run, 0.5)
    run.kill(PLANT, signal.SIGTERM)
    run.ends_with(1)
    assert_complete(run.columns, again())
    assert (run.printed["ended"], run.printed["stopped_by"]) == ("stopped early", "SIGTERM")
    run.csv = run.csv.with_name(f"{run.csv.stem}.life1.csv")
    assert_complete(run.columns, killed)
    assert run.spools() == []


def test_a_writer_that_is_killed_is_replaced_and_nothing_is_missing(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON)
    going(run, 1.5)
    writer = run.writer()
    signalled(writer, signal.SIGKILL)
    assert eventually(lambda: len(run.left_over()) == 5 and run.left_over(b"writer") not in ([], [writer]))
    newest = going(run)
    assert run.ask("status")["lifecycle"] == "active"
    signalled(run.popen.pid, signal.SIGTERM)
    run.ends_with(143)
    assert_complete(run.columns, newest())
    assert run.printed["faults"] == []
    assert "writer was killed by SIGKILL; another one continues the recording" in run.stderr


@pytest.mark.slow
def test_a_frozen_writer_holds_up_nobody(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON)
    going(run, 0.5)
    signalled(run.writer(), signal.SIGSTOP)
    newest = going(run, 1.5)
    signalled(run.popen.pid, signal.SIGINT)
    run.ends_with(130)
    assert_complete(run.columns, newest())
    assert run.spools() == []


@pytest.mark.slow
def test_promise_25_random_deaths_cost_half_a_second_each(runs: Runs, going: Going) -> None:
    rng = random.Random()
    costs = list[float]()
    for _ in range(DEATHS):
        run = runs.start(LAUNCH, *COMMON)
        newest = going(run, 0.5)
        time.sleep(rng.uniform(0.0, 1.5))
        victims = {"writer": run.writer(), "launcher": run.popen.pid, **run.pids()}
        chosen = rng.choice([*([each] for each in victims), [*victims]])
        for victim in chosen:
            signalled(victims[victim], signal.SIGKILL)
        answered = newest()  # for a plant continues without its controller
        if chosen == ["writer"]:
            time.sleep(0.5)
            run.popen.send_signal(signal.SIGTERM)
        run.popen.wait(START_S)
        assert eventually(lambda run=run: run.left_over() == [], START_S), chosen  # type: ignore[misc]
        for spool in run.spools():
            assert len(chosen) == len(victims), chosen
            recover(spool, run.csv)
        assert_complete(run.columns, newest(), answered)
        costs.append(newest() - run.columns["t"][-1])
    print(f"\n{DEATHS} deaths: at worst {max(costs):.3f} s of record lost")


# disks and folders


def test_promise_25_a_disk_that_fills_ends_the_recording_and_not_the_run(runs: Runs, going: Going) -> None:
    settings = (*COMMON, "run.duration=6", "run.speed=3")
    run = runs.start(LAUNCH, *settings, limits={resource.RLIMIT_FSIZE: 200_000})
    assert run.popen.wait(START_S) == 1  # for the data, of a run that completed
    assert (run.printed["t"], run.printed["ended"], run.printed["faults"]) == (6.0, "completed", [])
    (spool,) = run.spools()
    assert run.stderr.count("cannot be written") == 2
    assert f"[writer] {spool}: cannot be written (File too large)" in run.stderr
    assert f"{run.csv}: cannot be written (File too large); what was recorded is kept: servonode recover {spool}" in (
        run.stderr
    )
    assert not run.csv.exists()
    recover(spool, run.csv)
    k = np.round(run.columns["t"] * 1000)
    np.testing.assert_array_equal(k, np.arange(len(k)))
    assert 1.0 < run.columns["t"][-1] < 6.0


def test_the_record_of_a_run_whose_folder_was_removed_is_saved_elsewhere(
    runs: Runs, going: Going, tmp_path: Path
) -> None:
    folder = tmp_path / "goes"
    folder.mkdir()
    run = runs.start(LAUNCH, *COMMON, "run.duration=3", words=("--out", str(folder / "a.csv")))
    going(run, 0.2)
    shutil.rmtree(folder)
    assert run.popen.wait(START_S) == 1
    assert (run.printed["t"], run.printed["ended"], run.printed["exit"]) == (3.0, "completed", 1)
    assert f"servonode: {folder / 'a.csv'}: cannot be written (No such file or directory)" in run.stderr
    saved = Path(run.stderr.partition("servonode recover ")[2].split()[0])
    try:
        recover(saved, run.csv)
    finally:
        saved.unlink()
    assert len(run.csv.read_text().splitlines()) == 3002


@pytest.mark.slow
def test_a_runtime_folder_that_fills_costs_nothing(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON)
    newest = going(run)
    (run.path / "registry.json.tmp").mkdir()  # as good as full: nothing can be written there any more
    run.kill(PLANT, signal.SIGKILL)
    run.popen.wait(START_S)
    assert "Traceback" not in run.stderr
    assert run.fault("node_died")
    assert_complete(run.columns, newest())


# what a run is told


@pytest.mark.parametrize(
    "how", [*(pytest.param(f"SIG{n}", marks=pytest.mark.slow) for n in ("TERM", "INT", "HUP")), "a request"]
)
def test_a_plant_that_is_told_to_stop_has_not_ended_well(runs: Runs, going: Going, how: str) -> None:
    run = runs.start(LAUNCH, *COMMON)
    going(run, 0.3)
    if how == "a request":
        run.ask("stop")
    else:
        run.kill(PLANT, getattr(signal, how))
    run.ends_with(1)
    assert (run.printed["ended"], run.printed["stopped_by"], run.printed["faults"]) == ("stopped early", how, [])
    assert run.printed["exit"] == 1
    assert "stopped early after" in run.stderr
    assert f"the plant was told to stop: {how}" in run.stderr
    assert run.columns["t"][-1] == run.printed["t"] >= 0.3


def test_a_plant_that_is_told_to_stop_before_its_first_state_has_not_ended_well(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON, 'plant.driver="loopback"')
    run.wait_open()
    assert eventually(lambda: run.ask("status")["lifecycle"] == "inactive", START_S)
    run.kill(PLANT, signal.SIGTERM)
    run.ends_with(1)
    assert (run.printed["ended"], run.printed["stopped_by"], run.printed["exit"]) == ("stopped early", "SIGTERM", 1)
    assert "stopped early after 0.000 s of plant time" in run.stderr
