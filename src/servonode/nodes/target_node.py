"""The target node: publishes the goal, with the derivatives that the law uses, for control instants to come.

A goal that is a known function of time is published before the states, so that the controller never waits for it: the
answer to a state takes one round trip, and every execution mode uses the goal at exactly the state's stamp. The plant's
statuses contain its step; this node needs no states.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from servonode.bus import BusFace, Status, Target, Wanted
from servonode.bus.topology import TARGET
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.node import NO_ARGUMENTS, STATUS_PERIOD_NS, Clock, EventNode
from servonode.nodes.pause import PAUSED, SPEED
from servonode.nodes.predictor import link_periods

CHUNK = 32  # goals published at once in lockstep, where the controller waits for them
LEAST_CHUNK = 4  # smallest chunk in real time: reading one hardly delays an answer
LEAST_AHEAD = 256  # least number of control instants published ahead: twice as many as pass between two statuses
MOST_AHEAD = 1024  # largest number of them: a controller keeps twice as many
STATUSES_AHEAD = 4  # in real time: publish ahead for the time of this many statuses
PAUSE_S = 0.001  # between two chunks
AGAIN_NS = 1_000_000_000  # in real time, where goal time stands: a controller that was frozen has lost what it needs
NONE_LIVE = "no goal of this run comes from outside; state one so in its launch file: [target.NAME] bandwidth = 5.0"


class TargetNode(EventNode):
    """Event-driven by the plant's status; `work` handles what has arrived and publishes one chunk.

    It has more than a dozen attributes: constants of the run, computed once.
    """

    def __init__(
        self, closed_loop: ClosedLoop, bus: BusFace, listeners: Sequence[Wanted], clock: Clock = time.monotonic_ns
    ) -> None:
        super().__init__(TARGET, bus, listeners, clock)
        launch = closed_loop.launch
        assert launch.steps_per_period is not None
        assert launch.period_ns is not None
        self._changes = [(0, closed_loop.targets)]  # from which control instant on goals are of which targets
        self.steps_per_period, self.step_ns = launch.steps_per_period, launch.step_ns
        beyond = (launch.controller.delay if launch.controller else 0) + link_periods(closed_loop)
        self.last = launch.steps // launch.steps_per_period + beyond  # a predictor looks past the end
        self.names = closed_loop.targets.entries
        self._lockstep, self._period_ns = launch.run.mode == "lockstep", launch.period_ns
        self._set_speed(launch.run.speed)
        self._values = np.zeros(len(self.names))
        self._plant_at = -1  # control instant of the goal, by the plant's newest status
        self._plant_k = -1  # step of the plant, by this status
        self._again_ns = 0  # from when on goals are published again while goal time stands
        self._next = 0  # control instant of the goal that is published next
        self._new = 0  # first control instant whose goal was never published
        self._readers = 0  # subscriptions made up to the last status

    def handle_request(self, verb: str, arguments: Mapping[str, Any] = NO_ARGUMENTS) -> dict[str, Any]:
        """The status; a goal is refused, because all of them are functions of time."""
        if verb == "goal":
            return {"refused": NONE_LIVE}
        return super().handle_request(verb, arguments)

    def _set_speed(self, speed: float) -> None:
        """Publish ahead as this speed needs it."""
        self._speed = speed
        passing = STATUSES_AHEAD * STATUS_PERIOD_NS * speed / self._period_ns
        self.ahead = min(max(LEAST_AHEAD, round(passing)), MOST_AHEAD)
        per_pause = PAUSE_S * 1e9 * speed / self._period_ns
        self.chunk = CHUNK if self._lockstep else min(CHUNK, LEAST_CHUNK * max(1, round(per_pause)))

    def work(self) -> float:
        """Take the plant's statuses and publish a chunk; returns how long to sleep [s] until the next one."""
        for _, message in self.inbox.receive():
            assert isinstance(message, Status)
            self._on_status(message)
        if not self.active:
            return np.inf
        last = min(self._plant_at + self.ahead, self.last)
        self._publish(self._next, min(self._next + self.chunk - 1, last))
        return PAUSE_S if self._next <= last else np.inf

    def use(self, numbers: list[float]) -> tuple[int, float]:
        """The goals that are published already stay: the controller may be answering with them."""
        instant, newest = max(self._next, self._new), self._changes[-1]
        if instant > self.last:
            raise ValueError("the goals of the whole run are published; a longer run.duration gives more")
        change = instant, newest[1].with_pieces(np.array(numbers))
        self._changes = [each for each in self._changes if each[0] < instant] + [change]
        k = instant * self.steps_per_period
        return k, k * self.step_ns / 1e9

    def _on_status(self, status: Status) -> None:
        instant = (status.goal_k if status.goal_k >= 0 else status.k) // self.steps_per_period
        if status.run != self.outbox.run:
            self._changes, self._new = [(0, self._changes[-1][1])], 0
        before, self._readers = self._readers, self.outbox.readers()
        anew = status.run != self.outbox.run or self._readers > before  # such as a restarted controller
        self.outbox.run = status.run
        if (speed := status.values.get(SPEED, self._speed)) != self._speed:
            self._set_speed(speed)
        lacks = status.k == self._plant_k and not status.values.get(PAUSED)
        stands = instant == self._plant_at and not self._lockstep and self.clock() >= self._again_ns
        if anew or lacks or stands:  # a start of plant or reader, or a missing goal
            self._next, self._again_ns = instant, self.clock() + AGAIN_NS
        passed = [each for each in self._changes if each[0] <= instant]
        self._changes = [(0, passed[-1][1]), *self._changes[len(passed) :]]
        self._plant_at, self._plant_k = instant, status.k
        self.active, self.t = True, instant * self.steps_per_period * self.step_ns / 1e9
        if self.status_is_due():
            self.publish_status(status.k, status.t)

    def _publish(self, first: int, last: int) -> None:
        goals: list[tuple[int, float, dict[str, Any]]] = []
        for instant in range(first, last + 1):
            k = instant * self.steps_per_period
            t = k * self.step_ns / 1e9
            targets = next(each for begin, each in reversed(self._changes) if begin <= instant)
            targets.evaluate(t, self._values)
            values = self._values.tolist()
            if not all(map(math.isfinite, values)):
                self.outbox.send_all(Target, goals)
                self._fail(k, t)
                return
            goals.append((k, t, {"target": dict(zip(self.names, values, strict=True))}))
        self.outbox.send_all(Target, goals)
        self._next = max(self._next, last + 1)
        self._new = max(self._new, self._next)

    def _fail(self, k: int, t: float) -> None:
        """End the run for a goal that is not finite: publish no more goals, and the reason."""
        worst = self.names[int(np.argmin(np.isfinite(self._values)))]
        text = f"target {worst} is not finite at t = {t:g} s, found as goals are published ahead"
        text += "; correct its expression or shorten the run"
        if self.failed is None:
            self.fail("target", text, self.t)  # the run ends now
            self.publish_status(k, t)
        self._next = self.last + 1
