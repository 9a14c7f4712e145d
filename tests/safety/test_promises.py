"""Promises of the runtime that do not depend on the driver; those that do are in suite.py."""

import ast
import os
import py_compile
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

import servonode
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.cli.main import main
from servonode.closed_loop.launch_file import LaunchError
from servonode.nodes import answers, fault_ladder, guard, input_limiter, plant_output
from servonode.plants import limits
from servonode.views.interpreter import fresh
from tests.helpers.runs import (
    MANY,
    OFTEN,
    RESTARTED,
    START_S,
    Runs,
    Watch,
    eventually,
    operator,
    private_runs,
    signalled,
    stopped_early,
)
from tests.safety import test_external, test_loopback, test_simulated

LAUNCH = "trailer_pursuit"
FILTER = (answers, fault_ladder, guard, input_limiter, limits, plant_output)  # before the plant
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


def names_in(module: ModuleType) -> set[str]:
    """The names of the tests in the module's one suite."""
    suites = [each for name, each in vars(module).items() if name.startswith("Test")]
    assert len(suites) == 1
    return {name for name in vars(suites[0]) if name.startswith("test_")}


# 9


def test_promise_09_a_speed_that_cannot_be_kept_is_a_fault(runs: Runs) -> None:
    # a million steps a second of plant time, twenty times as fast as the wall: more than a core can do
    settings = ("run.speed=20", "plant.step=1e-6", "plant.publish_every=10000", "run.duration=2000")
    run = runs.start(LAUNCH, *settings, "plant.safety.lateness_limit=0.2", words=("--every", "1000000"))
    run.ends_with(1, START_S)
    overrun = run.fault("overrun")
    assert "behind the clock: a step takes longer to compute than it lasts; lower run.speed" in overrun["text"]
    assert run.printed["overruns"] > 0
    assert [each["name"] for each in run.printed["faults"]] == ["overrun"]


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
    run = runs.start(LAUNCH, "run.speed=1", "run.duration=1", "plant.safety.command_timeout=0.1")
    run.ends_with(0, START_S)
    assert run.printed["faults"] == []
    assert run.printed["rate"] == pytest.approx(1.0, rel=0.01)
    assert run.printed["counts"].get("repeats", 0) < 20
    assert log.with_suffix(".shifted").read_text()
    assert not log.exists(), log.read_text()


# 13


def test_promise_13_what_a_dead_run_left_does_not_block_the_next(runs: Runs) -> None:
    run = runs.start(LAUNCH, "run.speed=1", "run.duration=60")
    run.wait_open()
    pids = [run.popen.pid, *run.pids().values()]
    for pid in pids:  # nobody is left to clear away
        signalled(pid, signal.SIGSTOP)
    for pid in reversed(pids):  # the launcher last: its death has the system wake stopped children, which clear away
        signalled(pid, signal.SIGKILL)
    run.popen.wait(START_S)
    left = {path.name for path in run.path.iterdir()}
    assert left >= {
        "lock",
        "registry.json",
        *(f"{node}.{kind}" for node in (TARGET, CONTROLLER, PLANT) for kind in ("pub", "req")),
    }
    again = runs.start(LAUNCH, "run.speed=2", "run.duration=0.5", name=run.name)
    again.ends_with(0, START_S)
    assert runs.left_files() == []


def test_promise_13_address_in_use_is_refused(runs: Runs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as ipc:
        path = str(runs.runtime / "taken")
        ipc.bind(path)
        ipc.listen()
        for address in (f"tcp://127.0.0.1:{tcp.getsockname()[1]}", f"ipc://{path}"):
            words = ["--insecure"] if address.startswith("tcp") else []
            run = runs.start("trailer_pursuit_external", f"plant.device.applied={address}", words=words)
            assert run.popen.wait(START_S) == 2
            (line,) = [each for each in run.stderr.splitlines() if "deriving" not in each]
            assert f"[plant.device] applied: {address} is in use by another process, such as another run; stop" in line


# 14


def test_promise_14_all_drivers_pass_the_same_tests() -> None:
    simulated, loopback, external = map(names_in, (test_simulated, test_loopback, test_external))
    assert simulated == loopback == external
    kept = {int(name.split("_")[2]) for name in simulated}
    assert kept == {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 17, 22, 23, 24, 25}


@pytest.mark.parametrize("module", FILTER, ids=lambda module: module.__name__)
def test_promise_14_the_filter_does_not_ask_for_the_driver(module: ModuleType) -> None:
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    words = [each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)]
    words += [each.id for each in ast.walk(tree) if isinstance(each, ast.Name)]
    words += [str(each.value) for each in ast.walk(tree) if isinstance(each, ast.Constant)]
    assert not {"driver", "loopback", "external"} & set(words)
    asked = [each for each in ast.walk(tree) if isinstance(each, ast.Assign) and "simulated" in ast.unparse(each)]
    branches = [each for each in ast.walk(tree) if isinstance(each, ast.If) and "simulated" in ast.unparse(each.test)]
    # two places, neither of which spares a simulation a check: the state of a device is not known before it has
    # answered, and it is told once more what it holds already, so that it knows that somebody lives
    found = {ast.unparse(each) for each in (*asked, *(statement for each in branches for statement in each.body))}
    assert found <= {"self.state_unknown = not plant.simulated", "self._send()"}
    assert words.count("simulated") == len(asked) + len(branches) == (2 if module is plant_output else 0)


