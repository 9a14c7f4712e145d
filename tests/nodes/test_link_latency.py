"""The latency of a link: measured on what the machine says it has taken, and made up for by the predictor.

The plant node, the controller node and the target node on one clock that the test moves: nothing is late but the link.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servonode.bus import Command, MemoryBus, State, Status, Switchboard
from servonode.bus.topology import CONTROLLER, NODES, PLANT, TARGET
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.controller_node import ControllerNode
from servonode.nodes.realtime import RealTime
from servonode.nodes.target_node import TargetNode
from servonode.plants.drivers.applied_inputs import KEPT, Latency
from tests.helpers.stepped import Bench, puck

LOOPBACK = (
    'plant.driver="loopback"',
    "plant.safety.limit=50",
    "plant.safety.ramp=0.1",
    "plant.device.timeout=0.3",
    "plant.initial.x_dot=0.0",
)
GOAL = ('controller.residuals={x = "x - x_d", y = "y"}', 'target.x_d="0.2*sin(3*t)"', "plant.initial.y_dot=0.0")
LAMBDA = "controller.gains={lambda = 10.0}"


class Driven(Bench):
    """A run in real time with the controller and the target of servonode, which answer after `network_ns`."""

    def __init__(self, closed_loop: ClosedLoop, network_ns: int = 0) -> None:
        super().__init__(closed_loop)
        self.latency_ns = network_ns
        board = Switchboard()
        self._plant_side = MemoryBus(board, PLANT)
        self._news = self._plant_side.publisher()
        self._commands = self._plant_side.subscriber({CONTROLLER: ["command"]})
        listeners = [NODES[CONTROLLER].subscribes]
        self.controller = ControllerNode(closed_loop, MemoryBus(board, CONTROLLER), [], self.clock)
        self.target = TargetNode(closed_loop, MemoryBus(board, TARGET), listeners, self.clock)
        self._told = 0
        run = closed_loop.launch.run
        assert self.prepare()
        pace = RealTime(self.node, run.speed, closed_loop.safety.command_timeout, run.lockstep_timeout)
        pace.run()
        assert not self.node.faults, self.node.faults

    def command(self, state: State | None = None, *_: Any, **__: Any) -> Command:
        """The controller's own answer to a state."""
        assert state is not None
        statuses: list[Status] = self.statuses
        for status in statuses[self._told :]:
            self._news.publish("status", status)
        self._told = len(statuses)
        while self.target.work() < np.inf:
            pass
        self._news.publish("state", state)
        self.controller.work()
        (_, command), *more = self._commands.receive()
        assert not more
        assert isinstance(command, Command)
        return command

    def residuals(self, after_s: float) -> np.ndarray:
        """What the controller measured of x - x_d, at control instants later than this."""
        rows = self.controller.record.rows
        names = ["k", *[each.name for each in self.node.closed_loop.residuals]]
        columns = np.array([row[: len(names)] for row in rows])
        return columns[columns[:, 0] > after_s * 1000, 1]


def driven(folder: Path, *settings: str) -> Driven:
    return Driven(puck(folder, "run.duration=4", *LOOPBACK, *GOAL, LAMBDA, *settings))


@pytest.mark.parametrize("delay_ms", [0.0, 3.0, 20.0])
def test_the_latency_is_the_time_of_both_ways(delay_ms: float, folder: Path) -> None:
    run = driven(folder, f"plant.link.delay={delay_ms / 1e3}")
    found = run.node.plant.remote.latency
    assert abs(found - 2 * delay_ms / 1e3) <= 0.001, "to a step of the machine"
    assert run.states[-1].latency == found
    assert run.node.status.describe()["values"].get("link_latency", 0.0) == found
    assert run.node.summary().get("link_latency_s", 0.0) == found


def test_jitter_and_loss_change_it_little(folder: Path) -> None:
    run = driven(folder, "plant.link.delay=0.005", "plant.link.jitter=0.004", "plant.link.loss=0.05")
    assert 0.010 <= run.node.plant.remote.latency <= 0.018


@pytest.fixture(scope="module")
def direct(folder: Path) -> float:
    """The largest residual without a link [m]: what sampling every 10 ms leaves of a goal that moves by 0.2 m."""
    found = np.abs(driven(folder).residuals(2.0)).max()
    assert found < 3e-4
    return float(found)


@pytest.mark.slow
@pytest.mark.parametrize(("delay_ms", "better"), [(20, 8), (30, 200)])
def test_with_the_predictor_the_residuals_are_those_without_a_link(
    delay_ms: int, better: float, folder: Path, direct: float
) -> None:
    link = f"plant.link.delay={delay_ms / 1e3}"
    without = np.abs(driven(folder, link).residuals(2.0)).max()
    foreseen = np.abs(driven(folder, link, "controller.predictor=true").residuals(2.0)).max()
    assert without > better * direct
    assert abs(foreseen - direct) < 1e-6


def test_with_a_delay_of_the_launch_file_both_are_foreseen(folder: Path, direct: float) -> None:
    settings = ("plant.link.delay=0.01", "controller.delay=2", "controller.predictor=true")
    found = np.abs(driven(folder, *settings).residuals(2.0)).max()
    assert abs(found - direct) < 1e-6


def test_it_is_the_median_of_the_newest() -> None:
    latency = Latency(step_wall_ns=1000.0)
    assert latency.ns() == 0.0
    for step in range(5 * KEPT):
        sent = 1_000_000 * step
        spoilt = 10**9 if step % 3 == 0 else 0
        latency.state(step, sent + (2000 if step < 3 * KEPT else 5000) + 1000 + spoilt, sent)
    assert latency.ns() == 5000.0
    latency.forget()
    assert latency.ns() == 0.0
