"""`servonode hil accept` sees the brake of firmware at rest too, and never lets anything act that could move it."""

from typing import Any

import numpy as np
import pytest

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.plants.drivers.safe_map import sent_safe_map
from servonode.wings.acceptance.hil_accept import MOST, visible_safe_map
from servonode.wings.acceptance.protocol_check import TINY, Plan
from tests.helpers.firmware import ESTIMATED
from tests.helpers.timed_board import accepted

PLAN = Plan(wait=1.0, observe=0.3, settle=0.25)
FLAWS = {  # what is wrong with the brake: what is said of it
    "brakes": ("acts after the timeout, where the safe action is", "apply S x + s0 of the setup"),
    "flags": ("the states do not say so", "set bit 0 of their flags"),
    "brakes_on": ("acts in a run that begins after a timeout", "let the safe action act on"),
}


@pytest.fixture(scope="module")
def robot() -> ClosedLoop:
    return resolve(read_launch("trailer_pursuit_udp"), strict=False)


@pytest.fixture(scope="module")
def sphero() -> ClosedLoop:
    """A machine with held quantities: what stands for a simulation of it starts at rest."""
    said = ["plant.driver=udp", "run.speed=1", 'plant.device.address="127.0.0.1:9875"']
    return resolve(read_launch("sphero_pursuit", said), strict=False)


@pytest.fixture(params=["a robot that rolls", "a robot at rest", "a sphero at rest"])
def machine(request: pytest.FixtureRequest, robot: ClosedLoop, sphero: ClosedLoop) -> tuple[ClosedLoop, dict[str, Any]]:
    """The loop, and the board of its machine."""
    if "sphero" in request.param:
        return sphero, {"at_rest": sphero.start[: sphero.machine.n_state].tolist()}
    return robot, {} if "rolls" in request.param else {"at_rest": [0.0] * 8}


def test_a_brake_is_proven_wherever_the_machine_is_and_nothing_acts_that_could_move_it(
    machine: tuple[ClosedLoop, dict[str, Any]],
) -> None:
    loop, at = machine
    report, board = accepted(loop, PLAN, **at)
    assert (report.verdict, report.findings) == ("yes", []), report.text()
    assert {"timeout", "safe action", "again"} <= {each.subject for each in report.proven}
    assert 1.5 * TINY < board.strongest < MOST * (1 + 1e-6)


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_brake_that_does_not_act_or_is_not_reported_is_found(
    machine: tuple[ClosedLoop, dict[str, Any]], flaw: str
) -> None:
    loop, at = machine
    report, _ = accepted(loop, PLAN, **at, **{flaw: False})
    assert report.verdict == "no", report.text()
    subjects = {each.subject for each in report.findings}
    assert "safe action" in subjects <= {"safe action", "brake", "final"}
    found, remedy = FLAWS[flaw]
    assert any(found in each.text and f"; {remedy}" in each.text for each in report.findings), report.text()
    assert "safe action" not in {each.subject for each in report.proven}


def test_a_board_that_sends_readings_proves_the_constant_that_it_was_sent_and_else_nothing_is_said_of_its_brake() -> (
    None
):
    loop = resolve(read_launch("trailer_pursuit_udp", ESTIMATED), strict=False)
    sent, _ = accepted(loop, PLAN, sensors=3)
    own, _ = accepted(loop, PLAN, sensors=3, brakes=False)  # zero acts at rest, whether it has a brake or not
    silent, _ = accepted(loop, PLAN, sensors=3, brakes=False, flags=False)
    assert (sent.findings, own.findings, silent.verdict) == ([], [], "no"), own.text()
    assert [each.subject for each in sent.notes] == ["motion"]
    assert ["safe action" in {each.subject for each in report.proven} for report in (sent, own)] == [True, False]
    (note,) = [each.text for each in own.notes if each.subject == "safe action"]
    assert "this shows no brake; where the board has one of its own, turn the wheels by hand" in note
    for report, acts in (
        (sent, "the safe action acts: -1.5e-06, -1.75e-06"),
        (own, "the last input does not act any more: 0, 0"),
    ):
        assert any(each.text.endswith(acts) for each in report.proven), report.text()


@pytest.mark.parametrize("inputs", [1, 8])
def test_the_safe_action_that_is_sent_is_visible_and_follows_the_state_within_the_limits(inputs: int) -> None:
    rng = np.random.default_rng(1)
    safe, x = 50.0 * rng.standard_normal((inputs, 4)) * [1, 1, 1, 0], np.array([0.3, -0.02, 2.0])
    found = visible_safe_map(safe, x)
    at_rest, moving = found[:, -1], found @ np.append(x, 1.0)
    assert len({round(each / (0.1 * TINY)) for each in at_rest}) == inputs
    assert np.abs([at_rest, moving]).max() <= MOST * (1 + 1e-12)
    assert at_rest.max() < -0.5 * TINY
    assert moving.max() < -0.5 * TINY
    follows = found @ np.append(x, 1.0) - found @ np.append(-x, 1.0)
    np.testing.assert_array_equal(np.sign(follows), np.sign(safe[:, :-1] @ x))
    assert np.abs(follows).max() > 0.2 * TINY


def test_a_machine_without_a_safe_action_is_judged_by_the_constant_alone() -> None:
    found = visible_safe_map(np.zeros((2, 4)), np.zeros(3))
    np.testing.assert_allclose(found, [[0, 0, 0, -1.5 * TINY], [0, 0, 0, -1.75 * TINY]], rtol=1e-12)


def test_the_brake_of_the_launch_file_is_the_one_that_is_scaled(robot: ClosedLoop) -> None:
    safe = sent_safe_map(robot.machine, robot.start, readings=False)
    found = visible_safe_map(safe, robot.start[: robot.machine.n_state])
    ratio = found[:, 4:6] / safe[:, 4:6]
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-12)
    assert ratio[0, 0] > 0
