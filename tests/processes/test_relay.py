"""A run on two computers, as two runs on this one: each with its own folder of runs and its own keys."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servonode.bus.keys import KeyStore
from tests.helpers.ports import free_port
from tests.helpers.relays import LAUNCH
from tests.helpers.runs import Process, columns_of, operator, private_runtime

SHORT = ("run.duration=2", "run.speed=1", 'run.mode="lockstep"')
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
    done = operator("simulate", LAUNCH, "--out", str(tmp_path / "one.csv"), *every, *_set(*SHORT))
    assert done.returncode == 0, done.stderr
    one, two = columns_of(tmp_path / "one.csv"), runs[0].columns
    assert len(one["t"]) > 100
    states = [name for name in one if not name.startswith(("residual", "condition", "scale"))]  # which the desk has
    assert all(two[name].tobytes() == one[name].tobytes() for name in states)
    assert "the plant ran on the other computer" in runs[1].stderr
    assert runs[0].printed["ended"] == runs[1].printed["ended"] == "completed"
