"""Numbers of a run in progress: which may change, how new ones are judged, from which step they act, what replays."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.bus.messages import LARGEST
from servonode.bus.requests import LARGEST_REQUEST, encode_map
from servonode.bus.topology import CONTROLLER, PLANT, SET
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.parameters import judged, numbers_of, parameter, parameters_of
from servonode.nodes.node import Change, ChangedParameters
from servonode.operator import run_parameters
from servonode.operator.run_parameters import RunParameters

CART = Path(__file__).resolve().parents[2] / "examples" / "kept" / "cart.toml"
LOOPS = ("trailer_circle", "trailer_pursuit", "sphero_circle", "sphero_line", "snowboarder_curve", "sphero_tilt")


def loop_of(name: str, **settings: Any) -> ClosedLoop:
    return servonode.load(name, **settings).closed_loop


# which numbers, and how they are judged


@pytest.mark.parametrize("name", LOOPS)
def test_a_law_takes_the_numbers_of_another_bit_by_bit(name: str) -> None:
    loop = loop_of(name)
    values = {
        key: each.value * 1.01 if each.value else 0.01
        for key, each in parameters_of(loop).items()
        if each.node == CONTROLLER and key != "controller.gains.lambda"
    }
    new = judged(loop, {}, dict(list(values.items())[:8]))
    assert new.control is not None
    assert loop.control is not None
    numbers = numbers_of(new, CONTROLLER)
    assert len(encode_map({"ask": SET, "values": values, "numbers": numbers.tolist(), "revision": 1})) < LARGEST_REQUEST
    n = len(numbers) - len(new.control.signals.pieces)
    law, wanted = loop.control.law.with_numbers(numbers[:n]), new.control.law
    assert law.c.tobytes() == wanted.c.tobytes()
    assert law.K.tobytes() == wanted.K.tobytes()
    assert law.memory().tobytes() == wanted.memory().tobytes()
    assert law.machine.parameters == wanted.machine.parameters
    assert loop.control.law.c.tobytes() != law.c.tobytes()


def test_infinite_numbers_of_what_is_kept_pass_a_message_with_their_signs() -> None:
    loop = loop_of("trailer_pursuit", keep={"fast": "2 - V", "pull": "5 - U1"})
    new = judged(loop, {}, {"controller.keep.fast.margin": 0.5})
    sent = np.clip(numbers_of(new, CONTROLLER), -LARGEST, LARGEST).tolist()
    values = {"controller.keep.fast.margin": 0.5}
    change = ChangedParameters(loop, CONTROLLER).read({"values": values, "numbers": sent, "revision": 0})
    assert isinstance(change, Change)
    assert np.array_equal(change.numbers, numbers_of(new, CONTROLLER))
    assert {math.inf, -math.inf} < set(change.numbers)


def test_what_may_change_has_its_node_unit_and_range() -> None:
    found = parameters_of(loop_of("trailer_circle"))
    rate, mass, limit = (
        found[each] for each in ("controller.gains.lambda_phi", "controller.parameters.m1", "plant.safety.limit.U1")
    )
    assert (rate.node, rate.value, rate.unit, rate.range) == (CONTROLLER, 3.0, "1/s", "at least 0 and at most 80")
    assert (mass.value, mass.unit, mass.range) == (4.0, "kg", "above 0")
    assert (limit.node, limit.value, limit.unit) == (PLANT, math.inf, "N m")
    assert found["controller.settings.v"].value == 0.4  # a function of time that is a number
    assert found["controller.settings.point.0"].value == 0.0
    assert not [key for key in found if "travel" in key]
    assert parameter(loop_of("trailer_estimated"), "controller.gains.lambda").node == CONTROLLER
    assert judged(loop_of("trailer_circle"), {}, {"controller.gains.lambda_phi": 80.0}).control is not None


def test_a_limit_that_is_lowered_reaches_the_law_that_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, sent = servonode.load(CART).closed_loop, dict[str, Change]()

    def ask(_: Any, node: str, verb: str, **arguments: Any) -> dict[str, Any]:
        if verb == SET:
            change = ChangedParameters(loop, node).read(arguments)
            assert isinstance(change, Change)
            sent[node] = change
        return {"revision": 0, "values": {}, "k": 0, "t": 0.0}

    found = SimpleNamespace(registry={"nodes": [PLANT, CONTROLLER]})
    monkeypatch.setattr(run_parameters, "find_run", lambda _: found)
    monkeypatch.setattr(run_parameters, "stored_closed_loop", lambda _: loop)
    monkeypatch.setattr(run_parameters, "ask", ask)
    assert loop.control is not None
    before = loop.control.law.numbers()
    most = loop.safety.limits.value[0]
    RunParameters().change({f"plant.safety.limit.{loop.machine.description.input_names[0]}": most / 2})
    after = loop.control.law.with_numbers(np.array(sent[CONTROLLER].numbers)[: len(before)]).numbers()
    assert sent[PLANT].numbers[0] == most / 2
    assert sorted(after[after != before]) == [-most / 2, most / 2]
    assert isinstance(ChangedParameters(loop, PLANT).read({"values": {}, "numbers": [], "revision": 0}), str)
