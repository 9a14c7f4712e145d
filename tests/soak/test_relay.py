"""A run on two computers, as two runs on this one: each with its own folder of runs and its own keys."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from servonode.bus.keys import KeyStore
from tests.helpers.ports import free_port
from tests.helpers.relays import LAUNCH
from tests.helpers.runs import END_S, START_S, Process, columns_of, eventually, operator, private_runtime, state_of

SHORT = ("run.duration=2", "run.speed=1", 'run.mode="lockstep"')
REAL_TIME = ("run.duration=600", "run.speed=1", 'run.mode="realtime"', 'plant.safety.on_fault="wait"')
PATIENT = "plant.safety.command_timeout_floor=0.3"  # this computer may be busy
ROBOT, DESK = ("controller", "operate", "observe"), ("plant",)


class Side:
    """One of the two computers."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.runtime = private_runtime()
        self.place = str(self.runtime.__enter__())
        self.keys = KeyStore(folder / "keys")
        self.key = self.keys.new(name)
        self.run: Process | None = None

    def enter(self, patch: pytest.MonkeyPatch) -> None:
        """This process looks for runs and keys there from now on, and starts them there."""
        patch.setenv("XDG_RUNTIME_DIR", self.place)
        patch.setenv("SERVONODE_KEYS", str(self.folder / "keys"))


class Computers:
    """Robot and desk, and the run that they share."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.sides = {}
        for name in ("robot", "desk"):
            (folder / name).mkdir()
            self.sides[name] = Side(folder / name, name)
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.started: list[Process] = []

    def trust(self, robot_trusts: tuple[str, ...] = ROBOT) -> None:
        """Let each have the other's key."""
        robot, desk = self.sides["robot"], self.sides["desk"]
        if robot_trusts:
            robot.keys.trust(desk.key, robot_trusts)
        desk.keys.trust(robot.key, DESK)

    def at(self, name: str) -> Side:
        """The side at which this process now is."""
        self.sides[name].enter(self._patch)
        return self.sides[name]

    def start(self, name: str, *settings: str, words: tuple[str, ...] = ()) -> Process:
        """The part of the run of one side."""
        side = self.at(name)
        words = (*words, "--on", "127.0.0.1") if name == "robot" else words
        hosts = (f"hosts.plant={self.address}", "hosts.key=robot")
        side.run = Process(
            side.folder, LAUNCH, *settings, *hosts, words=words, name=f"{name}-{os.getpid()}-{len(self.started)}"
        )
        self.started.append(side.run)
        return side.run

    def both(self, *settings: str, words: tuple[str, ...] = ()) -> tuple[Process, Process]:
        """Both parts, once all nodes have been started."""
        made = self.start("robot", *settings, words=words), self.start("desk", *settings, words=words)
        for name, run in zip(("robot", "desk"), made, strict=True):
            self.at(name)
            run.wait_open()
        return made

    def ask(self, name: str, word: str, node: str = "plant") -> dict[str, Any]:
        """The answer of a node, asked on this side."""
        run = self.at(name).run
        assert run is not None
        return run.ask(word, node)

    def end(self) -> None:
        """Kill what is left."""
        for run in self.started:
            run.end()
        for side in self.sides.values():
            side.runtime.__exit__(None, None, None)


@pytest.fixture
def computers(tmp_path: Path) -> Iterator[Computers]:
    with pytest.MonkeyPatch.context() as patch:
        made = Computers(tmp_path, patch)
        try:
            yield made
        finally:
            made.end()


