"""`servonode goal`, `servonode.publish_goal` and the programs of examples/goals beside a run, two runs, and none."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import servonode
from tests.helpers.runs import START_S, Runs, operator, private_runs

GOALS = Path(__file__).parents[2] / "examples" / "goals"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with private_runs(tmp_path_factory.mktemp("runs")) as runs:
        yield runs


def line(*words: str, code: int) -> str:
    """What `servonode goal` prints: one line."""
    done = operator("goal", *words)
    assert (done.returncode, bool(done.stdout)) == (code, code == 0), done.stderr
    (only,) = (done.stdout or done.stderr).splitlines()
    return only


@pytest.mark.usefixtures("runs")
def test_a_goal_for_a_run_that_is_not_there_is_one_line() -> None:
    assert "no run is in progress; start one with servonode run FILE" in line("v=0.1", code=2)
    assert "no run named 'nowhere' is in progress" in line("v=0.1", "nowhere", code=2)
    with pytest.raises(servonode.ServonodeError, match="no run named 'nowhere' is in progress"):
        servonode.publish_goal("nowhere", v=0.1)


def example(name: str, *words: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(GOALS / name), *words], text=True, stderr=subprocess.PIPE, **more)


def test_a_gamepad_that_cannot_be_read_is_one_line() -> None:
    process = example("gamepad.py", "/dev/input/nothing_there")
    _, said = process.communicate(timeout=START_S)
    assert process.returncode == 1
    (only,) = said.splitlines()
    assert only.startswith(
        ("gamepad.py needs evdev, which is not installed here", "/dev/input/nothing_there: no device")
    )
