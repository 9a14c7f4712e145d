"""The target node of a robot that follows another robot of the launch: a goal is a state of that robot.

In real time it uses the newest state. In lockstep it waits for the state of the very control instant, so that every
run has the same bits.
"""

import time
from collections import deque
from collections.abc import Sequence

from servonode.bus import BusFace, State, Wanted
from servonode.bus.fleet_memory import LOOK_S, RobotSamples
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.live_target_node import POLL_S, LiveTargetNode
from servonode.nodes.node import Clock
from servonode.nodes.target_node import TargetNode

KEPT_STATES = 8


class FleetTargetNode(LiveTargetNode):
    """Answers each state with the goal that follows from the other robots' states."""

    def __init__(
        self, closed_loop: ClosedLoop, bus: BusFace, listeners: Sequence[Wanted], clock: Clock = time.monotonic_ns
    ) -> None:
        super().__init__(closed_loop, bus, listeners, clock)
        self._lockstep = closed_loop.launch.run.mode == "lockstep"
        self._waiting: deque[State] = deque(maxlen=KEPT_STATES)  # states whose goal is not known yet

    def work(self) -> float:
        """As there; in lockstep the states wait until the others have reached their instant."""
        if not self._lockstep:
            return super().work()
        for _, message in self.inbox.receive():
            if isinstance(message, State):
                self._waiting.append(message)
            elif self.active and self.status_is_due():
                self.publish_status(message.k, message.t)
        while self._waiting and self._take_samples(self._waiting[0].k // self.steps_per_period):
            self._on_state(self._waiting.popleft())
        return LOOK_S if self._waiting else POLL_S

    def _take_samples(self, instant: int) -> bool:
        """Take the other robots' states of a control instant; False if one has not reached it."""
        now = self.clock()
        for each in self.followed:
            assert isinstance(each.samples, RobotSamples)
            value = each.samples.at(instant)
            if value is None:
                return False
            each.offer(value, now)
        return True


def target_node_of(closed_loop: ClosedLoop) -> type[TargetNode | LiveTargetNode]:
    """The kind of target node that the goals need."""
    if any(each.state for each in closed_loop.live):
        return FleetTargetNode
    return LiveTargetNode if closed_loop.live else TargetNode
