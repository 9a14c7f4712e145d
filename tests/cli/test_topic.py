"""`servonode topic echo`: what a real run publishes, line by line, and that the run never waits for it."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.runs import END_S, Runs, eventually, operator, private_runs

ECHO = ("topic", "echo")
FROZEN_S = 4.0  # in which the plant publishes more than the system's buffers and those of the echo hold
FORGIVING = ("run.speed=1", "run.duration=600", "plant.safety.command_timeout_floor=5")  # a busy host is not tested


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    with private_runs(tmp_path) as runs:
        yield runs


@contextmanager
def began(*words: str) -> Iterator["subprocess.Popen[str]"]:
    """The command in a process of its own, once it has printed a line; killed at the end."""
    command = [sys.executable, "-m", "servonode.cli.main", *ECHO, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def refused(*words: str) -> str:
    """The one line with which the command is refused."""
    result = operator(*ECHO, *words)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.stderr
    return result.stderr.removeprefix("servonode: ").rstrip()


def test_a_run_is_heard_topic_by_topic_until_it_ends(runs: Runs) -> None:
    assert refused("state") == "no run is going on; start one with servonode run FILE"
    run = runs.start("trailer_pursuit", *FORGIVING)
    run.wait_open()

    result = operator(*ECHO, "plant/state", "-n", "3", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    states = [json.loads(line) for line in result.stdout.splitlines()]
    assert [state["seq"] - states[0]["seq"] for state in states] == [0, 1, 2]
    assert {(state["topic"], state["node"], state["t"] == state["k"] / 1000) for state in states} == {
        ("state", "plant", True)
    }
    assert states[0]["state"].keys() == {"X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2"}

    result = operator(*ECHO, run.name, "status", "-n", "9")
    assert {line.split()[0] for line in result.stdout.splitlines()} == {
        "plant/status", "controller/status", "target/status",
    }  # fmt: skip
    assert all(' lifecycle="active" ' in line and " t=" in line for line in result.stdout.splitlines())

    choices = "choose applied, command, report, state, status, target, or one node's: target/target, "
    assert f"topic 'plant/command' is not published in this run; {choices}" in refused("plant/command")
    assert refused("nowhere", "state").startswith("no run named 'nowhere' is going on; going on: ")

    with began(run.name, "state") as interrupted, began("plant/status", "--json") as left:
        interrupted.send_signal(signal.SIGINT)
        assert interrupted.wait(END_S) == 130
        run.stop()
        out, err = left.communicate(timeout=END_S)
        assert (left.returncode, err) == (0, "")
        assert json.loads(out.splitlines()[-1])["lifecycle"] == "finished"


def test_a_run_does_not_wait_for_an_echo_that_is_frozen(runs: Runs) -> None:
    run = runs.start("trailer_pursuit", "plant.publish_every=1", *FORGIVING)
    run.wait_open()
    with began("state") as echo:
        echo.send_signal(signal.SIGSTOP)
        begin = run.ask("status")["t"]
        assert eventually(lambda: run.ask("status")["t"] > begin + FROZEN_S, END_S)
    stands = run.ask("status")
    assert (stands["lifecycle"], stands["values"]["rate"]) == ("active", pytest.approx(1.0, abs=0.05))
    run.stop()
