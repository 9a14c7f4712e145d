"""The plant in real time: an absolute grid on the monotonic clock, and the watchdog of commands.

A command that arrives between two grid points acts from the step in which it arrives: steps whose time has
passed are first let pass under the old input. So an answer that comes within one step is a perfect
zero-order hold, and a later one is late by whole steps, as on a device that is written at its own rate.
"""

from typing import Any

from servonode.nodes.fault_ladder import SafeState
from servonode.nodes.lateness import Lateness
from servonode.nodes.lockstep import await_answer
from servonode.nodes.pace import Pace
from servonode.nodes.plant_node import PlantNode
from servonode.nodes.safe_action import come_to_rest
from servonode.nodes.watchdog import CommandWatchdog

NAP_NS = 50_000_000  # the longest sleep without a look at `stop`
STOPPING_NS = 2_000_000_000  # of the safe action, when an external plant is stopped while it is armed


class StepTimes:
    """When plant steps are due on the monotonic clock, each computed from the start, so that no error adds up.

    step_ns: between two of them [ns, wall clock].
    """

    def __init__(self, step_ns: float) -> None:
        self.start_ns = 0  # of step 0
        self.step_ns = step_ns

    def due(self, step: int) -> int:
        """The clock [ns] at which a step is due."""
        return self.start_ns + round(step * self.step_ns)

    def step(self, now: int) -> int:
        """The newest step that is due at a time [ns] of the clock."""
        return int((now - self.start_ns) / self.step_ns)


