"""Several robots on processes: the bits of a simulation, one start, and the fault of one stops all."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servonode.bus import BusError
from servonode.operator.find_runs import find_run, find_runs
from tests.helpers.refusals import command
from tests.helpers.runs import START_S, columns_of, eventually, operator, private_runs, signalled

ROBOTS = ("leader", "follower")


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path) -> Iterator[None]:
    """A folder for the runs of each test."""
    with private_runs(tmp_path):
        yield


class Convoy:
    """`servonode run trailer_convoy` in a process of its own."""

    def __init__(self, folder: Path, *words: str, duration: float = 300.0, mode: str = "realtime") -> None:
        self.name = f"convoy-{os.getpid()}-{time.monotonic_ns()}"
        command = [sys.executable, "-m", "servonode.cli.main", "run", "trailer_convoy", "--name", self.name]
        command += ["--no-report", "--json", "--set", f"run.duration={duration}", "--set", f"run.mode={mode}", *words]
        self._error = folder / "stderr"
        with self._error.open("w") as error:
            self.popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=error, text=True, cwd=folder)

    @property
    def stderr(self) -> str:
        return self._error.read_text()

    def pid(self, robot: str, node: str) -> int:
        """The process of a node, or with "launcher" the one that has forked it."""
        registry = find_run(f"{self.name}.{robot}").registry
        return int(registry["pid"] if node == "launcher" else registry["pids"][node])

    def is_open(self) -> bool:
        assert self.popen.poll() is None, self.stderr
        try:
            return all(find_run(f"{self.name}.{robot}").registry.get("open") for robot in ROBOTS)
        except BusError:
            return False

    def wait_open(self) -> None:
        assert eventually(self.is_open, START_S), self.stderr
        time.sleep(0.3)

    def end(self, code: int, within_s: float = START_S) -> Any:
        """What it has printed, once it has ended with this code and nothing of it is left."""
        printed, _ = self.popen.communicate(timeout=within_s)
        assert self.popen.returncode == code, self.stderr
        assert "Traceback" not in self.stderr, self.stderr
        assert find_runs() == {}
        return json.loads(printed)


def only_fault(result: Any, robot: str) -> tuple[str, str]:
    """Name and text of the last fault of a robot."""
    fault = result["robots"][robot]["faults"][-1]
    return fault["name"], fault["text"]


def test_lockstep_and_a_stop_in_it_have_the_bits_of_the_simulation(tmp_path: Path) -> None:
    settings = [f"run.{each}" for each in ("duration=30", "mode=lockstep", "lockstep_timeout=60")]
    settings += [f"robots.leader.plant.{each}" for each in ("sensor.noise=1e-4", "safety.state_limit={theta1 = 3.0}")]
    words = [word for each in settings for word in ("--set", each)]
    done = operator("run", "trailer_convoy", "--no-report", "--output", "run.csv", *words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "robot leader: implausible_state: " in done.stderr
    assert "all robots have stopped" in done.stderr
    assert command("simulate", "trailer_convoy", "--output", str(tmp_path / "simulated.csv"), *words).exit_code == 1
    for robot in ROBOTS:
        run, simulated = (columns_of(tmp_path / f"{mode}.{robot}.csv") for mode in ("run", "simulated"))
        assert run["t"][-1] > 4.0
        (compared,) = np.nonzero(run["t"] <= 4.0)
        for name in run:  # a controller on a process answers also the state at which the leader's plant finds its fault
            end = len(compared) if name.startswith("residual_") and robot == "leader" else None
            assert run[name][:end].tobytes() == simulated[name][:end].tobytes(), name


def test_a_killed_controller_stops_both_and_is_named(tmp_path: Path) -> None:
    both_stop_where_a_controller_is_killed(tmp_path, *ROBOTS, "lockstep", "node_died")


def both_stop_where_a_controller_is_killed(folder: Path, robot: str, other: str, mode: str, fault: str) -> None:
    convoy = Convoy(folder, mode=mode, duration=100000.0)
    convoy.wait_open()
    signalled(convoy.pid(robot, "controller"), signal.SIGKILL)
    result = convoy.end(1)
    assert fault in [each["name"] for each in result["robots"][robot]["faults"]]
    name, text = only_fault(result, other)
    assert name == "robot"
    assert text.startswith(f"robot {robot} has stopped: ")
    assert result["cause"].startswith(f"robot {robot}: ")
