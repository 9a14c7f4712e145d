"""`servonode goal` and `servonode.publish_goal` without a run, and the example of a gamepad without a gamepad."""

import runpy
from pathlib import Path

import pytest

import servonode
from tests.helpers.refusals import refused_command
from tests.helpers.runs import private_runtime

GAMEPAD = Path(__file__).parents[2] / "examples" / "goals" / "gamepad.py"


def test_a_goal_for_a_run_that_is_not_there_is_one_line() -> None:
    with private_runtime():
        assert "no run is in progress; start one with servonode run FILE" in refused_command("goal", "v=0.1")
        assert "no run named 'nowhere' is in progress" in refused_command("goal", "v=0.1", "nowhere")
        with pytest.raises(servonode.ServonodeError, match="no run named 'nowhere' is in progress"):
            servonode.publish_goal("nowhere", v=0.1)


def test_a_gamepad_that_cannot_be_read_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(GAMEPAD), "/dev/input/nothing_there"])
    with pytest.raises(SystemExit, match=r"needs evdev, which is not installed|nothing_there: no device"):
        runpy.run_path(str(GAMEPAD), run_name="__main__")
