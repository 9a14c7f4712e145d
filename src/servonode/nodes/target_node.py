"""The target node: publishes the goal, with the derivatives that the law uses.

A goal that is a known function of time is published for control instants to come, before the states, so that the
controller never waits for it: the answer to a state takes one round trip, and every execution mode uses the goal at
exactly the state's stamp. The plant's statuses contain its step; this node needs no states.

A goal from outside cannot be published in advance. A filter computes from the newest sample the derivatives that the
law uses; the controller waits for the goal of a state, which costs the latency of one more message. Of a robot that
follows another one of the launch a goal is a state of that robot: in real time the newest, in lockstep that of the very
control instant, so that every run has the same bits.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from servonode.bus import AnyBus, State, Status, Target, Wanted
from servonode.bus.durations import Clock
from servonode.bus.fleet_memory import LOOK_S, Member, RobotSamples
from servonode.bus.topology import GOAL_HELD, LIVE_TARGET, TARGET
from servonode.bus.zmq_subscriber import Samples
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.goals import LiveGoal
from servonode.controllers.engine.follow_filter import FollowFilter
from servonode.nodes.answerer import goal_step, link_periods
from servonode.nodes.node import NO_ARGUMENTS, STATUS_PERIOD_NS, EventNode
from servonode.nodes.plant_time import PAUSED, SPEED
from servonode.plants.drivers.link_watch import listed

CHUNK = 32  # goals published at once in lockstep, where the controller waits for them
LEAST_CHUNK = 4  # smallest chunk in real time: reading one hardly delays an answer
LEAST_AHEAD = 256  # least number of control instants published ahead: twice as many as pass between two statuses
MOST_AHEAD = 1024  # largest number of them: a controller keeps twice as many
STATUSES_AHEAD = 4  # in real time: publish ahead for the time of this many statuses
PAUSE_S = 0.001  # between two chunks
AGAIN_NS = 1_000_000_000  # in real time, where goal time stands: a controller that was frozen has lost what it needs
NONE_LIVE = "no goal of this run comes from outside; state one so in its launch file: [target.NAME] bandwidth = 5.0"
BEYOND = "range"  # the reason for which a sample is refused that its goal cannot be
POLL_S = 0.02  # how often samples are read while no state comes
KEPT_STATES = 8


class TargetNode(EventNode):
    """Event-driven by the plant's status; `work` handles what has arrived and publishes one chunk.

    It has more than a dozen attributes: constants of the run, computed once.
    """

    def __init__(
        self, closed_loop: ClosedLoop, bus: AnyBus, listeners: Sequence[Wanted], clock: Clock = time.monotonic_ns
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


class _Followed:
    """One goal: its samples, its filter, and when the newest sample came."""

    def __init__(self, goal: LiveGoal, samples: Samples | RobotSamples | None) -> None:
        """samples: what brings its values; None: requests do."""
        self.goal, self.samples = goal, samples
        self.counts = samples.counts if samples else Counter[str]()
        self.filter = FollowFilter(goal.design, goal.start)
        self.newest = goal.start
        self.came_ns = 0  # time of the newest sample; 0: none has come yet
        self.lost = False  # whether its samples have stopped

    def look(self, now: int) -> None:
        """Take what its publisher has sent, where it has one."""
        value = self.samples.newest() if self.samples else None
        if value is not None:
            self.offer(value, now)

    def offer(self, value: float, now: int) -> None:
        """Follow a value from now on, if the goal can be there."""
        if self.goal.complaint(value) is None:
            self.take(value, now)
        else:
            self.counts[BEYOND] += 1

    def take(self, value: float, now: int) -> None:
        """Follow a value from now on."""
        self.newest, self.came_ns, self.lost = value, now, False

    def postpone(self, passed_ns: int) -> None:
        """Leave so long a pause [ns] out of the time since the newest sample."""
        self.came_ns += passed_ns if self.came_ns else 0

    def begin(self, restarted: bool) -> None:
        """Another run begins: at the start, or, where only a fault ended the last one, at rest where the goal was."""
        goes_on = not restarted and self.goal.lost_value is None
        self.newest = float(self.filter.output()[0]) if goes_on else self.goal.start
        self.filter = FollowFilter(self.goal.design, self.newest)

    def lost_s(self, now: int) -> float:
        """For how long it has been lost [s]; below 0: it is not, and never before the first sample."""
        return (now - self.came_ns) / 1e9 - self.goal.timeout if self.came_ns else -math.inf

    def lose(self) -> None:
        """Its samples have stopped: hold the newest, or go to the value for this case."""
        self.lost = True
        rest = self.goal.lost_value
        self.newest = self.newest if rest is None else rest

    @property
    def text(self) -> str:
        """What it has lost, and what it does now."""
        goal, refused = self.goal, listed(self.counts)
        text = f"no sample of {goal.name} has come from {goal.source}" if goal.source else f"no {goal.name} has come"
        text += f" for {goal.timeout:g} s{refused}"
        return text if goal.on_loss == "fault" else f"{text}: {goal.lost_text}"


def _samples_of(goal: LiveGoal, member: Member | None) -> Samples | RobotSamples | None:
    """What brings the values of a goal; None: requests do."""
    if member is not None and goal.state:
        return RobotSamples(member, goal.state)
    return Samples(goal.address, goal.topic, goal.field, goal.timeout) if goal.address else None


class LiveTargetNode(EventNode):
    """Event-driven by the plant's states. It joins filters, the samples of a publisher and their run."""

    def __init__(
        self, closed_loop: ClosedLoop, bus: AnyBus, listeners: Sequence[Wanted], clock: Clock = time.monotonic_ns
    ) -> None:
        super().__init__(TARGET, bus, listeners, clock, LIVE_TARGET)
        launch = closed_loop.launch
        assert launch.steps_per_period is not None
        assert launch.controller is not None
        self.targets, self.names = closed_loop.targets, closed_loop.targets.entries
        self.followed = [_Followed(each, _samples_of(each, closed_loop.member)) for each in closed_loop.live]
        self.steps_per_period, self.step_ns = launch.steps_per_period, launch.step_ns
        beyond = launch.controller.delay + link_periods(closed_loop) + 1  # periods ahead that a predictor needs
        self.ahead = beyond if launch.controller.predictor else 0
        self._values = np.zeros(len(self.names))
        self._k = -1  # step of the goal that was published last
        self._paused, self._looked_ns = False, 0  # whether plant time stands still; time of the last look at samples
        self._in_step = launch.run.mode == "lockstep" and any(each.state for each in closed_loop.live)
        self._waiting: deque[State] = deque(maxlen=KEPT_STATES)  # states for whose goal another robot is waited for

    def work(self) -> float:
        """Take what has arrived, and publish the goal for each control state; sleep until more comes."""
        if self._in_step:
            return self._work_in_step()
        now = self.clock()
        for each in self.followed:
            if self._paused:
                each.postpone(now - self._looked_ns)
            each.look(now)
        self._looked_ns = now
        for _, message in self.inbox.receive():
            if isinstance(message, State):
                self._on_state(message)
            elif isinstance(message, Status):
                self._paused = bool(message.values.get(PAUSED))
                if self.active and self.status_is_due():
                    self.publish_status(message.k, message.t)
        self._watch(now)
        return POLL_S

    def _work_in_step(self) -> float:
        """As `work`; the states wait until the other robots have reached their instant."""
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

    def use(self, numbers: list[float]) -> tuple[int, float]:
        self.targets = self.targets.with_pieces(np.array(numbers))
        k = self._k + self.steps_per_period if self.active else 0
        return k, k * self.step_ns / 1e9

    def _on_state(self, state: State) -> None:
        anew = state.run != self.outbox.run
        if anew and not any(each.lost for each in self.followed):
            self.failed = None  # armed again, and its publishers are back
        if not state.control or self.failed:
            return
        k = goal_step(state)
        if anew:
            for each in self.followed if self._k >= 0 else ():
                each.begin(restarted=k < self._k)
            self.outbox.run, self._k = state.run, k
        for each in self.followed:
            each.filter.advance(each.newest, max(k - self._k, 0) * self.step_ns / 1e9)
        self.active, self._k, self.t = True, k, k * self.step_ns / 1e9
        self._publish(k)

    def _publish(self, k: int) -> None:
        """Publish the goals of step k and of the instants that a predictor needs, for the newest samples."""
        filters = [(each, each.filter.copy()) for each in self.followed]
        goals: list[tuple[int, float, dict[str, Any]]] = []
        for step in range(k, k + self.ahead * self.steps_per_period + 1, self.steps_per_period):
            t = step * self.step_ns / 1e9
            self.targets.evaluate(t, self._values)
            for each, chain in filters:
                self._values[each.goal.entries] = chain.output()
                chain.advance(each.newest, self.steps_per_period * self.step_ns / 1e9)
            values = self._values.tolist()
            if not all(map(math.isfinite, values)):
                self._end(k, f"target {self.names[int(np.argmin(np.isfinite(self._values)))]} is not finite")
                return
            goals.append((step, t, {"target": dict(zip(self.names, values, strict=True))}))
        self.outbox.send_all(Target, goals)

    def _watch(self, now: int) -> None:
        """Where the samples of a goal stop, do what its `on_loss` says; without goals the plant becomes safe."""
        for each in self.followed if self.active else ():
            lost_s = each.lost_s(now)
            if lost_s > 0 and not each.lost:
                each.lose()
                self.counts[f"lost_{each.goal.name}"] += 1
                self.publish_status(max(self._k, 0), self.t)
            if lost_s > each.goal.fault_after and self.failed is None:
                self._end(self._k, each.text)

    def handle_request(self, verb: str, arguments: Mapping[str, Any] = NO_ARGUMENTS) -> dict[str, Any]:
        """Follow the values of a request, all of them or none; or return the status."""
        if verb != "goal":
            return super().handle_request(verb, arguments)
        goal, asked = arguments.get("goal"), {each.goal.name: each for each in self.followed if not each.goal.source}
        if (problem := self._complaint(goal, asked)) is not None:
            self.counts["refused_goals"] += 1
            return {"refused": problem}
        now = self.clock()
        for name, value in (goal or {}).items():
            asked[name].take(float(value), now)
        return {"done": True, "lifecycle": self.lifecycle, "t": self.t}

    def _complaint(self, goal: object, asked: Mapping[str, _Followed]) -> str | None:
        """Why the values of a request are refused, or None. asked: the goals that requests bring, by name."""
        choices = f"choose {', '.join(asked)}" if asked else "give no address in their tables"
        if not isinstance(goal, dict) or not goal:
            return f"no goal is given; {choices}"
        for name, value in goal.items():
            if name not in asked:
                others = {each.goal.name: f"it comes from {each.goal.source}" for each in self.followed}
                known = dict.fromkeys(self.targets.names, "it is a function of time") | others
                why = known.get(name, "it is no target of this run")
                return f"{str(name)[:40]!r} cannot be given: {why}; {choices}"
            if (problem := asked[name].goal.complaint(value)) is not None:
                return problem
        return None

    def values(self) -> dict[str, float]:
        held = not self.failed and any(each.lost for each in self.followed)
        return {GOAL_HELD: 1.0} if held else {}

    def describe(self) -> dict[str, Any]:
        status, held = super().describe(), "; ".join(each.text for each in self.followed if each.lost)
        return status | {"text": status["text"] or held, "held": "" if self.failed else held}

    def _end(self, k: int, text: str) -> None:
        self.fail("target", f"{text}; check its publisher, or give the goal another way", self.t)
        self.publish_status(max(k, 0), self.t)

    def all_counts(self) -> dict[str, int]:
        found = super().all_counts()
        for each in self.followed:
            found |= {f"samples_{each.goal.name}_{reason}": n for reason, n in each.counts.items()}
        return found


def target_node_of(closed_loop: ClosedLoop) -> type[TargetNode | LiveTargetNode]:
    """The kind of target node that the goals need."""
    return LiveTargetNode if closed_loop.live else TargetNode
