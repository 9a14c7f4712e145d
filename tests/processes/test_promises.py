"""Promises that only processes show: clocks, whose code is run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import servonode
from servonode.views.display import fresh
from tests.helpers.runs import (
    START_S,
    Runs,
)

LAUNCH = "trailer_pursuit"
PATIENT = ("plant.safety.command_timeout=10", "plant.safety.lateness_limit=10")
HOUR_S = 3600.0
SHIFTED = """
import os, sys, time, traceback

real, real_ns, readings = time.time, time.time_ns, [0]
with open({log!r} + ".shifted", "a") as shifted:
    shifted.write(str(sys.argv))

def shift(now, unit):
    readings[0] += 1
    *before, caller, _ = traceback.extract_stack()
    if caller.filename.startswith({root!r}) or any(frame.name == "run_node" for frame in before):
        with open({log!r}, "a") as log:
            log.write(f"{{caller.filename}}:{{caller.lineno}}\\n")
    return now + (1, -1, 0)[readings[0] % 3] * {hour} * unit

time.time = lambda: shift(real(), 1)
time.time_ns = lambda: int(shift(real_ns(), 10**9))
"""


# 11


def test_promise_11_the_walls_clock_may_jump_by_hours_and_a_run_sums_itself_up(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # each reading of the wall's clock, in each process of the run, is an hour before or after the one before;
    # noted are those that servonode's own code makes, and any in a node
    log, shim = tmp_path / "readings", tmp_path / "shim"
    shim.mkdir()
    root = str(Path(servonode.__file__).resolve().parents[1])
    (shim / "sitecustomize.py").write_text(SHIFTED.format(root=f"{root}/", log=str(log), hour=HOUR_S))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(shim), *filter(None, [os.environ.get("PYTHONPATH")])]))
    code = "import time; print(time.time(), time.time(), time.time())"
    shifted = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    readings = [float(word) for word in shifted.stdout.split()]
    assert max(readings) - min(readings) > HOUR_S
    run = runs.start(LAUNCH, "run.speed=1", "run.duration=1", *PATIENT)
    run.ends_with(0, START_S)
    printed = run.printed
    assert printed.keys() >= {"misses", "round_trip_s", "counts", "faults", "exit", "lateness_s", "rate", "wall_s"}
    assert list(printed["round_trip_s"]) == ["p50", "p99", "p999", "max"]
    assert (printed["t"], printed["steps"], printed["faults"], printed["exit"]) == (1.0, 1000, [], 0)
    assert printed["energy_error"] < 1e-12
    assert len(run.columns["t"]) == 1001
    assert "plant             round trip" in run.stderr
    for word in ("rate", "missed", "timing", "largest residual", "energy check", "faults            none"):
        assert f"\n  {word}" in run.stderr
    assert runs.left_files() == []
    assert log.with_suffix(".shifted").read_text()
    assert not log.exists(), log.read_text()


# 26

EVIL = """
from pathlib import Path
Path({flag!r}).touch()
"""
NO_DISPLAY = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND")}


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """A file that somebody else's code makes when it is run."""
    return tmp_path / "was run"


def test_promise_26_nothing_is_imported_from_the_working_directory(
    runs: Runs, tmp_path: Path, flag: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name in ("matplotlib", "numpy", "tkinter", "json", "servonode", "zmq", "sitecustomize"):
        (here / f"{name}.py").write_text(EVIL.format(flag=str(flag)))
    monkeypatch.chdir(here)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    words = fresh("servonode.views.display")
    started = subprocess.run(words, capture_output=True, text=True, timeout=START_S, check=False, env=NO_DISPLAY)
    assert "there is no display" in started.stdout + started.stderr
    command = [sys.executable, "-P", "-m", "servonode.cli.main", "run", LAUNCH, "--no-report", "--name", "from-here"]
    for setting in ("mode=lockstep", "lockstep_timeout=60", "duration=0.5"):
        command += ["--set", f"run.{setting}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 0, done.stderr
    assert not flag.exists()
    assert subprocess.run([sys.executable, "-c", "import json"], check=True, timeout=START_S).returncode == 0
    assert flag.exists()  # what lies here would be found
