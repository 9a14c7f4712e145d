"""The record of a run survives the death of any process, full disks and lost terminals; how runs are told to end."""

import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servonode.bus import State
from servonode.bus.topology import PLANT
from tests.helpers.runs import START_S, Process, Runs, Watch, eventually, operator, signalled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
LAUNCH = "trailer_pursuit"
COMMON = ("run.speed=1", "run.duration=600", "plant.safety.command_timeout=10", "plant.safety.lateness_limit=10",
          "plant.safety.safe_time=0.1")  # fmt: skip
COST_S = 5.0  # of record, that a death may cost on a busy computer; half a second on a quiet one is seen in the soak
Newest = Callable[[], float]


class Going:
    """A run that goes on, watched by the test: how far it has come."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(self, run: Process, at_least: float = 0.7) -> Newest:
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


def assert_complete(columns: dict[str, Any], until: float) -> None:
    """Each step is there once, to shortly before a state [s] that was published, and what was answered."""
    k = np.round(columns["t"] * 1000).astype(int)
    np.testing.assert_array_equal(k, np.arange(len(k)))
    assert columns["t"][-1] >= until - COST_S
    assert np.isfinite(columns["residual_heading"]).any()


def recover(spool: Path, out: Path) -> str:
    done = operator("recover", str(spool), "--out", str(out))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_promise_25_killed_launcher_leaves_the_csv_file(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON)
    newest = going(run)
    signalled(run.popen.pid, signal.SIGKILL)
    run.popen.wait(START_S)
    assert eventually(lambda: run.left_over() == [], START_S)
    assert_complete(run.columns, newest())
    assert run.spools() == []


def test_promise_25_what_all_dead_processes_left_is_recovered(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON)
    newest = going(run)
    pids = (run.writer(), run.popen.pid, *run.pids().values())
    signalled(run.popen.pid, signal.SIGSTOP)  # so that it starts no other writer
    for pid in pids:
        signalled(pid, signal.SIGKILL)
    run.popen.wait(START_S)
    assert not run.csv.exists()
    (spool,) = run.spools()
    assert f"{run.csv} (" in recover(spool, run.csv)
    assert_complete(run.columns, newest())
    again = runs.start(
        LAUNCH, "run.mode=lockstep", "run.duration=0.2", "run.lockstep_timeout=60", words=("--out", str(run.csv))
    )
    again.ends_with(0, START_S)
    assert run.spools() == [spool]  # another run leaves it alone


def test_promise_25_each_life_of_a_plant_leaves_its_record(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON, 'supervision.plant="on-failure"')
    newest = going(run)
    before = run.pids()[PLANT]
    run.kill(PLANT)
    assert eventually(lambda: run.is_open() and run.pids()[PLANT] != before, START_S)
    with Watch(run.name) as watch:
        run.arm(watch)
    killed, again = newest(), going(run, 0.5)
    run.kill(PLANT, signal.SIGHUP)
    run.ends_with(1, START_S)
    assert_complete(run.columns, again())
    assert (run.printed["ended"], run.printed["stopped_by"]) == ("stopped early", "SIGHUP")
    run.csv = run.csv.with_name(f"{run.csv.stem}.life1.csv")
    assert_complete(run.columns, killed)
    assert run.spools() == []


def test_killed_writer_is_replaced_and_nothing_is_missing(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON)
    going(run)
    writer = run.writer()
    signalled(writer, signal.SIGKILL)
    assert eventually(lambda: len(run.left_over()) == 5 and run.left_over(b"writer") not in ([], [writer]), START_S)
    newest = going(run)
    assert run.ask("status")["lifecycle"] == "active"
    signalled(run.popen.pid, signal.SIGTERM)
    run.ends_with(143, START_S)
    assert_complete(run.columns, newest())
    assert run.printed["faults"] == []
    assert "writer was killed by SIGKILL; another one continues the recording" in run.stderr


def test_promise_25_full_disk_ends_the_recording_alone(runs: Runs) -> None:
    settings = (*COMMON, "run.duration=4")  # in real time: the first block that is written is a small part of it
    run = runs.start(LAUNCH, *settings, limits={resource.RLIMIT_FSIZE: 150_000})
    assert run.popen.wait(START_S) == 1  # for the data, of a run that completed
    assert (run.printed["t"], run.printed["ended"], run.printed["faults"]) == (4.0, "completed", [])
    (spool,) = run.spools()
    assert run.stderr.count("cannot be written") == 2
    assert f"[writer] {spool}: cannot be written (File too large)" in run.stderr
    kept = f"{run.csv}: cannot be written (File too large); what was recorded is kept: servonode recover {spool}"
    assert kept in run.stderr
    assert not run.csv.exists()
    recover(spool, run.csv)
    k = np.round(run.columns["t"] * 1000)
    np.testing.assert_array_equal(k, np.arange(len(k)))
    assert 0.5 < run.columns["t"][-1] < 4.0


def test_record_of_a_removed_folder_is_saved_elsewhere(runs: Runs, going: Going, tmp_path: Path) -> None:
    folder = tmp_path / "goes"
    folder.mkdir()
    run = runs.start(LAUNCH, *COMMON, "run.duration=5", words=("--out", str(folder / "a.csv")))
    going(run, 0.2)
    shutil.rmtree(folder)
    assert run.popen.wait(START_S) == 1
    assert (run.printed["t"], run.printed["ended"], run.printed["exit"]) == (5.0, "completed", 1)
    assert f"servonode: {folder / 'a.csv'}: cannot be written (No such file or directory)" in run.stderr
    saved = Path(run.stderr.partition("servonode recover ")[2].split()[0])
    try:
        recover(saved, run.csv)
    finally:
        saved.unlink()
    assert len(run.csv.read_text().splitlines()) == 5002


def test_a_plant_that_is_told_to_stop_is_not_completed(runs: Runs) -> None:
    waits = 'plant.driver="loopback"'  # for an arming: before its first state
    told = {how: runs.start(LAUNCH, *COMMON, *([] if how == "a request" else [waits]))
            for how in ("a request", "SIGTERM", "SIGINT")}  # fmt: skip
    for how, run in told.items():
        run.wait_open()
        stands = "active" if how == "a request" else "inactive"
        assert eventually(lambda: run.ask("status")["lifecycle"] == stands, START_S)  # noqa: B023
        if how == "a request":
            run.ask("stop")
        else:
            run.kill(PLANT, getattr(signal, how))
        run.ends_with(1, START_S)
        assert (run.printed["ended"], run.printed["stopped_by"], run.printed["exit"]) == ("stopped early", how, 1)
        assert "stopped early after" in run.stderr
        assert run.printed["faults"] == []


def test_a_run_in_lockstep_that_is_broken_off_sums_itself_up(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON, "run.mode=lockstep", "run.duration=5000")
    going(run)
    run.stop()
    assert f"{run.name}: broken off after" in run.stderr
    assert (run.printed["exit"], run.printed["faults"]) == (130, [])
    assert run.columns["t"][-1] == run.printed["t"] > 0
    assert runs.left_files() == []
