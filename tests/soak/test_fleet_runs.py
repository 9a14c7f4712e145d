"""Several robots on processes: the bits of a simulation, one start, and the fault of one stops all."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from servonode.operator.find_runs import find_runs
from tests.helpers.runs import END_S, eventually, operator, private_runs, signalled
from tests.processes.test_fleet_runs import ROBOTS, Convoy, only_fault


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path) -> Iterator[None]:
    """A folder for the runs of each test."""
    with private_runs(tmp_path):
        yield


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_plant_that_is_gone_or_hangs_stops_the_other(tmp_path: Path, number: int) -> None:
    convoy = Convoy(tmp_path)
    convoy.wait_open()
    signalled(convoy.pid("leader", "plant"), number)
    result = convoy.end(1)
    name, text = only_fault(result, "follower")
    assert name == "robot"
    assert text.startswith("robot leader ")


def test_a_killed_launcher_stops_both(tmp_path: Path) -> None:
    convoy = Convoy(tmp_path)
    convoy.wait_open()
    signalled(convoy.pid("follower", "launcher"), signal.SIGKILL)
    result = convoy.end(1)
    assert result["robots"]["follower"] is None
    assert only_fault(result, "leader")[0] == "robot"
    assert "the launcher of follower was killed by SIGKILL" in convoy.stderr


def test_the_death_of_the_whole_command_ends_the_robots(tmp_path: Path) -> None:
    convoy = Convoy(tmp_path)
    convoy.wait_open()
    signalled(convoy.popen.pid, signal.SIGKILL)
    convoy.popen.communicate(timeout=END_S)
    assert eventually(lambda: find_runs() == {}, END_S)


def test_ctrl_c_ends_both_as_broken_off(tmp_path: Path) -> None:
    convoy = Convoy(tmp_path)
    convoy.wait_open()
    convoy.popen.send_signal(signal.SIGINT)
    assert convoy.end(130)["exit"] == 130


def test_a_name_that_is_taken_is_refused_and_the_other_robot_does_not_begin(tmp_path: Path) -> None:
    convoy = Convoy(tmp_path, mode="lockstep", duration=100000.0)  # which no busy computer ends
    convoy.wait_open()
    done = operator("run", "trailer_convoy", "--name", convoy.name, "--no-report", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    held = [f"run '{convoy.name}.{robot}' is held by process" in done.stderr for robot in ROBOTS]
    assert any(held), done.stderr  # the first refusal ends the other launcher
    assert "Traceback" not in done.stderr
    assert convoy.popen.poll() is None
    convoy.popen.send_signal(signal.SIGINT)
    convoy.end(130)


@pytest.mark.parametrize("mode", ["lockstep", "realtime"])
def test_a_pause_of_one_is_one_of_all_and_no_silence(tmp_path: Path, mode: str) -> None:
    convoy = Convoy(tmp_path, mode=mode, duration=100000.0)
    convoy.wait_open()

    def times() -> list[tuple[bool, float]]:
        done = operator("status", convoy.name, "--json")
        assert done.returncode == 0, done.stderr
        plants = [json.loads(line)["nodes"]["plant"] for line in done.stdout.splitlines()]
        return [(plant["paused"], plant["t"]) for plant in plants]

    printed = []
    for words in (("pause",), ("step", "5")):
        done = operator(*words, convoy.name, "--json")
        assert done.returncode == 0, done.stderr
        leader, follower = [json.loads(line)["t"] for line in done.stdout.splitlines()]
        assert leader == follower
        printed.append(leader)
    assert printed[1] - printed[0] == pytest.approx(0.05)
    time.sleep(1.5)  # s: longer than a robot waits for a silent one
    assert times() == [(True, printed[1])] * 2
    refused = operator("pause", f"{convoy.name}.leader")
    assert (refused.returncode, "the run is paused already" in refused.stderr) == (1, True)
    done = operator("resume", f"{convoy.name}.leader")
    assert done.returncode == 0, done.stderr
    assert eventually(lambda: all(not paused and t > printed[1] for paused, t in times()))
    convoy.popen.send_signal(signal.SIGINT)
    convoy.end(130)


def test_what_is_for_one_robot_names_those_of_the_launch(tmp_path: Path) -> None:
    convoy = Convoy(tmp_path, mode="lockstep", duration=100000.0)
    convoy.wait_open()
    for words in (
        ("goal", "x=1.0", convoy.name),
        ("fault", convoy.name, "drive", "off"),
        ("param", "list", convoy.name),
    ):
        done = operator(*words)
        assert done.returncode == 2, done.stderr
        assert (
            f"{convoy.name} has several robots; name one of {convoy.name}.follower, {convoy.name}.leader" in done.stderr
        )
    convoy.popen.send_signal(signal.SIGINT)
    convoy.end(130)


def test_an_emergency_stop_of_one_is_one_of_all_and_both_go_on_after_it(tmp_path: Path) -> None:
    convoy = Convoy(tmp_path)
    convoy.wait_open()
    assert operator("estop", f"{convoy.name}.leader").returncode == 0

    def stopped() -> bool:
        return operator("status", f"{convoy.name}.follower").stdout.count("estop") > 0

    assert eventually(stopped)
    refused = operator("arm", f"{convoy.name}.follower")
    assert refused.returncode == 1
    assert "reset" in refused.stderr
    time.sleep(2.0)  # s: the safe action of 5 s of plant time
    for words in (("reset", "--estop"), ("arm",)):
        done = operator(*words, convoy.name)
        assert done.returncode == 0, done.stderr
    convoy.popen.send_signal(signal.SIGINT)
    convoy.end(130)


def test_one_recording_replays_bit_by_bit(tmp_path: Path) -> None:
    settings = "--set", "run.duration=1", "--set", "run.mode=lockstep"
    done = operator("run", "trailer_convoy", "--no-report", "--record", "convoy.mcap", *settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [file.name for file in tmp_path.glob("*.mcap*")] == ["convoy.mcap"]
    done = operator("replay", "convoy.mcap", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["robots"]
    assert [(each["compared"], each["differing"]) for each in found.values()] == [(101, 0), (101, 0)]
    done = operator("bag", "info", "convoy.mcap", cwd=tmp_path)
    assert done.returncode == 2
    assert "convoy.mcap: the recording of 2 robots; name one, as convoy.mcap/leader" in done.stderr
    done = operator("bag", "info", "convoy.mcap/last", cwd=tmp_path)
    assert "the recording has no robot 'last'; choose leader, follower" in done.stderr