def _set(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def test_lockstep_over_two_computers_has_the_bits_of_one(computers: Computers, tmp_path: Path) -> None:
    computers.trust()
    every = ("--every", "1")
    runs = computers.start("robot", *SHORT, words=every), computers.start("desk", *SHORT, words=every)
    for name, run in zip(("robot", "desk"), runs, strict=True):
        computers.at(name)
        run.ends_with(0)
    done = operator("simulate", LAUNCH, "--output", str(tmp_path / "one.csv"), *every, *_set(*SHORT))
    assert done.returncode == 0, done.stderr
    one, two = columns_of(tmp_path / "one.csv"), runs[0].columns
    assert len(one["t"]) > 100
    states = [name for name in one if not name.startswith(("residual", "condition", "scale"))]  # which the desk has
    assert all(two[name].tobytes() == one[name].tobytes() for name in states)
    assert "the plant ran on the other computer" in runs[1].stderr
    assert runs[0].printed["ended"] == runs[1].printed["ended"] == "completed"


def test_a_run_in_real_time_is_operated_from_either_computer(computers: Computers) -> None:
    computers.trust()
    robot, desk = computers.both(*REAL_TIME, PATIENT)
    for asked, other in (("desk", "robot"), ("robot", "desk")):
        assert eventually(lambda: computers.ask("robot", "status")["lifecycle"] == "active"), robot.stderr
        run = computers.at(asked).run
        assert run is not None
        done = operator("estop", run.name)
        assert done.returncode == 0, done.stderr
        assert computers.ask(asked, "estop")["lifecycle"] == "fault"
        assert [each["name"] for each in computers.ask(other, "status")["faults"]] == ["estop"]
        assert computers.ask(other, "reset_estop").get("done")
        assert eventually(lambda asked=asked: computers.ask(asked, "arm").get("done"))  # type: ignore[misc]
    status = computers.ask("desk", "status", "relay")
    assert status["lifecycle"] == "active"
    assert abs(status["values"]["offset_s"]) <= status["values"]["offset_error_s"] + 1e-6  # one clock
    assert 0 < status["values"]["delay_s"] < 0.1
    _record_the_desk(computers, desk)
    for side in ("robot", "desk"):
        _kill_the_relay(computers, side)
    os.kill(robot.popen.pid, signal.SIGINT)
    computers.at("robot")
    robot.ends_with(130)
    computers.at("desk")
    assert desk.popen.wait(END_S) in (0, 1), desk.stderr
    assert "the plant ran on the other computer" in desk.stderr


def _record_the_desk(computers: Computers, desk: Process) -> None:
    """All nodes are recorded there, the plant with times of the desk's clock; without these, nothing is measured."""
    computers.at("desk")
    assert desk.registry()["elsewhere"] == ["plant"]
    file = desk.csv.with_suffix(".mcap")
    command = [sys.executable, "-m", "servonode.cli.main", "record", desk.name, "--output", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=START_S)
    assert process.returncode in (0, 1), said  # 1: a busy host has made it miss messages
    topics = set(json.loads(operator("bag", "info", str(file), "--json").stdout)["topics"])
    assert {"relay/status", "controller/command", "target/target", "plant/state"} <= topics
    done = operator("topic", "delay", desk.name, "plant/state")
    assert done.returncode == 2, done.stderr
    assert "plant/state: the plant runs on another computer, which has another clock; ask there" in done.stderr


def _kill_the_relay(computers: Computers, side: str) -> None:
    """Another one takes its place, and the plant, safe meanwhile, can be armed again."""
    run = computers.at(side).run
    assert run is not None
    assert eventually(lambda: computers.ask("robot", "status")["lifecycle"] == "active"), run.stderr
    computers.at(side)
    before = run.pids()["relay"]
    run.kill("relay")
    assert eventually(lambda: run.pids()["relay"] != before and run.is_open()), run.stderr
    assert state_of(before) == ""
    assert eventually(lambda: _active_again(computers)), run.stderr


def _active_again(computers: Computers) -> bool:
    """Whether the desk sees an active plant; one that has missed commands is armed again."""
    with suppress(TimeoutError):  # a request was on its way to the relay that is dead
        stands = computers.ask("desk", "status").get("lifecycle")
        if stands == "active":
            return True
        computers.ask("desk", "reset" if stands == "fault" else "arm")
    return False


def test_what_may_not_take_part_is_refused_while_the_robot_goes_on_waiting(computers: Computers) -> None:
    computers.trust(("observe",))
    robot = computers.start("robot", *SHORT)
    desk = computers.start("desk", *SHORT)
    desk.ends_with(2)
    assert "key 'desk' is not trusted as controller by the computer that refuses" in desk.stderr
    computers.sides["robot"].keys.revoke("desk")
    desk = computers.start("desk", *SHORT, "run.duration=1")
    assert eventually(lambda: "the other computer does not trust our key 'desk'" in desk.stderr, START_S), desk.stderr
    computers.trust()
    desk.ends_with(2)
    assert "[run] duration is 1" in desk.stderr
    assert "2" in desk.stderr.partition("[run] duration is 1")[2]
    computers.at("robot")
    assert robot.popen.poll() is None
    assert "waiting for another attempt" in robot.stderr
    desk = computers.start("desk", *SHORT)
    desk.ends_with(0)
    computers.at("robot")
    robot.ends_with(0)