# 23


@pytest.fixture
def session_runs(tmp_path: Path) -> Iterator[Runs]:
    """Runs made where every process of this user finds them, whatever its environment."""
    with private_runs(tmp_path) as runs, pytest.MonkeyPatch.context() as patch:
        patch.delenv("XDG_RUNTIME_DIR")
        patch.delenv("TMPDIR")
        yield runs


@pytest.mark.parametrize("count", [3, pytest.param(MANY, marks=pytest.mark.slow)])
def test_promise_23_estop_from_a_service_or_in_the_first_ms(session_runs: Runs, count: int) -> None:
    run = session_runs.start(LAUNCH, "run.speed=1", "run.duration=6000", *RESTARTED, OFTEN)
    assert eventually(run.registry, START_S)
    bare = {word: os.environ[word] for word in ("PATH", "HOME")}
    done = operator("estop", run.name, env=bare, cwd="/")  # while its nodes are being started
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{run.name}: stopped (fault), confirmed; process {run.pids()[PLANT]} was signalled\n"
    run.wait_open()
    assert run.ask("status")["faults"][0]["name"] == "estop"
    run.kill(PLANT)  # its latch outlives it
    assert eventually(lambda: "plant was killed" in run.stderr and run.is_open())
    assert [each["name"] for each in run.ask("status")["faults"]] == ["estop"]
    assert "reset --estop" in operator("arm", run.name, env=bare).stderr
    assert operator("reset", "--estop", run.name, env=bare).stdout == f"{run.name}: inactive\n"
    time.sleep(0.2)
    rng = random.Random()
    for _ in range(count):
        stopped_early(run, rng)
    signalled(run.popen.pid, signal.SIGUSR1)  # the launcher passes it on
    assert eventually(lambda: run.ask("status")["lifecycle"] == "fault")
    run.stop()


# 16


@pytest.mark.parametrize(("speed", "timeout"), [(1.0, 0.0), (1.0, 10.1), (6.0, 60.1), (0.1, 1.1)])
def test_promise_16_a_watch_that_never_acts_is_refused(speed: float, timeout: float) -> None:
    options: dict[str, Any] = {"run__speed": speed, "plant__safety__command_timeout": timeout}
    with pytest.raises(LaunchError, match=r"without a watchdog; give more than 0.*plant\.safety\.unsafe = true"):
        servonode.load(LAUNCH, **options)
    servonode.load(LAUNCH, plant__safety__unsafe=True, **options)
    servonode.load(LAUNCH, run__speed=speed, plant__safety__command_timeout=10.0 * speed)


def test_promise_16_where_it_was_asked_for_every_line_says_so(runs: Runs) -> None:
    settings = ("plant.safety.command_timeout=0", "plant.safety.unsafe=true", "run.speed=1", "run.duration=60")
    run = runs.start(LAUNCH, *settings)
    run.wait_open()
    with Watch(run.name) as watch:
        watch.status("active")
        frozen = run.kill(CONTROLLER, signal.SIGSTOP)
        time.sleep(0.3)  # ten times the usual timeout
        assert watch.status(after=frozen + 3 * 10**8).lifecycle == "active"  # which is why it is called unsafe
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
    done = commanded("run", LAUNCH, "--set", "run.duration=0.5", "--no-report", "--name", "from-here")
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


@pytest.mark.parametrize("verb", ["run", "simulate", "check", "show"])
def test_promise_26_no_code_refuses_code_in_a_launch_file(
    tmp_path: Path, flag: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    (tmp_path / "evil.py").write_text(EVIL.format(flag=str(flag)) + MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    for key, reference in (
        ("plant.machine", "./evil.py:model"),
        ("plant.machine", "evil:model"),
        ("plant.machine", "servonode.cli.main:main"),
        ("controller.program", f"{tmp_path}/evil.py:program"),
        ("controller.program", "evil.deeper:program"),
    ):
        result = CliRunner().invoke(main, [verb, LAUNCH, "--no-code", "--set", f"{key}={reference}"])
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
        assert f"{key.partition('.')[2]}: '{reference}' is Python code, which --no-code" in result.stderr
        assert not flag.exists()
    table = {"run": {"duration": 1.0}, "plant": {"machine": lambda: flag.touch()}}
    with pytest.raises(LaunchError, match=r"is Python code, which --no-code \(code=False\) refuses"):
        servonode.load(table, code=False)
    assert not flag.exists()


def test_promise_26_without_code_everything_packaged_runs() -> None:
    assert servonode.simulate(LAUNCH, run__duration=0.1, code=False).t[-1] == pytest.approx(0.1)
    named = {"plant__machine": "servonode.plants.diff_drive_trailer:model"}
    named["controller__program"] = "servonode.controllers.diff_drive_trailer_pursuit:program"
    assert servonode.load(LAUNCH, code=False, **named).machine.description.name == "diff_drive_trailer"
