"""The plant in real time: an absolute grid on the monotonic clock, and the watch over stale commands.

A command that arrives between two grid points acts from the step in which it arrives: steps whose time has
passed are first integrated under the old input. So an answer that comes within one step is a perfect
zero-order hold, and a later one is late by whole steps, as on a device that is written at its own rate.
"""

import time

from servonode.nodes.node import PLANT, Durations
from servonode.nodes.plant_node import PlantNode, await_answer

NAP_S = 0.05  # the longest sleep that no signal ends
STALL_SHARE = 0.5  # own lateness above this share of the command timeout is a stall of the host, not of a node


class RealTime:
    """Drives a plant node at `speed` plant seconds per wall second."""

    def __init__(
        self, node: PlantNode, speed: float, command_timeout: float | None, on_fault: str, first_timeout_s: float
    ) -> None:
        self.node = node
        self.step_wall_ns = node.plant.step_ns / speed
        self.timeout_ns = None if command_timeout is None else round(command_timeout * 1e9)
        self.on_fault = on_fault
        self.first_timeout_s = first_timeout_s  # wall s that the first answer may take
        self.lateness = Durations()
        self.misses = 0
        self.stalls = 0
        self.start_ns = 0
        self.end_ns = 0
        self._unanswered_since: int | None = None
        self._stale = False
        self._excused = False  # a stall of the host has already begun this wait afresh

    def run(self) -> None:
        """From the first state to the last, or to the first fault that is not to be resumed from."""
        node = self.node
        node.publish_status("active")
        node.publish_state()
        if node.awaits_answer() and not await_answer(node, self.first_timeout_s):
            node.come_to_rest()
            node.finish()  # the clock starts with the first answer: nobody is late for a run that has not begun
            return
        self.start_ns = node.clock()
        while node.k < node.steps and not node.stop:
            event = node.next_event()
            deadline = self._deadline(event)
            if not self._wait(event, deadline):
                break
            node.advance_to(event)
            if node.failed and not self._resumes():
                break
            self._keep_time(event, deadline)
            if not self._may_go_on():  # also when every deadline has passed before it was waited for
                break
            node.publish_state()
            self._expect()
            node.status_if_due(rate=self.rate(), lateness=self.lateness.recent(), misses=float(self.misses))
        node.come_to_rest(self._wait_for)
        self.end_ns = node.clock()
        node.finish()

    def _wait_for(self, step: int) -> None:
        """Sleep to the time of a plant step, deaf to commands."""
        while not self.node.stop and (now := self.node.clock()) < (deadline := self._deadline(step)):
            time.sleep(min((deadline - now) / 1e9, NAP_S))

    def _deadline(self, step: int) -> int:
        """The monotonic time [ns] of a plant step: computed anew from the start, so nothing adds up."""
        return self.start_ns + round(step * self.step_wall_ns)

    def rate(self) -> float:
        """Plant seconds per wall second since the start."""
        wall = (self.end_ns or self.node.clock()) - self.start_ns
        return self.node.k * self.node.plant.step_ns / wall if wall > 0 else 0.0

    def _wait(self, event: int, deadline: int) -> bool:
        """Sleep to the deadline, taking commands as they arrive; False when the run must end."""
        node = self.node
        node.act()  # what is due at this instant; only an answer that comes now must wait for the steps before it
        while True:
            fresh = node.take_commands()  # drained before anything is judged
            now = node.clock()
            if fresh:
                self._answered(now)
                passed = int((now - self.start_ns) / self.step_wall_ns)
                node_step = max(node.k, min(passed, event - 1))
                self._integrate_old(node_step)
            if node.stop or (node.failed and not self._resumes()):
                return False
            if now >= deadline:
                return True
            if not self._may_go_on():
                return False
            node.bus.wait(deadline)

    def _integrate_old(self, step: int) -> None:
        """Integrate what has passed under the input that was acting, before the new one acts."""
        node = self.node
        if step > node.k:
            waiting, node._later = node._later, {}
            node.advance_to(step)
            if not node.failed:
                node._later = waiting

    def _keep_time(self, event: int, deadline: int) -> None:
        """Count lateness: past the next event is a miss, half a command timeout late a stall of the host."""
        now = self.node.clock()
        late = now - deadline
        self.lateness.add(late / 1e9)
        self.misses += event < self.node.steps and now >= self._deadline(self.node.next_event())
        if self.timeout_ns is not None and late > STALL_SHARE * self.timeout_ns:
            self.stalls += 1
            if self._unanswered_since is not None and not self._excused:
                self._unanswered_since = now  # whoever shares this host was stalled too: wait afresh, but once
                self._excused = True

    def _expect(self) -> None:
        if self.node.awaits_answer() and self._unanswered_since is None:
            self._unanswered_since = self.node.clock()

    def _answered(self, now: int) -> None:
        self._unanswered_since = now if self.node.awaits_answer() else None
        self._excused = False
        if self._stale:
            self._stale = False
            self.node.counts["resumed"] += 1

    def _may_go_on(self) -> bool:
        """Judge how long a command has been awaited; False when that ends the run."""
        if not self._is_stale(self.node.clock()):
            return True
        self._go_stale()
        return self._resumes()

    def _is_stale(self, now: int) -> bool:
        return (
            self.timeout_ns is not None
            and not self._stale
            and self._unanswered_since is not None
            and now - self._unanswered_since > self.timeout_ns
        )

    def _go_stale(self) -> None:
        """The safe action because no fresh command answers the states."""
        assert self.timeout_ns is not None
        self._stale = True
        action = "the machine's safe action" if self.node.brakes else "zero input"
        text = f"no fresh command for {self.timeout_ns / 1e6:.0f} ms: {action}; is the controller alive?"
        if self._resumes():
            self.node.counts["stale_commands"] += 1
            self.node.safe()
        else:
            self.node.fault("stale_command", text, PLANT)

    def _resumes(self) -> bool:
        """Whether a stale command only stops the inputs; other faults always end the run."""
        return self.on_fault == "resume" and not self.node.failed
