"""`servonode topic` and `node`: what a real run publishes and is made of, and that it never waits for them."""

import csv
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.cli.test_topic import ECHO, TOPICS, refused
from tests.helpers.refusals import command
from tests.helpers.runs import END_S, Process, eventually, private_runs

FORGIVING = ("run.speed=1", "run.duration=600", "plant.safety.command_timeout_floor=5")  # a busy host is not tested
FROZEN_S = 4.0  # in which the plant publishes more than the system's buffers and those of the echo hold


@contextmanager
def began(*words: str, of: tuple[str, ...] = ECHO) -> Iterator["subprocess.Popen[str]"]:
    """The command in a process of its own, once it has printed a line; killed at the end."""
    typed = [sys.executable, "-m", "servonode.cli.main", *of, *words]
    with subprocess.Popen(typed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def lines(*words: str) -> list[str]:
    """What a command prints that succeeds without a word on standard error."""
    result = command(*words)
    assert (result.exit_code, result.stderr) == (0, ""), result
    return result.stdout.splitlines()


def report(*words: str, after: str) -> tuple[str, str]:
    """Two lines of a command that reports once a second until it is interrupted, from one that holds `after` on."""
    with began(*words, of=("topic",)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        found = next(line for line in process.stdout if after in line)
        second = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(END_S) == 130
        assert process.stderr.read() == "servonode: interrupted\n"
        return found, second


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A run in progress, which all tests look at; the last one ends it."""
    with private_runs(tmp_path_factory.mktemp("topic")) as runs:
        run = runs.start("trailer_pursuit", "plant.publish_every=1", *FORGIVING)
        run.wait_open()
        yield run


def test_messages_are_printed_as_they_come(run: Process) -> None:
    states = [json.loads(line) for line in lines(*ECHO, "plant/state", "-n", "3", "--json")]
    assert [state["seq"] - states[0]["seq"] for state in states] == [0, 1, 2]
    assert {(state["topic"], state["node"], state["t"] == state["k"] / 1000) for state in states} == {
        ("state", "plant", True)
    }
    assert states[0]["state"].keys() == {"X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2"}

    printed = lines(*ECHO, run.name, "status", "-n", "9")
    assert {line.split()[0] for line in printed} == {"plant/status", "controller/status", "target/status"}
    assert all(' lifecycle="active" ' in line and " t=" in line for line in printed)

    choices = (
        "choose applied, command, estimate, parameters, report, state, status, target, or one node's: target/target, "
    )
    assert f"topic 'plant/command' is not published in this run; {choices}" in refused("plant/command")
    assert refused("nowhere", "state").startswith("no run named 'nowhere' is in progress; choose ")


def test_topics_and_nodes_of_a_run_are_shown_in_the_words_of_ros2(run: Process) -> None:
    assert lines("topic", "list") == list(TOPICS)
    assert "plant/state [State]" in lines("topic", "list", run.name, "-t")
    assert "plant/state [State] to controller: The state of the plant, measured at step `k`." in lines(
        "topic", "list", "-v"
    )
    assert [each["name"] for each in json.loads("".join(lines("topic", "list", "--json")))] == list(TOPICS)
    shown = lines("topic", "info", run.name, "status")
    assert shown[:4] == [
        "Type: Status",
        "A node's lifecycle state, its fault, and its counters.",
        "Publisher count: 3 (controller, plant, target)",
        "Subscription count: 3 (launcher, target, controller)",
    ]
    (described,) = json.loads("".join(lines("topic", "info", "plant/state", "--json")))
    assert described["publishers"] == ["plant"]
    assert described["fields"][0] == {"name": "t", "kind": "number", "unit": "s", "what": "plant time"}
    assert lines("node", "list") == ["controller", "plant", "target"]
    plant = lines("node", "info", run.name, "plant")
    assert plant[:3] == ["plant", f"  Process: {run.pids()['plant']}", "  Lifecycle: active"]
    assert {"    controller/command: Command", "    plant/applied: Applied", "    estop"} <= set(plant)
    assert "has no node 'plan'; did you mean plant? choose controller, plant, target" in refused(
        "plan", of=("node", "info")
    )

    assert float(*lines(*ECHO, "state", "--field", "state.V", "--once")) == pytest.approx(0.0, abs=2.0)
    header, *rows = csv.reader(lines(*ECHO, "state", "--csv", "--field", "t", "--field", "state", "-n", "3"))
    assert header[:3] == ["t", "state.X", "state.Y"]
    assert [float(row[0]) - float(rows[0][0]) for row in rows] == pytest.approx([0.0, 0.001, 0.002])
    header, row = csv.reader(lines(*ECHO, "plant/state", "--csv", "--once"))
    assert dict(zip(header, row, strict=True))["node"] == "plant"
    assert json.loads(*lines(*ECHO, "state", "--json", "--field", "node", "--once")) == {"node": "plant"}
    assert lines(*ECHO, "state", "--field", "node", "--field", "final", "--once") == ['node="plant" final=false']
    problem = "there is no field 'state.Vv'; did you mean state.V? Choose t, seq, run, k, mono, node, src, state.X, "
    assert refused("state", "--field", "state.Vv").startswith(problem)

    asked = (
        ("average rate: ", "hz", "plant/state", "--window", "200"),
        ("/s from ", "bw", "state"),
        ("average delay: ", "delay", run.name, "state", "--window", "50"),
        ("plant/status average rate: ", "hz", "status"),
    )
    with ThreadPoolExecutor() as pool:
        rate, size, delay, slow = pool.map(lambda each: report(*each[1:], after=each[0]), asked)
    average, spread = rate
    assert float(average.removeprefix("average rate: ")) == pytest.approx(1000.0, rel=0.1)
    assert re.fullmatch(r"\tmin: \d\.\d{3}s max: \d\.\d{3}s std dev: \d\.\d{5}s window: 200\n", spread)
    average, spread = size
    assert re.fullmatch(r"\d+\.\d\d KB/s from 100 messages\n", average)
    assert re.fullmatch(r"\tMessage size mean: \d+ B min: \d+ B max: \d+ B\n", spread)
    average, spread = delay
    assert 0.0 < float(average.removeprefix("average delay: ")) < END_S  # of a busy computer
    assert spread.endswith(" window: 50\n")
    average, _ = slow
    assert float(average.rpartition(" ")[2]) == pytest.approx(5.0, rel=0.2)


def test_a_run_does_not_wait_for_an_echo_that_is_frozen_or_closed(run: Process) -> None:
    with began("state") as frozen, began("state") as cut:
        assert cut.stdout is not None
        assert cut.stderr is not None
        cut.stdout.close()
        assert cut.wait(END_S) == 0
        assert cut.stderr.read() == ""
        frozen.send_signal(signal.SIGSTOP)
        begin = run.ask("status")["t"]
        assert eventually(lambda: run.ask("status")["t"] > begin + FROZEN_S, END_S)
    stands = run.ask("status")
    assert (stands["lifecycle"], stands["values"]["rate"]) == ("active", pytest.approx(1.0, abs=0.05))


def test_what_follows_a_run_ends_with_it_or_by_an_interrupt(run: Process) -> None:
    with (
        began(run.name, "state") as interrupted,
        began("plant/status", "--json") as left,
        began("state", of=("topic", "hz")) as rate,
        began("--watch", of=("status",)) as watch,
        began("--watch", "--json", of=("status",)) as cut,
        began("--watch", of=("status",)) as stopped,
    ):
        stopped.send_signal(signal.SIGINT)
        assert stopped.wait(END_S) == 130
        assert stopped.stderr is not None
        assert stopped.stderr.read() == "servonode: interrupted\n"
        assert cut.stdout is not None
        assert json.loads(cut.stdout.readline())["run"] == run.name
        cut.stdout.close()
        assert cut.wait(END_S) == 0
        assert cut.stderr is not None
        assert cut.stderr.read() == ""
        interrupted.send_signal(signal.SIGINT)
        assert interrupted.wait(END_S) == 130
        run.stop()
        out, err = left.communicate(timeout=END_S)
        assert (left.returncode, err) == (0, "")
        assert json.loads(out.splitlines()[-1])["lifecycle"] == "finished"
        shown, said = watch.communicate(timeout=END_S)
        assert (watch.returncode, said) == (0, f"{run.name}: the run has ended\n")
        assert all(line.startswith(f"{run.name}   plant: ") for line in shown.splitlines())
        assert rate.stderr is not None
        assert (rate.wait(END_S), rate.stderr.read()) == (0, "")
