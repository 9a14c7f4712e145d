"""Controllers in Python that fail in every way: the plant's promises hold, and the text names the line.

Each runs on processes; it begins well, so that the machine moves, and fails after half a second of plant time.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.runs import START_S, Process, Runs, state_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
LIMIT, TIMEOUT = 0.4, 5.0  # N m of each wheel; s without a command, W
LAUNCH = f"""
[run]
mode = "realtime"
duration = 600.0
lockstep_timeout = 5.0
[plant]
machine = "diff_drive_trailer"
step = 0.001
[plant.safety]
limit = {LIMIT}
command_timeout = {TIMEOUT}
safe_time = 0.1
lateness_limit = 10.0
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


def run_of(runs: Runs, folder: Path, body: str, *settings: str) -> Process:
    """A run whose controller does this."""
    (folder / "own.py").write_text(OWN.replace("BODY", body))
    (folder / "own.toml").write_text(LAUNCH)
    return runs.start(str(folder / "own.toml"), *settings)


def within_limits(run: Process) -> None:
    """All that reached the machine was finite and within its limits."""
    columns = run.columns
    for name in ("U1", "U2"):
        assert np.isfinite(columns[name]).all()
        assert np.abs(columns[name]).max() <= LIMIT + 1e-12


def test_what_it_raises_is_a_fault_and_no_torque(runs: Runs, tmp_path: Path) -> None:
    raising_is_a_fault(runs, tmp_path, "sys.exit(0)", f"{LINE}SystemExit: 0; correct this line")


def raising_is_a_fault(runs: Runs, tmp_path: Path, body: str, said: str) -> None:
    """A controller whose line raises ends its run by a fault that names the line."""
    run = run_of(runs, tmp_path, body, "run.mode=lockstep")
    run.ends_with(1, START_S)
    fault = run.fault("law")
    assert fault["text"].startswith(said), fault
    assert 0.5 <= fault["t"] <= 0.6
    assert "Traceback" not in run.stderr
    within_limits(run)


def test_huge_values_are_limited_and_what_it_forks_gives_no_command(runs: Runs, tmp_path: Path) -> None:
    log, own = tmp_path / "children", tmp_path / "own"
    body = f"""
        open({str(own)!r}, "a").write(f"{{os.getpid()}}\\n")
        if os.fork() == 0:
            open({str(log)!r}, "a").write(f"{{os.getpid()}}\\n")
            return [0.3, 0.3]
        if t > 0.8:
            return [1e300, -1e300]"""
    run = run_of(runs, tmp_path, body, "run.mode=lockstep", "run.duration=1", "plant.safety.faults=false")
    run.ends_with(0, START_S)
    within_limits(run)
    early = run.columns["t"] < 0.8
    assert np.abs(run.columns["U1"][early]).max() == pytest.approx(0.1)
    assert np.abs(run.columns["U1"]).max() == LIMIT
    assert len(log.read_text().split()) > 10
    assert len(set(own.read_text().split())) == 1  # it runs in the controller's process alone
    assert all(state_of(int(pid)) in ("", "Z", "X") for pid in log.read_text().split())
