"""Promises that only processes show: clocks, a watchdog that is off, whose code is run."""

import os
import py_compile
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import servonode
from servonode.bus import Status
from servonode.bus.topology import CONTROLLER
from servonode.views.interpreter import fresh
from tests.helpers.runs import (
    START_S,
    Runs,
    Watch,
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


def test_promise_11_the_walls_clock_may_jump_by_hours(
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
    run = runs.start(
        LAUNCH, "run.speed=1", "run.duration=1", "plant.safety.command_timeout=10", "plant.safety.lateness_limit=10"
    )
    run.ends_with(0, START_S)
    assert run.printed["faults"] == []
    assert log.with_suffix(".shifted").read_text()
    assert not log.exists(), log.read_text()


# 16


def test_promise_16_where_it_was_asked_for_every_line_says_so(runs: Runs) -> None:
    settings = ("plant.safety.command_timeout=0", "plant.safety.unsafe=true", "run.speed=1", "run.duration=60")
    run = runs.start(LAUNCH, *settings, "plant.safety.lateness_limit=10")
    run.wait_open()
    with Watch(run.name) as watch:
        active = watch.status("active", within_s=START_S)
        run.kill(CONTROLLER, signal.SIGSTOP)
        later = watch.until(lambda m: type(m) is Status and m.t > active.t + 1.0, active.mono, START_S)
        assert later.lifecycle == "active"  # which is why it is called unsafe
    run.kill(CONTROLLER, signal.SIGCONT)
    run.stop()
    lines = [line for line in run.stderr.splitlines() if line.startswith(f"{run.name} ")]
    assert lines
    assert all("UNSAFE: no command watchdog" in line for line in lines)
    assert "safety            UNSAFE: no command watchdog" in run.stderr


# 26

EVIL = """
from pathlib import Path
Path({flag!r}).touch()
"""
MODEL = "\n\ndef model():\n    pass\n"
NO_DISPLAY = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND")}


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """A file that somebody else's code makes when it is run."""
    return tmp_path / "was run"


def commanded(*words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, which as `servonode` imports nothing from the working directory."""
    command = [sys.executable, "-P", "-m", "servonode.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_promise_26_nothing_is_imported_from_the_working_directory(
    runs: Runs, tmp_path: Path, flag: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name in ("matplotlib", "numpy", "tkinter", "json", "servonode", "zmq", "sitecustomize"):
        (here / f"{name}.py").write_text(EVIL.format(flag=str(flag)))
    monkeypatch.chdir(here)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    for words in (fresh("servonode.views.display"), fresh("servonode.views.window", "a run", "{}")):
        started = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=NO_DISPLAY)
        assert "there is no display" in started.stdout + started.stderr
    settings = [
        word for each in ("mode=lockstep", "lockstep_timeout=60", "duration=0.5") for word in ("--set", f"run.{each}")
    ]
    done = commanded("run", LAUNCH, *settings, "--no-report", "--name", "from-here")
    assert done.returncode == 0, done.stderr
    assert not flag.exists()
    assert subprocess.run([sys.executable, "-c", "import json"], check=True, timeout=60).returncode == 0
    assert flag.exists()  # what lies here would be found


def test_promise_26_code_in_a_world_writable_folder_is_not_run(tmp_path: Path, flag: Path) -> None:
    (tmp_path / "evil.py").write_text(EVIL.format(flag=str(flag)) + MODEL)
    (tmp_path / "evil.toml").write_text('run = {duration = 1}\nplant = {machine = "./evil.py:model"}\n')
    tmp_path.chmod(0o1777)
    done = commanded("check", str(tmp_path / "evil.toml"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"every user of this computer can put files into {tmp_path.resolve()}, so no code is run" in done.stderr
    assert not flag.exists()
    tmp_path.chmod(0o700)
    assert "returned NoneType, not a Model" in commanded("check", str(tmp_path / "evil.toml")).stderr
    assert flag.exists()


def test_promise_26_what_was_compiled_beside_a_machine_is_not_run(tmp_path: Path, flag: Path) -> None:
    machine = tmp_path / "robot.py"
    machine.write_text(EVIL.format(flag=str(flag)) + MODEL)
    py_compile.compile(str(machine), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    machine.write_text(MODEL)
    (tmp_path / "robot.toml").write_text('run = {duration = 1}\nplant = {machine = "./robot.py:model"}\n')
    assert "returned NoneType, not a Model" in commanded("check", str(tmp_path / "robot.toml")).stderr
    assert not flag.exists()
