"""The estimate of a controller that is late: an answer stands on its own state, and a replay has the same bits."""

from collections.abc import Collection, Iterator
from typing import Any, cast

import msgspec
import pytest

import servonode
from servonode.bus import Command, Estimate, MemoryBus, Message, Switchboard
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.controller_node import ControllerNode
from servonode.record.bag import Bag
from servonode.simulation.replay import replay
from tests.helpers.talk import Talk

GOAL = {"x": 2.0, "y": -1.0, "x_dot": 0.2, "y_dot": 0.1, "x_ddot": 0.0, "y_ddot": 0.0}


@pytest.fixture(scope="module")
def closed_loop() -> ClosedLoop:
    return servonode.load("trailer_estimated", plant__publish_every=1).closed_loop


class Run:
    """A controller node that is given messages and told when to work; it is also the recording of all of them."""

    def __init__(self, closed_loop: ClosedLoop) -> None:
        board, self._talk = Switchboard(), Talk(closed_loop)
        self.node = ControllerNode(closed_loop, MemoryBus(board, CONTROLLER), [])
        self._plant, self._target = MemoryBus(board, PLANT).publisher(), MemoryBus(board, TARGET).publisher()
        self._sent = MemoryBus(board, "test").subscriber({CONTROLLER: ["command", "estimate"]})
        self.sent: list[Message] = []
        self._recorded: list[tuple[str, Message]] = []

    def states(self, *steps: int, mute: bool = False) -> None:
        for k in steps:
            readings = {} if mute else {"gyroscope": [float(k), 0.01 * k], "camera_x": [float(k), 0.1]}
            state = self._talk.state(k, readings=readings)
            self._plant.publish("state", state)
            self._recorded.append(("plant/state", state))

    def goal(self, k: int) -> None:
        target = msgspec.structs.replace(self._talk.target(k), target=GOAL)
        self._target.publish("target", target)
        self._recorded.append(("target/target", target))

    def work(self) -> None:
        self.node.work()
        for topic, message in self._sent.receive():
            self.sent.append(message)
            self._recorded.append((f"controller/{topic}", message))

    def messages(self, topics: Collection[str]) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """As those of a bag."""
        return ((m.mono, topic, msgspec.to_builtins(m)) for topic, m in self._recorded if topic in topics)

    @property
    def estimates(self) -> dict[int, dict[str, Any]]:
        return {each.k: each.state for each in self.sent if isinstance(each, Estimate)}


def test_an_answer_stands_on_its_own_state_however_late_its_goal_comes(closed_loop: ClosedLoop) -> None:
    prompt, late = Run(closed_loop), Run(closed_loop)
    for k in range(21):
        prompt.goal(k)
        prompt.states(k)
        prompt.work()
    for first in (0, 10):
        late.states(*range(first, first + 10))
        late.work()
        late.goal(first)
        late.work()
    assert late.estimates == {k: state for k, state in prompt.estimates.items() if k < 20}
    assert sorted(late.estimates) == [0, 10]


@pytest.mark.parametrize("gate", [None, 3.0])
def test_a_replay_knows_the_states_that_were_skipped(gate: float | None) -> None:
    stated = {"estimator__gate": gate} if gate else {}
    closed_loop = servonode.load("trailer_estimated", plant__publish_every=1, **stated).closed_loop
    run = Run(closed_loop)
    for first in range(0, 80, 20):
        run.goal(first + 10)
        run.states(*range(first, first + 13))  # the control state in the middle is the newest
        run.work()
        run.states(*range(first + 13, first + 20))
        run.work()
    assert [each.k for each in run.sent if isinstance(each, Command)] == [10, 30, 50, 70]
    assert run.node.counts["skipped_states"] == 4
    assert (run.node.counts["rejected_gyroscope"] > 0) == bool(gate)  # which turns faster and faster
    found = replay(cast(Bag, run), closed_loop)
    assert (found.compared, found.differing_messages) == (4, 0), found.first


def test_sensors_that_begin_late_end_the_fault_that_they_have_given_nothing_yet(closed_loop: ClosedLoop) -> None:
    run = Run(closed_loop)
    for k in range(0, 400, 10):
        run.goal(k)
        run.states(k, mute=k < 350)
        run.work()
    faults = [each.fault for each in run.sent if isinstance(each, Command)]
    assert len(faults) == 40
    assert faults[0] == ""
    assert faults[34].startswith(
        "no reading of encoder_left, encoder_right, gyroscope, camera_x, camera_y has come yet"
    )
    assert faults[35:] == [""] * 5
