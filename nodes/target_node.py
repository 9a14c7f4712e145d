"""The target node: publishes the goal's position, velocity and acceleration for control instants to come.

A goal that is a known function of time is published ahead of the states, so that the controller never waits
for it: the answer to a state costs one round trip, and every rung uses the goal at exactly the state's stamp.
"""

import time
from collections import Counter
from typing import Any

import numpy as np

from servonode.bus import BusFace, State, Status, Target, subscriptions_expected
from servonode.bus.faces import Wanted
from servonode.controllers.program import derivative_name
from servonode.nodes.assembly import Assembly
from servonode.nodes.node import STATUS_PERIOD_NS, TARGET, WANTED, Clock, Fault, Outbox

AHEAD = 32  # control instants published ahead; refilled when half of them are used


class TargetNode:
    """Event-driven by the plant's states; `work` handles what has arrived and returns."""

    def __init__(
        self, assembly: Assembly, bus: BusFace, listeners: list[Wanted], clock: Clock = time.monotonic_ns
    ) -> None:
        launch = assembly.launch
        assert launch.steps_per_period is not None
        self.bus = bus
        self.clock = clock
        self.targets = assembly.targets
        self.steps_per_period, self.step_ns, self.steps = launch.steps_per_period, launch.step_ns, launch.steps
        self.inbox = bus.subscriber(WANTED[TARGET])
        self.outbox = Outbox(TARGET, bus.publisher(subscriptions_expected(TARGET, listeners)), clock)
        order = self.targets.order
        self.names = [derivative_name(name, i) for name in self.targets.names for i in range(order + 1)]
        self.counts: Counter[str] = Counter()
        self.faults: list[Fault] = []
        self.stop = False
        self._values = np.zeros(len(self.names))
        self._next = 0  # first control instant not yet published
        self._seen = -1  # seq of the newest control state
        self._status_due = 0

    def work(self) -> None:
        """Keep the published goals ahead of the newest state."""
        newest: State | None = None
        for _, message in self.inbox.receive():
            assert isinstance(message, State)
            if message.control:
                if message.seq == self._seen and message.run == self.outbox.run:
                    self._publish_from(message.k // self.steps_per_period)  # the plant asked again: resend
                newest = message
        if newest is None:
            return
        if newest.run != self.outbox.run:
            self.outbox.run, self._next = newest.run, newest.k // self.steps_per_period
        self._seen = newest.seq
        now = newest.k // self.steps_per_period
        if self._next - now <= AHEAD // 2:
            self._publish_from(max(self._next, now))
        self._report(newest)

    def _publish_from(self, instant: int) -> None:
        """Publish the goals of `instant` and the AHEAD ones that follow."""
        last = self.steps // self.steps_per_period
        for each in range(instant, min(instant + AHEAD, last) + 1):
            k = each * self.steps_per_period
            t = k * self.step_ns / 1e9
            self.targets.evaluate(t, self._values)
            self.outbox.send(Target, k, t, target=dict(zip(self.names, self._values.tolist(), strict=True)))
            self._next = each + 1

    def _report(self, state: State) -> None:
        if self.clock() < self._status_due:
            return
        self._status_due = self.clock() + STATUS_PERIOD_NS
        self.outbox.send(
            Status, state.k, state.t, lifecycle="active", counts=dict(self.counts), values={}
        )

    def summary(self) -> dict[str, Any]:
        """What the launcher needs of the target when the run is over."""
        return {"faults": [], "counts": {f"refused_{name}": n for name, n in self.inbox.counts.items()}}
