"""The plant in real time: an absolute grid on the monotonic clock, and the watch over what stays away.

A command that arrives between two grid points acts from the step in which it arrives: steps whose time has
passed are first let pass under the old input. So an answer that comes within one step is a perfect
zero-order hold, and a later one is late by whole steps, as on a device that is written at its own rate.
"""

import time
from typing import Any

from servonode.bus import Lifecycle
from servonode.nodes.durations import Durations
from servonode.nodes.fault_ladder import SafeState
from servonode.nodes.lockstep import await_answer
from servonode.nodes.pace import Pace
from servonode.nodes.plant_node import PlantNode
from servonode.nodes.topology import PLANT

NAP_NS = 50_000_000  # the longest sleep that looks at nothing
STOPPING_NS = 2_000_000_000  # of the safe action, when an external plant is stopped while it is armed
OWN_SHARE = 0.5  # of a sudden lateness: with so much of it spent computing, it is no stall of the host
STALL_SHARE = 0.5  # of the command timeout: a sudden lateness of more is not the controller's fault


class RealTime(Pace):
    """Drives a plant node at `speed` plant seconds per wall second."""

    def __init__(self, node: PlantNode, speed: float, command_timeout: float | None, first_timeout_s: float) -> None:
        self.node = node
        self.guard = node.guard
        self.step_wall_ns = node.plant.step_ns / speed
        self.timeout_ns = None if command_timeout is None else round(command_timeout * 1e9)
        self.resumes = node.closed_loop.safety.on_fault == "resume"
        self.first_ns = round(first_timeout_s * 1e9)  # how long the first answer may take
        self.limit_ns = round(node.closed_loop.safety.lateness_limit * 1e9)
        self.stall_ns = round(STALL_SHARE * min(self.timeout_ns or self.limit_ns, self.limit_ns))
        self.lateness = Durations()
        self.misses = self.stalls = self.overruns = 0
        self.start_ns = self.end_ns = 0
        self._since: int | None = None  # clock from which a command has been owed
        self._stale = False
        self._excused = False  # a stall of the host has begun this wait afresh
        self._woken = 0  # clock of the last wake-up
        self._late = self._computed = 0  # lateness and own computing time, when last judged
        self._stalled_ns = 0  # of the lateness, how much came of stalls
        self._kept = True

    def run(self) -> None:
        """From the first state to the last, or to the first fault that ends the run."""
        node = self.node
        node.status.publish()
        node.plant.arrived()  # a machine's newest state, not the one at which the run was armed
        node.publish_state()
        if node.awaits_answer() and not await_answer(node, self.first_ns / 1e9) and node.must_end():
            node.come_to_rest()
            node.finish()  # the clock starts with the first answer: nobody is late for a run that has not begun
            return
        self.guard.oldest_ns = self.timeout_ns
        self.start_ns = self._woken = node.clock()
        node.pace = self
        self._computed = time.thread_time_ns()
        self._judge(self.start_ns)
        while node.plant.k < node.steps and not node.stop and not node.must_end():
            event = node.next_event()
            deadline = self._deadline(event)
            if not self._wait(deadline):
                break
            node.advance_to(event)
            self._judge(self._keep_time(event, deadline))
            if node.must_end():
                break
            if node.is_control(node.plant.k):
                self.guard.count_repeats(node.instant)
            node.publish_state()  # and then to sleep: what can wait is done when the answer has come
            self._expect()
            node.status.execution.add((node.clock() - self._woken) / 1e9)
            self._kept = False
        if node.failed:
            node.come_to_rest(self._wait_for)
        elif node.stop and not node.plant.simulated and self.guard.disarm() is None:
            node.stop = node.stops > 1  # an external plant comes to rest before it is let go; a second stop skips that
            node.come_to_rest(self._wait_for, round(STOPPING_NS / self.step_wall_ns))
        self.end_ns = node.clock()
        node.finish()

    def values(self) -> dict[str, float]:
        """What a status says of this plant's time."""
        counted = {"misses": float(self.misses), "stalls": float(self.stalls), "overruns": float(self.overruns)}
        return {"rate": self.rate(), "lateness": self.lateness.recent(), **counted, **self.lateness.flat("lateness")}

    def summary(self) -> dict[str, Any]:
        """How time was kept."""
        return {
            "rate": self.rate(),
            "misses": self.misses,
            "stalls": self.stalls,
            "overruns": self.overruns,
            "lateness_s": self.lateness.percentiles(),
            "wall_s": (self.end_ns - self.start_ns) / 1e9,
        }

    def _wait_for(self, step: int) -> None:
        """Sleep to the time of a plant step, deaf to commands but not to the operator."""
        node = self.node
        while not node.stop and (now := node.clock()) < (deadline := self._deadline(step)):
            node.bus.wait(min(deadline, now + NAP_NS))
            node.take_commands()

    def _deadline(self, step: int) -> int:
        """The monotonic time [ns] of a plant step: computed anew from the start, so nothing adds up."""
        return self.start_ns + round(step * self.step_wall_ns)

    def rate(self) -> float:
        """Plant seconds per wall second since the start."""
        wall = (self.end_ns or self.node.clock()) - self.start_ns
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
                self._answered(now)
                self.catch_up()
                node.act()
                self._keep_house()
                now = node.clock()  # a stall within that work shows as lateness first, before anybody is judged
            if node.stop or node.must_end():
                return False
            if now >= deadline:
                self._keep_house()
                if not slept:
                    node.poll_requests()
                self._woken = now
                return True
            self._judge(now)
            if node.must_end():
                return False
            node.bus.wait(min(deadline, self._stale_at() or deadline))
            slept = True

    def _keep_house(self) -> None:
        """Once a tick, where it disturbs least: the status, if it is due."""
        if not self._kept:
            self._kept = True
            self.node.status.if_due()

    def present_step(self) -> int:
        """The plant step whose time has come, before the next event: what arrives now acts from it on."""
        return min(self._passed(self.node.clock()), self.node.next_event() - 1)

    def _passed(self, now: int) -> int:
        """The plant step whose time has come."""
        return int((now - self.start_ns) / self.step_wall_ns)

    def catch_up(self) -> None:
        """Let the steps pass whose time has come."""
        step = self.present_step()
        if step > self.node.plant.k:
            self.node.advance_to(step)

    def _keep_time(self, event: int, deadline: int) -> int:
        """Count lateness: past the next event is a miss; much later a stall of the host or an overrun of our own.

        Beyond the limit it is a fault. A stall is no fault of the controller's, which was stalled too. The clock that
        was looked at comes out.
        """
        node = self.node
        now, computed = node.clock(), time.thread_time_ns()
        late = now - deadline
        grew, used = late - self._late, computed - self._computed
        self._late, self._computed = late, computed
        self.lateness.add(late / 1e9)
        self.misses += event < node.steps and now >= self._deadline(node.next_event())
        if late < self.step_wall_ns:
            self._stalled_ns = 0
        if grew > self.stall_ns and used < OWN_SHARE * grew:  # it did not run, nor did who shares this host
            self.stalls += 1
            self._stalled_ns += grew
            node.plant.restart_timeouts(now)
            if self._since is not None and not self._excused:  # once: a host that stalls on and on is no excuse
                self._since, self._excused = now, True
        elif late > self.stall_ns and grew > 0:
            self.overruns += 1
        if late > self.limit_ns and self.guard.lifecycle.accepts_commands:
            self._too_late(late, own=self._stalled_ns < late / 2)
        return now

    def obstacle(self) -> str | None:
        """Why the plant cannot be armed now: it has still to catch up with the clock."""
        if self._late <= self.limit_ns:
            return None
        return f"the plant is {self._late / 1e9:.3g} s behind the clock; wait until it has caught up"

    def _too_late(self, late: int, own: bool) -> None:
        if own:
            remedy = (
                "it computes for longer than the time it has; lower run.speed, lengthen plant.step, or use lockstep"
            )
            self.node.fault("overrun", f"the plant is {late / 1e9:.3g} s behind the clock: {remedy}", PLANT)
        else:
            remedy = "the computer or the process was stopped, or is too busy"
            self.node.fault("host_stall", f"the plant did not run for {late / 1e9:.3g} s: {remedy}", PLANT)

    def _expect(self) -> None:
        """From a control instant on a command is owed, also where the sensor has lost its state."""
        if self._since is None and self.node.is_control(self.node.plant.k):
            self._since = self.node.clock()

    def _answered(self, now: int) -> None:
        self._since = now if self.node.awaits_answer() else None
        self._excused = False
        if self._stale:
            self._stale = False
            self.node.counts["resumed"] += 1

    def _judge(self, now: int) -> None:
        """Judge the machine's link, and how long a command has been owed, by the clock by which lateness was judged."""
        node, guard = self.node, self.guard
        trouble = node.link_fault(now)
        if trouble is not None:
            node.fault(*trouble, PLANT)
        if not guard.lifecycle.accepts_commands:
            self._since, self._stale = None, False  # unarmed, nothing is owed
        stale_at = self._stale_at()
        if stale_at is not None and now > stale_at:
            self._go_stale()

    @property
    def _awaited_ns(self) -> int | None:
        """How long a command may be owed [ns, wall clock]; None: for ever, which only `unsafe` allows."""
        return (
            self.first_ns
            if self.guard.lifecycle is Lifecycle.ARMING and self.timeout_ns is not None
            else self.timeout_ns
        )

    def _stale_at(self) -> int | None:
        """The clock at which the command that is owed is overdue; None where none is owed or that is known already."""
        if self._since is None or self._stale or self._awaited_ns is None:
            return None
        return self._since + self._awaited_ns

    def _go_stale(self) -> None:
        """The safe action because no fresh command answers the states."""
        limit = self._awaited_ns or 0
        self.catch_up()
        action = "the machine's safe action" if self.guard.has_safe_action else "zero input"
        text = f"no fresh command for {limit / 1e6:.0f} ms: {action}; is the controller alive?"
        if self.resumes:
            self._stale = True
            self.node.counts["stale_commands"] += 1
            self.guard.ladder.passing = SafeState.DAMP
            self.guard.start_softly()
            self.guard.safe("stale_command")
        else:
            self.node.fault("stale_command", text, PLANT)
