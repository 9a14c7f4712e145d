"""Controllers in Python that fail in every way: the plant's promises hold, and the text names the line.

Each runs on processes; it begins well, so that the machine moves, and fails after half a second of plant time.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from servonode.bus.topology import CONTROLLER, PLANT
from tests.helpers.runs import START_S, Process, Runs, Watch, eventually, state_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
LIMIT, TIMEOUT = 0.4, 0.2  # N m of each wheel; s without a command, W
LAUNCH = f"""
[run]
mode = "realtime"
duration = 600.0
lockstep_timeout = 0.5
[plant]
machine = "diff_drive_trailer"
step = 0.001
[plant.safety]
limit = {LIMIT}
command_timeout = {TIMEOUT}
safe_time = 0.1
lateness_limit = 5.0
[controller]
program = "./own.py:Own"
period = 0.01
"""
OWN = """
import os, signal, sys, threading, time

import numpy as np


class Own:
    def __init__(self, plant):
        self.kept = []

    def command(self, t, state, goal):
        if t < 0.5:
            return [0.1, 0.1]
        BODY
        return [0.1, 0.1]
"""
LINE = "own.py line 14: "


@pytest.fixture
def started(runs: Runs, tmp_path: Path):  # type: ignore[no-untyped-def]
    """Starts a run whose controller fails so."""

    def start(body: str, *settings: str) -> Process:
        (tmp_path / "own.py").write_text(OWN.replace("BODY", body))
        (tmp_path / "own.toml").write_text(LAUNCH)
        return runs.start(str(tmp_path / "own.toml"), *settings)

    return start


def within_limits(run: Process) -> None:
    """All that reached the machine was finite and within its limits."""
    columns = run.columns
    for name in ("U1", "U2"):
        assert np.isfinite(columns[name]).all()
        assert np.abs(columns[name]).max() <= LIMIT + 1e-12


@pytest.mark.parametrize("mode", ["realtime", pytest.param("lockstep", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise RuntimeError('no solution')", f"{LINE}RuntimeError: no solution; correct this line"),
        ("return [0.1, float('nan')]", "own.py line 11: command() returned nan for U2; let it return an array of 2 "),
        ("return [0.1] * 3", "own.py line 11: command() returned an array of shape (3,); let it return an array of 2 "),
        ("sys.exit(0)", f"{LINE}SystemExit: 0; correct this line"),
    ],
)
def test_what_it_raises_or_returns_is_a_fault_and_no_torque(started, mode: str, body: str, said: str) -> None:  # type: ignore[no-untyped-def]
    run: Process = started(body, f"run.mode={mode}")
    run.ends_with(1, START_S)
    fault = run.fault("law")
    assert fault["text"].startswith(said), fault
    assert 0.5 <= fault["t"] <= 0.6
    assert "Traceback" not in run.stderr
    within_limits(run)


def test_huge_values_are_limited_by_the_plant(started) -> None:  # type: ignore[no-untyped-def]
    run: Process = started("return [1e300, -1e300]", "run.duration=1", "run.mode=lockstep", "plant.safety.faults=false")
    run.ends_with(0, START_S)
    within_limits(run)
    assert np.abs(run.columns["U1"]).max() == LIMIT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "mode", "name"),
    [
        ("time.sleep(1e4)", "realtime", "stale_command"),
        ("time.sleep(1e4)", "lockstep", "lockstep_timeout"),
        ("threading.Thread(target=lambda: [time.sleep(0.01) for _ in range(10**6)], daemon=True).start()\n"
         "        while True: pass", "realtime", "stale_command"),  # however lively a thread is
        ("os.kill(os.getpid(), signal.SIGSTOP)", "realtime", "stale_command"),
    ],
)  # fmt: skip
def test_one_that_does_not_answer_is_a_missed_command(started, body: str, mode: str, name: str) -> None:  # type: ignore[no-untyped-def]
    run: Process = started(body, f"run.mode={mode}")
    run.ends_with(1, START_S)
    assert run.fault(name)["t"] < 0.5 + 2 * TIMEOUT + 0.2
    within_limits(run)


def test_a_late_command_is_a_missed_one(started) -> None:  # type: ignore[no-untyped-def]
    body = "time.sleep(0.05 if round(t * 100) % 50 == 0 else 0.0)"
    run: Process = started(body, "run.duration=2", "plant.safety.command_timeout=1.0")
    run.ends_with(0, START_S)
    counts = run.printed["counts"]
    assert sum(counts.get(name, 0) for name in ("misses", "repeats", "missed_commands")) >= 3, counts
    times = run.printed["nodes"]["controller"]["execution_s"]
    assert times["max"] >= 0.05
    within_limits(run)


@pytest.mark.parametrize(
    "body",
    [
        "os._exit(7)",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "os.abort()")
        ),
    ],
)
def test_one_that_ends_its_process_ends_the_run_safely(started, body: str) -> None:  # type: ignore[no-untyped-def]
    run: Process = started(body)
    run.ends_with(1, START_S)
    assert run.printed["faults"], run.stderr
    within_limits(run)
    assert run.left_over() == []


def test_what_it_forks_gives_no_command(started, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    log = tmp_path / "children"
    body = f"""
        if os.fork() == 0:
            open({str(log)!r}, "a").write(f"{{os.getpid()}}\\n")
            return [0.3, 0.3]"""
    run: Process = started(body, "run.mode=lockstep", "run.duration=1")
    run.ends_with(0, START_S)
    assert len(log.read_text().split()) > 10
    assert np.abs(run.columns["U1"]).max() == pytest.approx(0.1)
    assert all(state_of(int(pid)) in ("", "Z", "X") for pid in log.read_text().split())


@pytest.mark.slow
def test_what_it_leaves_behind_is_collected(started) -> None:  # type: ignore[no-untyped-def]
    """Cycles with arrays of 1 MB in them: a controller's process collects them, as no other node has to."""
    body = "cycle = [np.zeros(125_000)]; cycle.append(cycle)"
    run: Process = started(body)
    run.wait_open()
    with Watch(run.name) as watch:
        watch.status("active", within_s=START_S)
        watch.until(lambda message: message.node == PLANT and message.t > 3.0, within_s=START_S)
        before = resident(run.pids()[CONTROLLER])
        watch.until(lambda message: message.node == PLANT and message.t > 8.0, within_s=START_S)
        after = resident(run.pids()[CONTROLLER])
        assert watch.latest(CONTROLLER).values["execution_max"] > 0
    run.stop()
    assert after - before < 100e6, (before, after)  # of 500 MB that it has left


def resident(pid: int) -> int:
    """Bytes of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_it_runs_in_the_controllers_process_alone(started, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    log = tmp_path / "pids"
    run: Process = started(f"open({str(log)!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(0.001)")
    run.wait_open()
    assert eventually(log.exists, START_S)
    assert set(map(int, log.read_text().split())) == {run.pids()[CONTROLLER]}
    time.sleep(0.05)
    run.stop()
