"""A plant that is only observed, on a clock that the test moves: what arming would send, and that nothing is sent."""

from pathlib import Path
from typing import Any, cast

import pytest

from servonode.closed_loop.closed_loop import observing
from servonode.nodes.input_limiter import WOULD_SEND
from servonode.plants.drivers.device import DevicePlant
from tests.helpers.stepped import MS, Bench, puck
from tests.nodes.test_link_latency import LOOPBACK, Driven

PLACE = ("plant.initial.x=0.1", "plant.initial.y=-0.1", "plant.initial.y_dot=0.0", "plant.safety.rate_limit=1000")
INTEGRAL = "controller.gains={lambda = 2.0, integral = 0.5}"


def device(bench: Bench) -> Any:
    """The simulated machine at the other end of the link."""
    plant: DevicePlant = cast(Any, bench.node.plant)._plant
    return cast(Any, plant).link.device


@pytest.fixture(scope="module")
def run(folder: Path) -> Driven:
    """Two seconds of a machine that stands off its goal, whose law integrates."""
    return Driven(observing(puck(folder, "run.duration=2", *LOOPBACK, *PLACE, INTEGRAL)))


def test_the_machine_has_received_no_input(run: Driven) -> None:
    robot = device(run)
    assert (robot._applied_seq, robot._acts, dict(robot.counts)) == (-1, False, {})
    assert not robot.plant.output.any()
    assert run.node.plant.x[:2].tolist() == [0.1, -0.1]


def test_what_arming_would_send_stays_the_same_while_nothing_moves(run: Driven) -> None:
    """Goal time stands and nothing is integrated, so it is what the first commands after an arming would be."""
    told = [each.values for each in run.statuses if each.t > 0.5]
    sent = {(each[f"{WOULD_SEND}F"], each[f"{WOULD_SEND}G"]) for each in told}
    assert len(told) > 5
    assert len(sent) == 1
    (values,) = sent
    assert dict(zip("FG", values, strict=True)) == run.node.status.describe()["would_send"]
    assert values == pytest.approx((2.0**2 * 2.0 * (0.3 - 0.1), 0.0)), "lambda^2 m (0.3 - x), in N"
    assert all(each["readonly"] == 1.0 and each["armed"] == 0.0 for each in told)
    assert {state.goal_k for state in run.states} == {0}


def test_an_armed_machine_is_sent_just_that(folder: Path, run: Driven) -> None:
    armed = Driven(puck(folder, "run.duration=0.02", *LOOPBACK, *PLACE, INTEGRAL, "plant.safety.ramp=0"))
    first = next(each for each in armed.applied if each.re >= 0)
    assert first.input == run.node.status.describe()["would_send"]


def test_without_an_answer_nothing_is_told(folder: Path) -> None:
    bench = Bench(observing(puck(folder, *LOOPBACK, *PLACE)))
    bench.prepare()
    bench.give(bench.command(bench.ask(), 0.3, 0.2))
    bench.give(bench.command(bench.ask(), 0.3, 0.2))
    assert bench.node.status.describe()["would_send"].keys() == {"F", "G"}
    bench.clock.now += 1000 * MS
    assert bench.node.status.describe()["would_send"] == {}


def test_an_emergency_stop_brakes_nothing(folder: Path) -> None:
    bench = Bench(observing(puck(folder, *LOOPBACK, *PLACE, "plant.initial.x_dot=0.5")))
    bench.prepare()
    bench.ask()
    bench.node.handle_request("estop")
    assert bench.brake()[0] < -1.0
    assert (bench.acting, bench.guard.output.braking) == ((0.0, 0.0), False)


def test_a_law_that_failed_would_send_nothing(folder: Path) -> None:
    bench = Bench(observing(puck(folder, *LOOPBACK, *PLACE)))
    bench.prepare()
    bench.give(bench.command(bench.ask(), 0.3, fault="singular"))
    assert bench.node.status.describe()["would_send"] == {}
    assert not bench.node.faults


def test_a_simulation_that_is_only_observed_goes_on_under_zero_input(folder: Path) -> None:
    moving = Driven(observing(puck(folder, "run.duration=0.5", "plant.initial.x=0.1", "plant.initial.y_dot=0.4")))
    assert moving.node.plant.x[1] == pytest.approx(moving.states[0].state["y"] + 0.4 * 0.5)
    assert {value for each in moving.applied for value in each.input.values()} == {0.0}
