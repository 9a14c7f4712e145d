"""Numbers of a run in progress: which may change, how new ones are judged, from which step they act, what replays."""

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import servonode
from servonode.bus.topology import CONTROLLER, PLANT
from servonode.closed_loop.launch_error import LaunchError
from servonode.operator.operator_requests import OperatorError, order
from servonode.operator.run_parameters import Acting, RunParameters
from servonode.record.bag import Bag, read_bag
from servonode.simulation.replay import replay
from tests.helpers.refusals import command
from tests.helpers.runs import Process, Runs, private_runs

Values = dict[str, float]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    monkeypatch.setattr("servonode.operator.operator_requests.ANSWER_S", 20.0)  # however busy the computer is
    with private_runs(tmp_path) as started:
        yield started


# a run


def random_change(rng: random.Random, run: RunParameters) -> tuple[Values, bool]:
    """One to three new values of one node, and whether they may act."""
    if rng.random() < 1 / 3:
        return rng.choice(BAD)(rng), False
    if rng.random() < 0.1:  # ever lower
        limit = run.now()["plant.safety.limit.U1"].value
        return {"plant.safety.limit.U1": limit * rng.uniform(0.97, 1.0)}, True
    good = {
        "controller.gains.lambda_speed": rng.uniform(0.5, 8.0),
        "controller.gains.lambda_phi": rng.uniform(0.5, 8.0),
        "controller.parameters.m1": rng.uniform(3.0, 5.0),
        "controller.settings.v": rng.uniform(0.3, 0.5),
        "controller.settings.radius": rng.uniform(1.8, 2.2),
    }
    return {key: good[key] for key in rng.sample(sorted(good), rng.randint(1, 3))}, True


BAD: list[Any] = [
    lambda rng: {"controller.gains.lambda_phi": rng.uniform(81, 1e6)},
    lambda rng: {"controller.parameters.m1": -rng.random()},
    lambda _: {"controller.parameters.m1": math.nan},
    lambda _: {"controller.settings.radius": math.inf},
    lambda rng: {"controller.gains.lambda_speed": 3.0, "controller.gains.lambda_phi": rng.uniform(100, 200)},
    lambda _: {"controller.gains.lambda_psi": 1.0},
    lambda _: {"plant.safety.limit.U1": 1e9},
    lambda _: {"controller.period": 0.02},
]


def changed_at_random(process: Process, seed: int, times: int) -> tuple[list[Acting], int]:
    """What a run answers to so many changes at random, and how many it refused."""
    rng, run, acting, refused = random.Random(seed), RunParameters(process.name), list[Acting](), 0
    for _ in range(times):
        values, good = random_change(rng, run)
        if good:
            acting += run.change(values)
            continue
        with pytest.raises((LaunchError, OperatorError)):
            run.change(values)
        refused += 1
    return acting, refused


def check_bag(bag: Bag, acting: list[Acting]) -> None:
    """Each accepted change is in the recording, in its order, and acts from its step on, neither before nor after."""
    for node in (CONTROLLER, PLANT):
        its = [each for each in acting if each.node == node]
        messages = [message for _, _, message in bag.messages([f"{node}/parameters"])]
        assert [(each["k"], each["t"]) for each in messages] == [(each.k, each.t) for each in its]
        for message, each in zip(messages, its, strict=True):
            assert {key: message["values"][key] for key in each.values} == each.values
    steps = [each.k for each in acting if each.node == CONTROLLER]
    commands = [message for _, _, message in bag.messages(["controller/command"])]
    for sent in commands:
        used = sent.get("parameters_seq")
        assert (-1 if used is None else used) == sum(k <= sent["k"] for k in steps) - 1
    limits = [(each.k, each.values["plant.safety.limit.U1"]) for each in acting if each.node == PLANT]
    for _, _, applied in bag.messages(["plant/applied"]):
        lowest = min((limit for k, limit in limits if k <= applied["k"]), default=math.inf)
        assert abs(applied["input"]["U1"]) <= lowest


def run_and_change(runs: Runs, settings: list[str], seed: int, times: int, speed: float | None = None) -> None:
    file = runs.folder / f"{seed}.mcap"
    words = ["--record", str(file), "--every", "1000"]
    process = runs.start("trailer_circle", *settings, "plant.safety.limit.U1=40", words=words)
    process.wait_open()
    if speed is not None:
        order("speed", process.name, speed=speed)
    acting, refused = changed_at_random(process, seed, times)
    process.stop()
    assert acting
    assert refused
    shown = command("bag", "info", str(file)).stdout
    assert all(f"{key} = {value!r}" in shown for key, value in acting[-1].values.items())
    changes = json.loads(command("bag", "info", "--json", str(file)).stdout)["changes"]
    assert [(each["node"], each["k"], each["values"]) for each in changes] == [
        (each.node, each.k, each.values) for each in acting
    ]
    bag = read_bag(file)
    check_bag(bag, acting)
    found = replay(bag, bag.closed_loop())
    assert (found.differing_messages, found.left_out) == (0, 0), (found.first, found)
    assert found.compared > 20


PACED = ["run.speed=1", "run.duration=600", "plant.safety.command_timeout_floor=2"]  # for the same reason
LOCKSTEP = ["run.mode=lockstep", "run.duration=3000"]


@pytest.mark.parametrize("settings", [LOCKSTEP], ids=["lockstep"])
def test_no_invalid_change_acts_and_each_valid_one_acts_at_its_step(runs: Runs, settings: list[str]) -> None:
    run_and_change(runs, settings, 1, 25)


@pytest.mark.parametrize("settings", [LOCKSTEP], ids=["lockstep"])
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