class RealTime(Pace):
    """Drives a plant node at `speed` plant seconds per second of wall-clock time.

    first_timeout_s: how long the first answer may take, at the beginning of the run and after each arming.
    """

    def __init__(self, node: PlantNode, speed: float, command_timeout: float | None, first_timeout_s: float) -> None:
        self.node = node
        self.guard = node.guard
        self.times = StepTimes(node.plant.step_ns / speed)
        timeout_ns = None if command_timeout is None else round(command_timeout * 1e9)
        self._timeout_ns, self._first_timeout_s = timeout_ns, first_timeout_s
        self.watchdog = CommandWatchdog(self.guard, timeout_ns, round(first_timeout_s * 1e9))
        self.lateness = Lateness(round(node.closed_loop.safety.lateness_limit * 1e9), timeout_ns)
        self.end_ns = 0
        self._woken = 0  # clock of the last wake-up
        self._status_kept = True  # in this tick

    def run(self) -> None:
        """From the first state to the last, or to the first fault that ends the run."""
        node = self.node
        node.status.publish()
        node.plant.arrived()  # a machine's newest state, not the one at which the run was armed
        node.publish_state()
        if self.guard.answers.are_due() and not await_answer(node, self._first_timeout_s) and node.must_end():
            come_to_rest(node)
            node.finish()  # the clock starts with the first answer: nobody is late for a run that has not begun
            return
        self.guard.answers.oldest_ns = self._timeout_ns
        self.times.start_ns = self._woken = node.clock()
        node.pace = self
        self.lateness.begin()
        self._judge(self.times.start_ns)
        while node.plant.k < node.grid.steps and not node.stop and not node.must_end():
            event = node.grid.next_event(node.plant.k)
            deadline = self.times.due(event)
            if not self._wait(deadline):
                break
            node.advance_to(event)
            self._judge(self._keep_time(event, deadline))
            if node.must_end():
                break
            if node.grid.is_control(node.plant.k):
                self.guard.count_repeats(node.grid.instant(node.plant.k))
            node.publish_state()  # and then to sleep: what can wait is done when the answer has come
            if node.grid.is_control(node.plant.k):  # also where the sensor has lost the state
                self.watchdog.expect(node.clock())
            node.status.execution.add((node.clock() - self._woken) / 1e9)
            self._status_kept = False
        if self.guard.failed:
            come_to_rest(node, self._wait_for)
        elif node.stop and not node.plant.simulated and self.guard.disarm() is None:
            node.stop = node.stops > 1  # an external plant comes to rest before it is closed; a second stop skips that
            come_to_rest(node, self._wait_for, round(STOPPING_NS / self.times.step_ns))
        self.end_ns = node.clock()
        node.finish()

    def values(self) -> dict[str, float]:
        """What a status says of this plant's time."""
        return {"rate": self.rate(), **self.lateness.values()}

    def summary(self) -> dict[str, Any]:
        """How time was kept."""
        late = self.lateness
        return {
            "rate": self.rate(),
            "misses": late.misses,
            "stalls": late.stalls,
            "overruns": late.overruns,
            "lateness_s": late.durations.percentiles(),
            "wall_s": (self.end_ns - self.times.start_ns) / 1e9,
        }

    def _wait_for(self, step: int) -> None:
        """Sleep to the time of a plant step; no command acts, but the operator is answered."""
        node = self.node
        while not node.stop and (now := node.clock()) < (deadline := self.times.due(step)):
            node.bus.wait(min(deadline, now + NAP_NS))
            node.take_commands()

    def rate(self) -> float:
        """Plant seconds per second of wall-clock time since the start."""
        wall = (self.end_ns or self.node.clock()) - self.times.start_ns
        return self.node.plant.k * self.node.plant.step_ns / wall if wall > 0 else 0.0

    def _wait(self, deadline: int) -> bool:
        """Sleep to the deadline, taking commands as they arrive; False when the run must end."""
        node = self.node
        node.act()  # what is due at this instant; only an answer that comes now must wait for the steps before it
        slept = False
        while True:
            fresh = node.take_commands()  # drained before anything is judged
            now = node.clock()
            if fresh:
                if self.watchdog.overdue:
                    node.counts["resumed"] += 1
                self.watchdog.answered(now, self.guard.answers.are_due())
                self.catch_up()
                node.act()
                self._keep_status()
                now = node.clock()  # a stall within that work shows as lateness first, before anybody is judged
            if node.stop or node.must_end():
                return False
            if now >= deadline:
                self._keep_status()
                if not slept:
                    node.poll_requests()
                self._woken = now
                return True
            self._judge(now)
            if node.must_end():
                return False
            node.bus.wait(min(deadline, self.watchdog.expires() or deadline))
            slept = True

    def _keep_status(self) -> None:
        """Publish the status if it is due, once a tick and where it disturbs least."""
        if not self._status_kept:
            self._status_kept = True
            self.node.status.if_due()

    def present_step(self) -> int:
        """The plant step whose time has come, before the next event: what arrives now acts from it on."""
        return min(self.times.step(self.node.clock()), self.node.grid.next_event(self.node.plant.k) - 1)

    def catch_up(self) -> None:
        """Let the steps pass whose time has come."""
        step = self.present_step()
        if step > self.node.plant.k:
            self.node.advance_to(step)

    def _keep_time(self, event: int, deadline: int) -> int:
        """Count how late this event is, and whether the next one is missed; the clock [ns] of it.

        Too late is a fault of an armed plant. A stall is no fault of the controller's, which was stalled too.
        """
        node, late = self.node, self.lateness
        now = node.clock()
        late.misses += event < node.grid.steps and now >= self.times.due(node.grid.next_event(node.plant.k))
        if late.count(now - deadline, self.times.step_ns):
            node.plant.restart_timeouts(now)
            self.watchdog.begin_afresh(now)
        if self.guard.lifecycle.accepts_commands and (found := late.fault()) is not None:
            node.fault(*found)
        return now

    def obstacle(self) -> str | None:
        """Why the plant cannot be armed now: it has still to catch up with the clock."""
        return self.lateness.obstacle()

    def _judge(self, now: int) -> None:
        """Judge the machine's link, and how long a command has been owed, by the clock by which lateness was judged."""
        found = self.node.link.fault(now)
        if found is not None:
            self.node.fault(*found)
        if not self.guard.lifecycle.accepts_commands:
            self.watchdog.forget()
        expires = self.watchdog.expires()
        if expires is not None and now > expires:
            self._go_stale()

    def _go_stale(self) -> None:
        """The safe action because no fresh command answers the states."""
        limit = self.watchdog.allowed_ns or 0
        self.catch_up()
        if self.node.closed_loop.safety.on_fault == "resume":
            self.watchdog.overdue = True
            self.node.counts["stale_commands"] += 1
            self.guard.ladder.passing = SafeState.DAMP
            self.guard.limiter.start_softly()
            self.guard.safe("stale_command")
        else:
            action = "the machine's safe action" if self.guard.output.safe_action.stated else "zero input"
            text = f"no fresh command for {limit / 1e6:.0f} ms: {action}; check that the controller is running"
            self.node.fault("stale_command", text)
