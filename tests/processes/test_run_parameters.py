"""Numbers of a run in progress: which may change, how new ones are judged, from which step they act, what replays."""

import json
import math
import random
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
from tests.helpers.runs import Process, Runs

Values = dict[str, float]


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


def changed_in_a_pause(process: Process) -> list[Acting]:
    """What a run answers to changes while it is paused: they act from the step at which it stands."""
    at = round(servonode.pause(process.name) * 1e3)
    run = RunParameters(process.name)
    limit = run.now()["plant.safety.limit.U1"].value
    changes: list[Values] = [{"plant.safety.limit.U1": limit / 2}, {"controller.gains.lambda_phi": 2.0}]
    acting = [each for values in changes for each in run.change(values)]
    assert [each.k for each in acting] == [at, at]
    assert servonode.step(80, process.name) == pytest.approx((at + 80 * 10) / 1e3)
    assert servonode.resume(process.name) == "active"
    return acting


def run_and_change(
    runs: Runs, settings: list[str], seed: int, times: int, speed: float | None = None, pause: bool = False
) -> None:
    file = runs.folder / f"{seed}.mcap"
    words = ["--record", str(file), "--every", "1000"]
    process = runs.start("trailer_circle", *settings, "plant.safety.limit.U1=40", words=words)
    process.wait_open()
    if speed is not None:
        order("speed", process.name, speed=speed)
    acting, refused = changed_at_random(process, seed, times)
    acting += changed_in_a_pause(process) if pause else []
    process.stop()
    assert process.printed.get("pauses", 0) == (2 if pause else 0)
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


PACED = ["run.speed=1", "run.duration=600", "plant.safety.command_timeout_floor=2"]  # a busy host is not tested
LOCKSTEP = ["run.mode=lockstep", "run.duration=3000", "run.lockstep_timeout=60"]


def test_valid_changes_alone_act_each_at_its_step_in_a_pause_too_and_a_broken_off_run_sums_itself_up(
    runs: Runs,
) -> None:
    run_and_change(runs, LOCKSTEP, 1, 25, speed=1.0, pause=True)
    (run,) = runs.started
    assert f"{run.name}: broken off after" in run.stderr
    assert (run.printed["exit"], run.printed["faults"]) == (130, [])
    assert run.columns["t"][-1] == run.printed["t"] > 0
    assert runs.left_files() == []


def test_a_margin_changes_in_a_run_that_keeps_and_its_recording_replays(runs: Runs) -> None:
    keep = ['controller.keep.slow="0.05 - V"', "controller.keep.slow.rate=20", 'controller.limits="keep"']
    file = runs.folder / "kept.mcap"
    settings = [*LOCKSTEP, *keep, "plant.safety.limit=0.05"]
    process = runs.start("trailer_pursuit", *settings, words=["--record", str(file), "--every", "1000"])
    process.wait_open()
    run = RunParameters(process.name)
    acting = [each for margin in (0.01, 0.02) for each in run.change({"controller.keep.slow.margin": margin})]
    with pytest.raises((LaunchError, OperatorError), match="margin"):
        run.change({"controller.keep.slow.margin": -1.0})
    process.stop()
    bag = read_bag(file)
    check_bag(bag, acting)
    found = replay(bag, bag.closed_loop())
    assert (found.differing_messages, found.left_out) == (0, 0), (found.first, found)
    reports = [message for _, _, message in bag.messages(["controller/report"])]
    assert {frozenset(each["margin"]) for each in reports} == {frozenset(["slow"])}
    assert {each["keeping"] for each in reports} >= {0}
