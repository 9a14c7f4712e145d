"""Numbers of a run in progress: which may change, how new ones are judged, from which step they act, what replays."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import servonode
from servonode.bus.topology import CONTROLLER, PLANT, SET, TARGET
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.launch_file import numbers_in, read_launch
from servonode.closed_loop.parameters import numbers_of, parameters_of
from servonode.operator.operator_requests import OperatorError, ask
from servonode.operator.run_parameters import RunParameters
from servonode.record.bag import read_bag
from servonode.simulation.replay import replay
from tests.helpers.refusals import command, refused_command
from tests.helpers.runs import Process, Runs, eventually, private_runs
from tests.processes.test_run_parameters import LOCKSTEP, PACED, run_and_change


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    monkeypatch.setattr("servonode.operator.operator_requests.ANSWER_S", 20.0)  # however busy the computer is
    with private_runs(tmp_path) as started:
        yield started


# a run


@pytest.mark.parametrize("settings", [PACED, LOCKSTEP], ids=["realtime", "lockstep"])
def test_no_invalid_change_acts_and_each_valid_one_acts_at_its_step(runs: Runs, settings: list[str]) -> None:
    run_and_change(runs, settings, 1, 25)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [PACED, LOCKSTEP], ids=["realtime", "lockstep"])
def test_a_thousand_changes_at_random(runs: Runs, settings: list[str]) -> None:
    run_and_change(runs, settings, 2, 500, speed=1.0)  # fewer steps to replay than with all that lockstep can


def test_limits_are_only_lowered_while_armed_and_rise_to_those_of_the_start_at_most(runs: Runs) -> None:
    process = runs.start("trailer_circle", *PACED, "plant.safety.limit.U1=40", "plant.safety.on_fault=wait")
    process.wait_open()
    assert eventually(lambda: process.ask("status")["lifecycle"] == "active")
    run, key = RunParameters(process.name), "plant.safety.limit.U1"
    (acting,) = run.change({key: 5.0})
    assert (acting.node, acting.k % 10) == (PLANT, 0)
    with pytest.raises(OperatorError, match="20 is above 5: the machine is armed, and its limits are only lowered"):
        run.change({"controller.gains.lambda_phi": 2.0, key: 20.0})
    assert run.changed() == {key: 5.0}
    assert process.order("disarm") == "inactive"
    run.change({key: 20.0})
    assert run.get(key).value == 20.0
    with pytest.raises(LaunchError, match="41 N m is not at least 0 and at most 40"):
        run.change({key: 41.0})
    numbers = [41.0, None, None, None, None]
    with pytest.raises(OperatorError, match=r"41 is above 40: the machine has limits of its start"):
        ask(run.run, PLANT, SET, values={key: 40.0}, numbers=numbers, revision=2)
    states = run._states()
    states[CONTROLLER]["revision"] = 1
    run._states = lambda: states  # type: ignore[method-assign]
    with pytest.raises(OperatorError, match=rf"ask again; these act already: {key} = 15$"):
        run.change({"controller.gains.lambda_phi": 2.0, key: 15.0})
    process.stop()
    assert process.printed["changed_numbers"] == {key: 15.0}


def test_a_goal_that_is_a_number_acts_from_the_first_instant_not_published(runs: Runs) -> None:
    file = runs.folder / "goal.mcap"
    words = ["--record", str(file), "--every", "1000"]
    process = runs.start("trailer_pursuit", *LOCKSTEP, "target.x=1.0", "target.y=0.5", words=words)
    process.wait_open()
    run = RunParameters(process.name)
    (acting,) = run.change({"target.x": 1.2, "target.y": 0.6})
    assert acting.node == TARGET
    assert eventually(lambda: process.ask("status")["t"] > acting.t + 1, 30.0)
    process.stop()
    bag = read_bag(file)
    goals = [message for _, _, message in bag.messages(["target/target"])]
    assert {(each["target"]["x"], each["target"]["y"]) for each in goals if each["k"] < acting.k} == {(1.0, 0.5)}
    assert {(each["target"]["x"], each["target"]["y"]) for each in goals if each["k"] >= acting.k} == {(1.2, 0.6)}
    assert replay(bag, bag.closed_loop()).differing_messages == 0


def malformed() -> list[dict[str, Any]]:
    """Requests to a controller that nobody here sends."""
    values, numbers = {"controller.gains.lambda": 2.0}, [1.0] * 33
    return [
        {},
        {"values": {}, "numbers": numbers, "revision": 0},
        {"values": values, "numbers": numbers[:-1], "revision": 0},
        {"values": values, "numbers": [*numbers, 1.0], "revision": 0},
        {"values": values, "numbers": [0.0] * 33, "revision": 0},  # a mass of 0
        {"values": values, "numbers": [*numbers[:-1], None], "revision": 0},
        {"values": values, "numbers": [True] * 33, "revision": 0},
        {"values": values, "numbers": ["1"] * 33, "revision": 0},
        {"values": values, "numbers": [1.0] * 250, "revision": 0},
        {"values": {"controller.gains.lambda": "2"}, "numbers": numbers, "revision": 0},
        {"values": {"controller.gains.lambda": -2.0}, "numbers": numbers, "revision": 0},
        {"values": {"plant.safety.limit.U1": 2.0}, "numbers": numbers, "revision": 0},
        {"values": {"x" * 900: 2.0}, "numbers": numbers, "revision": 0},
        {"values": values, "numbers": numbers, "revision": 7},
        {"values": values, "numbers": numbers, "revision": "0"},
        {"values": [values], "numbers": numbers, "revision": 0},
    ]


def test_a_goal_with_too_many_or_too_few_numbers_changes_nothing(runs: Runs) -> None:
    process = runs.start("trailer_pursuit", *PACED, "target.x=1.0", "target.y=0.5")
    process.wait_open()
    run = RunParameters(process.name)
    for numbers in ([], [1.0], [1.0] * 3):
        with pytest.raises(OperatorError, match=f"{len(numbers)} numbers are given; give 2"):
            ask(run.run, TARGET, SET, values={"target.x": 1.0}, numbers=numbers, revision=0)
    assert run.changed() == {}
    assert run.change({"target.x": 1.0})
    process.stop()


def test_a_malformed_request_changes_nothing_and_stops_nothing(runs: Runs) -> None:
    process = runs.start("trailer_pursuit", *PACED)
    process.wait_open()
    run = RunParameters(process.name)
    assert len(numbers_of(run.closed_loop, CONTROLLER)) == 33
    for request in malformed():
        with pytest.raises(OperatorError):
            ask(run.run, CONTROLLER, SET, **request)
    assert run.changed() == {}
    assert process.ask("status")["lifecycle"] == "active"
    one, other = RunParameters(process.name), RunParameters(process.name)
    states = other._states()
    one.change({"controller.gains.lambda": 2.0})
    other._states = lambda: states  # type: ignore[method-assign]
    with pytest.raises(OperatorError, match="changed meanwhile; ask again"):
        other.change({"controller.gains.lambda": 3.0})
    assert run.changed() == {"controller.gains.lambda": 2.0}
    process.stop()


def test_the_command_reads_changes_dumps_and_loads(runs: Runs, tmp_path: Path) -> None:
    assert refused_command("param", "list") == "no run is in progress; start one with servonode run FILE"
    process = runs.start("trailer_circle", *PACED)
    process.wait_open()
    name, file = process.name, tmp_path / "tuned.toml"
    assert "controller.gains.lambda_phi " in command("param", "list").stdout
    read, write = os.pipe()
    os.close(read)  # as `head` does
    typed = [sys.executable, "-m", "servonode.cli.main", "param", "list"]
    cut = subprocess.run(typed, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (cut.returncode, cut.stderr) == (0, "")
    listed = json.loads(command("param", "list", "--json", name).stdout)
    assert listed["plant.safety.limit.U1"]["value"] is None
    result = command("param", "set", "controller.gains.lambda_phi=2", "controller.settings.point.0=0.1")
    assert result.exit_code == 0, result.stderr
    assert " = 2.0, controller.settings.point.0 = 0.1: from step " in result.stdout
    assert command("param", "get", name, "controller.gains.lambda_phi").stdout == "2.0\n"
    assert "range: above 0\nnode: controller" in command("param", "describe", "controller.parameters.m1").stdout
    assert (
        command("param", "get", "controller.parameters.c.w").stdout
        == command("param", "get", "controller.parameters.c_w").stdout
    )
    assert command("param", "dump", "--output", str(file)).exit_code == 0
    assert f"{file} exists already; name another file" in refused_command("param", "dump", "--output", str(file))
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    assert command("param", "load", str(empty)).stdout == f"{empty} holds no number; nothing is changed\n"
    tuned = {"controller.gains.lambda_phi": 2.0, "controller.settings.point.0": 0.1, "controller.settings.point.1": 0.0}
    assert numbers_in(file) == tuned
    loop = resolve(read_launch("trailer_circle", file.read_text().splitlines()))  # as --set takes them
    assert {key: parameters_of(loop)[key].value for key in tuned} == tuned
    assert command("param", "load", str(file)).exit_code == 0
    assert "controller and plant" in refused_command(
        "param", "set", "controller.gains.lambda=2", "plant.safety.limit.U1=3"
    )
    for words in (("set", "x"), ("set", "controller.gains.lambda=fast"), ("set", "a=1", "a=2"), ("get", "a", "b", "c")):
        assert refused_command("param", *words)
    assert "[controller.gains] lambda_psi: unknown name" in refused_command(
        "param", "get", "controller.gains.lambda_psi"
    )
    runs.start("trailer_pursuit", *PACED).wait_open()
    assert refused_command("param", "list").startswith("several runs are in progress; name one of")
    assert "no run named 'else'" in refused_command("param", "list", "else")


def started_again(process: Process, node: str, killed: int) -> bool:
    return process.is_open() and process.pids()[node] != killed


def test_a_node_that_is_restarted_computes_with_the_numbers_that_were_changed(runs: Runs) -> None:
    file, rate, limit = runs.folder / "again.mcap", "controller.gains.lambda_phi", "plant.safety.limit.U1"
    restarts = [f"supervision.{node}=on-failure" for node in (CONTROLLER, PLANT)]
    settings = [*PACED, *restarts, "plant.safety.on_fault=resume", f"{limit}=40"]
    process = runs.start("trailer_circle", *settings, words=["--record", str(file), "--every", "1000"])
    process.wait_open()
    run, values = RunParameters(process.name), {rate: 1.5, limit: 30.0}
    run.change(values)
    time.sleep(0.5)  # until the launcher knows of it
    for node in (CONTROLLER, PLANT):
        killed = process.pids()[node]
        process.kill(node)
        assert eventually(partial(started_again, process, node, killed))
        assert run.changed() == values
    assert eventually(process.armed_again)
    armed = process.ask("status")["t"]
    assert eventually(lambda: process.ask("status")["t"] > armed + 0.5)
    process.stop()
    bag = read_bag(file)
    found = replay(bag, bag.closed_loop())
    assert (found.differing_messages, found.left_out) == (0, 0), (found.first, found)
    first, *_, last = (command for _, _, command in bag.messages(["controller/command"]))
    assert first["src"] != last["src"]
    assert last["parameters_seq"] == 0


@pytest.mark.parametrize("settings", [PACED, LOCKSTEP], ids=["realtime", "lockstep"])
def test_a_change_in_a_pause_acts_from_the_step_at_which_the_run_is_paused(runs: Runs, settings: list[str]) -> None:
    file, limit = runs.folder / "paused.mcap", "plant.safety.limit.U1"
    process = runs.start("trailer_circle", *settings, f"{limit}=40", words=["--record", str(file), "--every", "1000"])
    process.wait_open()
    at = round(servonode.pause(process.name) * 1e3)
    (lower,) = RunParameters(process.name).change({limit: 1e-4})
    (gain,) = RunParameters(process.name).change({"controller.gains.lambda_phi": 2.0})
    assert (lower.k, gain.k) == (at, at)
    servonode.step(80, process.name)
    process.stop()
    bag = read_bag(file)
    applied = {each["k"]: each["input"]["U1"] for _, _, each in bag.messages(["plant/applied"])}
    assert {k for k, value in applied.items() if abs(value) <= 1e-4} == {k for k in applied if k >= at}
    assert replay(bag, bag.closed_loop()).differing_messages == 0
    whole = bag.messages
    bag.messages = lambda words: (  # type: ignore[method-assign]
        each for each in whole(words) if "parameters" in each[1] or each[2]["k"] >= at + 100
    )
    late = replay(bag, bag.closed_loop())  # of one that began to listen while the old law was fading
    assert (late.differing_messages, 0 < late.left_out <= 40) == (0, True)  # in real time some states have no answer
