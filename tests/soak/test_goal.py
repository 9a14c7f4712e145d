"""`servonode goal`, `servonode.publish_goal` and the programs of examples/goals beside a run, two runs, and none."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import servonode
from servonode.bus.topology import TARGET
from servonode.operator.operator_requests import OperatorError
from tests.helpers.runs import START_S, Process, Runs, eventually, operator, private_runs

GOALS = Path(__file__).parents[2] / "examples" / "goals"
FORGIVING = ("plant.safety.command_timeout=0.5", "run.duration=600")


def line(*words: str, code: int) -> str:
    """What `servonode goal` prints: one line."""
    done = operator("goal", *words)
    assert (done.returncode, bool(done.stdout)) == (code, code == 0), done.stderr
    (only,) = (done.stdout or done.stderr).splitlines()
    return only


def example(name: str, *words: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(GOALS / name), *words], text=True, stderr=subprocess.PIPE, **more)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with private_runs(tmp_path_factory.mktemp("runs")) as runs:
        yield runs


@pytest.fixture(scope="module")
def driven(runs: Runs) -> Process:
    """A run that takes a speed and a yaw rate."""
    run = runs.start(str(GOALS / "teleop.toml"), *FORGIVING, name="driven")
    run.wait_open()
    assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S)
    return run


@pytest.mark.parametrize(("words", "code", "said"), [
    (("v=0.1", "omega=-0.1", "driven"), 0, "driven: v = 0.1, omega = -0.1 from t = "),
    (("v=1.5", "driven"), 1, "servonode: v = 1.5 is beyond its range; give a value from -0.5 to 0.5"),
    (("speed=1", "driven"), 1, "servonode: 'speed' cannot be given: it is no target of this run; choose v, omega"),
    (("v=nan", "driven"), 2, "servonode: v=nan is not a number; give one in SI units, as v=1.5; see"),
    (("v=", "driven"), 2, "servonode: v= is not a number"), (("=1", "driven"), 1, "'' cannot be given"),
    (("driven",), 2, "give one or more NAME=VALUE and at most one RUN"),
    (("v=0.1", "driven", "other"), 2, "give one or more NAME=VALUE and at most one RUN"),
    (("v=0.1", "v=0.2", "driven"), 2, "a name is given twice; give each target one value"),
])  # fmt: skip
def test_a_goal_is_followed_or_refused_in_one_line(driven: Process, words: Any, code: int, said: str) -> None:
    assert driven.popen.poll() is None
    assert said in line(*words, code=code)


def test_a_goal_from_python_is_followed_from_the_time_that_it_returns(driven: Process) -> None:
    t = servonode.publish_goal("driven", v=0.1)
    assert servonode.publish_goal("driven", v=0.1, omega=0) >= t > 0
    for wrong in (float("nan"), "fast", None, 10**400):
        with pytest.raises(OperatorError, match="is not a finite number"):
            servonode.publish_goal("driven", v=wrong)  # type: ignore[arg-type]
    with pytest.raises(OperatorError, match="no goal is given; choose v, omega"):
        servonode.publish_goal("driven")
    assert driven.ask("status", TARGET)["counts"]["refused_goals"] >= 1


def test_goals_that_are_functions_of_time_are_refused(runs: Runs, driven: Process) -> None:
    known = runs.start("trailer_pursuit", "plant.safety.command_timeout=0.5", name="known")
    known.wait_open()
    assert "no goal of this run comes from outside; state one so in its launch file" in line("x=1", "known", code=1)
    assert "several runs are in progress; name one of driven, known" in line("x=1", code=2)
    coasting = runs.start("trailer_coast", "run.mode=realtime", "run.duration=600", name="coasting")
    coasting.wait_open()
    assert "coasting has no controller, and so no goal" in line("x=1", "coasting", code=1)
    for each in (known, coasting):
        each.stop()
    assert driven.popen.poll() is None


def test_a_command_of_others_that_speaks_of_the_run_is_none_of_its_processes(driven: Process) -> None:
    with subprocess.Popen(["sh", "-c", "read line # servonode run driven"], stdin=subprocess.PIPE) as other:
        found = driven.left_over()
        other.communicate()
    assert driven.popen.pid in found
    assert other.pid not in found


def test_keys_in_a_terminal_drive_the_robot_until_the_key_that_ends_it(driven: Process) -> None:
    silent = example("keyboard.py", stdin=subprocess.DEVNULL)
    assert "standard input is a file or a pipe" in silent.communicate(timeout=START_S)[1]
    ours, theirs = pty.openpty()
    process = example("keyboard.py", stdin=theirs)
    try:

        def drives() -> bool:
            os.write(ours, b"w")
            return bool(driven.ask("status", TARGET)["held"] == "")

        assert eventually(drives, START_S)
        os.write(ours, b"q")
        assert process.wait(START_S) == 0
        assert eventually(lambda: driven.ask("status", TARGET)["held"].startswith("no v has come for 0.3 s"))
    finally:
        process.kill()
        process.communicate()
        os.close(ours)
        os.close(theirs)
