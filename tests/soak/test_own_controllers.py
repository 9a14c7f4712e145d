"""Controllers in Python over time: late commands, and the memory that they leave behind."""

import os
from pathlib import Path

import pytest

from servonode.bus.topology import CONTROLLER, PLANT
from tests.helpers.runs import START_S, Process, Runs, Watch
from tests.processes.test_own_controllers import run_of, within_limits


def test_a_late_command_is_a_missed_one(runs: Runs, tmp_path: Path) -> None:
    body = "time.sleep(0.05 if round(t * 100) % 50 == 0 else 0.0)"
    run: Process = run_of(runs, tmp_path, body, "run.duration=2", "plant.safety.command_timeout=1.0")
    run.ends_with(0, START_S)
    counts = run.printed["counts"]
    assert sum(counts.get(name, 0) for name in ("misses", "repeats", "missed_commands")) >= 3, counts
    times = run.printed["nodes"]["controller"]["execution_s"]
    assert times["max"] >= 0.05
    within_limits(run)


def test_what_it_leaves_behind_is_collected(runs: Runs, tmp_path: Path) -> None:
    """Cycles with arrays of 1 MB in them: a controller's process collects them, as no other node has to."""
    body = "cycle = [np.zeros(125_000)]; cycle.append(cycle)"
    run: Process = run_of(runs, tmp_path, body)
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


LIVELY = """threading.Thread(target=lambda: [time.sleep(0.01) for _ in range(10**6)], daemon=True).start()
        while True: pass"""  # however lively a thread is


@pytest.mark.parametrize(
    ("body", "mode", "name"),
    [(LIVELY, "realtime", "stale_command"), ("os.kill(os.getpid(), signal.SIGSTOP)", "lockstep", "lockstep_timeout")],
)
def test_one_that_does_not_answer_is_a_missed_command(
    runs: Runs, tmp_path: Path, body: str, mode: str, name: str
) -> None:
    run = run_of(runs, tmp_path, body, f"run.mode={mode}")
    run.ends_with(1, START_S)
    assert run.fault(name)
    within_limits(run)


@pytest.mark.parametrize("body", ["os._exit(0)", "os.abort()"])
def test_one_that_ends_its_process_ends_the_run_safely(runs: Runs, tmp_path: Path, body: str) -> None:
    run = run_of(runs, tmp_path, body)
    run.ends_with(1, START_S)
    assert run.printed["faults"], run.stderr
    within_limits(run)


def resident(pid: int) -> int:
    """Bytes of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
