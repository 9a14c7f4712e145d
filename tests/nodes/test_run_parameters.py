"""Numbers of a run in progress: which may change, how new ones are judged, from which step they act, what replays."""

import math
from typing import Any

import pytest

import servonode
from servonode.bus import encode_map
from servonode.bus.requests import LARGEST
from servonode.bus.topology import CONTROLLER, PLANT, SET
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.parameters import judged, numbers_of, parameter, parameters_of

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
    assert len(encode_map({"ask": SET, "values": values, "numbers": numbers.tolist(), "revision": 1})) < LARGEST
    n = len(numbers) - len(new.control.signals.pieces)
    law, wanted = loop.control.law.with_numbers(numbers[:n]), new.control.law
    assert law.c.tobytes() == wanted.c.tobytes()
    assert law.K.tobytes() == wanted.K.tobytes()
    assert law.memory().tobytes() == wanted.memory().tobytes()
    assert law.machine.parameters == wanted.machine.parameters
    assert loop.control.law.c.tobytes() != law.c.tobytes()


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


FIXED = {
    "controller.period": "the plant and the law share the grid of control instants",
    "controller.delay": "the plant schedules commands by it",
    "run.speed": "set when it starts",
    "plant.step": "set when the run starts",
    "plant.parameters.m1": "controller.parameters are what the law assumes",
    "plant.initial.X": "which has passed",
    "plant.safety.command_timeout": "only limit, rate_limit and power_limit can be lowered",
}


@pytest.mark.parametrize("key", FIXED)
def test_what_is_fixed_says_why(key: str) -> None:
    with pytest.raises(LaunchError, match=FIXED[key]):
        parameter(loop_of("trailer_circle"), key)


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(LaunchError, match="lambda_phi"):
        parameter(loop_of("trailer_circle"), "controller.gains.lambda_ph")
    with pytest.raises(LaunchError, match="outside every section"):
        parameter(loop_of("trailer_circle"), "nothing")


def test_numbers_of_a_filter_and_of_a_law_in_firmware_say_why_they_stay() -> None:
    estimated = loop_of("trailer_estimated")
    with pytest.raises(LaunchError, match=r"the filter of .estimator. computes with the same model"):
        parameter(estimated, "controller.parameters.m1")
    assert parameter(estimated, "controller.gains.lambda").node == CONTROLLER
    with pytest.raises(LaunchError, match="the law is in the machine's firmware, which holds its own numbers"):
        parameter(loop_of("trailer_pursuit_udp", plant__device__law=True), "controller.gains.lambda")


def test_a_rate_that_is_too_high_is_refused_with_its_eigenvalue_and_the_largest_good_one() -> None:
    loop = loop_of("trailer_circle")
    with pytest.raises(
        LaunchError, match=r"eigenvalue 0\.7393 over a period; the largest rate that is taken is 80 1/s"
    ):
        judged(loop, {}, {"controller.gains.lambda_phi": 90.0})
    assert judged(loop, {}, {"controller.gains.lambda_phi": 80.0}).control is not None


def test_numbers_are_judged_together_with_those_that_were_changed_before() -> None:
    loop = loop_of("trailer_circle")
    with pytest.raises(LaunchError, match=r"above 0\.8 of the limit"):
        judged(loop, {"controller.gains.lambda_phi": 90.0}, {"controller.parameters.m1": 4.1})


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("controller.parameters.m1", -1.0, "-1 kg is not above 0"),
        ("controller.parameters.m1", math.nan, "not a finite number"),
        ("controller.settings.radius", 0.0, "0 m is not above 0"),
        ("plant.safety.limit.U1", -1.0, "is not at least 0"),
        ("controller.gains.lambda", math.inf, "not a finite number"),
    ],
)
def test_a_value_outside_of_its_range_is_refused(key: str, value: float, why: str) -> None:
    with pytest.raises(LaunchError, match=why):
        judged(loop_of("trailer_circle"), {}, {key: value})
