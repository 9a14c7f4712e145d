"""The record of a run survives the death of any process, full disks and lost terminals; how runs are told to end."""

import json
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
from tests.bags.test_bags import messages
from tests.helpers.refusals import command
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
    done = operator("recover", str(spool), "--output", str(out))
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
    all_are_killed(run)
    assert not run.csv.exists()
    (spool,) = run.spools()
    assert f"{run.csv} (" in recover(spool, run.csv)
    assert_complete(run.columns, newest())
    again = runs.start(
        LAUNCH, "run.mode=lockstep", "run.duration=0.2", "run.lockstep_timeout=60", words=("--output", str(run.csv))
    )
    again.ends_with(0, START_S)
    assert run.spools() == [spool]  # another run leaves it alone


def all_are_killed(run: Process) -> None:
    """No process of a run is left."""
    pids = (run.writer(), run.popen.pid, *run.pids().values())
    signalled(run.popen.pid, signal.SIGSTOP)  # so that it starts no other writer
    for pid in pids:
        signalled(pid, signal.SIGKILL)
    run.popen.wait(START_S)


def test_promise_25_of_a_run_that_records_messages_the_spool_is_made_a_bag(runs: Runs, tmp_path: Path) -> None:
    bag, spool = tmp_path / "killed.mcap", tmp_path / "killed.mcap.spool"
    run = runs.start(LAUNCH, *COMMON, words=("--record", str(bag)))
    run.wait_open()
    assert eventually(lambda: spool.stat().st_size > 30_000, START_S)
    all_are_killed(run)
    result = command("bag", "recover", str(spool))
    assert result.exit_code == 0, result.stderr
    assert len(messages(bag)) > 20
    assert command("replay", str(bag)).exit_code == 0
    assert json.loads(command("bag", "info", str(bag), "--json").stdout)["ended"] == "killed"


def test_promise_25_a_killed_writer_is_replaced_and_each_life_of_a_plant_leaves_its_record(
    runs: Runs, going: Going
) -> None:
    run = runs.start(LAUNCH, *COMMON, 'supervision.plant="on-failure"')
    going(run)
    writer = run.writer()
    signalled(writer, signal.SIGKILL)
    assert eventually(lambda: len(run.left_over()) == 5 and run.left_over(b"writer") not in ([], [writer]), START_S)
    newest = going(run)
    assert run.ask("status")["lifecycle"] == "active"
    before = run.pids()[PLANT]
    run.kill(PLANT)
    assert eventually(lambda: run.is_open() and run.pids()[PLANT] != before, START_S)
    with Watch(run.name) as watch:
        run.arm(watch)
    killed, again = newest(), going(run, 0.5)
    run.kill(PLANT, signal.SIGHUP)
    run.ends_with(1, START_S)
    assert "writer was killed by SIGKILL; another one continues the recording" in run.stderr
    assert "stopped early after" in run.stderr
    assert_complete(run.columns, again())
    assert (run.printed["ended"], run.printed["stopped_by"], run.printed["exit"]) == ("stopped early", "SIGHUP", 1)
    run.csv = run.csv.with_name(f"{run.csv.stem}.life1.csv")
    assert_complete(run.columns, killed)
    assert run.spools() == []
