"""The record of a run: written while the run goes on, beside the output, and at most half a second of it is lost."""

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
from servonode.bus.topology import PLANT
from tests.helpers.runs import MANY, SEED, START_S, Process, Runs, Watch, eventually, signalled
from tests.processes.test_record import LAUNCH

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
DEATHS = MANY // 4
COMMON = (
    "run.speed=1",
    "run.duration=600",
    "plant.safety.command_timeout=5",
    "plant.safety.lateness_limit=10",
    "plant.safety.safe_time=0.1",
)
COST_S = 0.5  # of record, that a death may cost


# processes that die


class Going:
    """A run that goes on, watched by the test: how far it has come."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(self, run: Process, at_least: float = 0.7) -> Callable[[], float]:
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
    command = [sys.executable, "-m", "servonode.cli.main", "recover", str(spool), "--output", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_frozen_writer_holds_up_nobody(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON)
    going(run, 0.5)
    signalled(run.writer(), signal.SIGSTOP)
    newest = going(run, 1.0)
    signalled(run.popen.pid, signal.SIGINT)
    run.ends_with(130)
    assert_complete(run.columns, newest())
    assert run.spools() == []


def test_promise_25_random_deaths_cost_half_a_second_each(runs: Runs, going: Going) -> None:
    rng = random.Random(SEED)
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


def test_a_runtime_folder_that_fills_costs_nothing(runs: Runs, going: Going) -> None:
    run = runs.start(LAUNCH, *COMMON)
    newest = going(run)
    (run.path / "registry.json.tmp").mkdir()  # as good as full: nothing can be written there any more
    run.kill(PLANT, signal.SIGKILL)
    run.popen.wait(START_S)
    assert "Traceback" not in run.stderr
    assert run.fault("node_died")
    assert_complete(run.columns, newest())


# how runs are told to end, and where their record goes


def test_record_of_a_removed_folder_is_saved_elsewhere(runs: Runs, going: Going, tmp_path: Path) -> None:
    folder = tmp_path / "goes"
    folder.mkdir()
    run = runs.start(LAUNCH, *COMMON, "run.duration=5", words=("--output", str(folder / "a.csv")))
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
