"""The plant in real time: an absolute grid on the monotonic clock, the watchdog of commands, how late it is.

A command that arrives between two grid points acts from the step in which it arrives: the plant first advances to that
step under the old input. So an answer within one step gives an exact zero-order hold, and a later one is late by whole
steps, as on a device that is written at its own rate.
"""

import time
from typing import Any

from servonode.bus import Lifecycle
from servonode.bus.durations import Durations
from servonode.closed_loop.hosts import is_networked
from servonode.nodes.fault_ladder import SafeState
from servonode.nodes.guard import Guard
from servonode.nodes.lockstep import await_answer, come_to_rest
from servonode.nodes.network_latency import NetworkLatency, StepTimes
from servonode.nodes.plant_node import PlantNode
from servonode.nodes.plant_time import Pace

NAP_NS = 50_000_000  # the longest sleep without a look at `stop`
SILENCE_NS = 250_000_000  # shortest time without a sign of life, after which another robot counts as stopped
STOPPING_NS = 2_000_000_000  # time of the safe action when an external plant is stopped while it is armed
OWN_SHARE = 0.5  # share of a sudden lateness; if the process computed for so much of it, the host did not stall
STALL_SHARE = 0.5  # share of the command timeout; a sudden lateness of more is not the controller's fault


class Lateness:
    """Counts how late each wake-up is. limit_ns: a lateness beyond it is a fault of an armed plant."""

    def __init__(self, limit_ns: int, timeout_ns: int | None) -> None:
        self.limit_ns = limit_ns
        self.durations = Durations()
        self.misses = self.stalls = self.overruns = 0
        self.set_timeout(timeout_ns)
        self._late = self._stalled_ns = 0  # lateness of the newest wake-up [ns], and the part of it due to stalls
        self._computed = time.thread_time_ns()  # own computing time up to that wake-up

    def set_timeout(self, timeout_ns: int | None) -> None:
        """Judge stalls by this timeout of commands from now on."""
        self._stall_ns = round(STALL_SHARE * min(timeout_ns or self.limit_ns, self.limit_ns))

    def begin(self) -> None:
        """Count own computing time from now on."""
        self._computed = time.thread_time_ns()

    def count(self, late: int, step_ns: float) -> bool:
        """Count a wake-up that is `late` [ns], with plant steps of `step_ns`; returns whether the host stalled.

        A sudden lateness is a stall, or an overrun if this process itself computed meanwhile.
        """
        computed = time.thread_time_ns()
        grew, used = late - self._late, computed - self._computed
        self._late, self._computed = late, computed
        self.durations.add(late / 1e9)
        if late < step_ns:
            self._stalled_ns = 0
        if grew > self._stall_ns and used < OWN_SHARE * grew:  # this process did not run, nor did others on this host
            self.stalls += 1
            self._stalled_ns += grew
            return True
        self.overruns += late > self._stall_ns and grew > 0
        return False

    def fault(self) -> tuple[str, str] | None:
        """Name and text of the fault if the newest wake-up was later than the limit, else None."""
        if self._late <= self.limit_ns:
            return None
        if self._stalled_ns < self._late / 2:
            remedy = (
                "a step takes longer to compute than it lasts; lower run.speed, lengthen plant.step, or use lockstep"
            )
            return "overrun", f"the plant is {self._late / 1e9:.3g} s behind the clock: {remedy}"
        remedy = "the computer or the process was suspended, or is too busy"
        return "host_stall", f"the plant did not run for {self._late / 1e9:.3g} s: {remedy}"

    def obstacle(self) -> str | None:
        """Why the plant cannot be armed now: it is behind the clock; None: it can."""
        if self._late <= self.limit_ns:
            return None
        return f"the plant is {self._late / 1e9:.3g} s behind the clock; wait until it has caught up"

    def values(self) -> dict[str, float]:
        """The values for a status, by flat names."""
        counted = {"misses": float(self.misses), "stalls": float(self.stalls), "overruns": float(self.overruns)}
        return {"lateness": self.durations.recent(), **counted, **self.durations.flat("lateness")}


class CommandWatchdog:
    """Measures how long a command has been due.

    timeout_ns: the longest time [ns, wall clock]; None: any. first_ns: that of the first command after an arming.
    overdue: whether a command has been due for too long, and the plant waits for the next one without a fault.
    """

    def __init__(self, guard: Guard, timeout_ns: int | None, first_ns: int) -> None:
        self.overdue = False
        self._guard = guard
        self._timeout_ns, self._first_ns = timeout_ns, first_ns
        self._since: int | None = None  # time since which a command has been due
        self._afresh = False  # whether this wait was restarted after a stall of the host

    @property
    def allowed_ns(self) -> int | None:
        """How long a command may be due at present [ns, wall clock]; None: any time, which only `unsafe` allows."""
        arming = self._guard.lifecycle is Lifecycle.ARMING and self._timeout_ns is not None
        return self._first_ns if arming else self._timeout_ns

    def expect(self, now: int) -> None:
        """Note that a command is due from now on, if none is due already."""
        if self._since is None:
            self._since = now

    def answered(self, now: int, still_owed: bool) -> None:
        """Note a command. still_owed: whether the newest state still waits for its answer."""
        self._since = now if still_owed else None
        self._afresh = self.overdue = False

    def postpone(self, passed_ns: int, still_owed: bool) -> None:
        """After a pause of so long [ns], wait for as long as was left before it, if a command is still due."""
        if self._since is not None:
            self._since = self._since + passed_ns if still_owed else None

    def set_timeout(self, timeout_ns: int | None, now: int) -> None:
        """Allow so long a time from now on; of what was left of a wait, the same share is left."""
        if self._since is not None and timeout_ns and self._timeout_ns:
            self._since = now - round((now - self._since) * timeout_ns / self._timeout_ns)
        self._timeout_ns = timeout_ns

    def forget(self) -> None:
        """Note that no command is due, because the plant is not armed."""
        self._since, self.overdue = None, False

    def begin_afresh(self, now: int) -> None:
        """After a stall of the host, wait again from now on; only once, so that many stalls hide no fault."""
        if self._since is not None and not self._afresh:
            self._since, self._afresh = now, True

    def expires(self) -> int | None:
        """The time at which the due command is overdue; None where none is due or it is overdue already."""
        allowed = self.allowed_ns
        if self._since is None or self.overdue or allowed is None:
            return None
        return self._since + allowed


class RealTime(Pace):
    """Drives a plant node at `speed` plant seconds per second of wall-clock time.

    first_timeout_s: the timeout of the first answer, at the beginning of the run and after each arming.
    """

    def __init__(self, node: PlantNode, speed: float, command_timeout: float | None, first_timeout_s: float) -> None:
        self.node = node
        self.guard = node.guard
        self.times = StepTimes(node.plant.step_ns / speed)
        timeout_ns = None if command_timeout is None else round(command_timeout * 1e9)
        self._timeout_ns, self._first_timeout_s = timeout_ns, first_timeout_s
        self.watchdog = CommandWatchdog(self.guard, timeout_ns, round(first_timeout_s * 1e9))
        self.lateness = Lateness(round(node.closed_loop.safety.lateness_limit * 1e9), timeout_ns)
        self.begin_ns = self.end_ns = 0
        self._speed: float | None = speed
        self._woken = 0  # time of the last wake-up
        period_ns = (node.closed_loop.launch.period_ns or 0) / node.closed_loop.launch.run.speed
        self._silence_ns = max(SILENCE_NS, round(3 * period_ns))  # without a sign of life, another robot has stopped
        self._looked = self._judged_from = 0  # times of the newest look at the others, and from which they are judged
        self._status_kept = True  # whether the status was handled in this tick

    def run(self) -> None:
        """Run from the first state to the last, or to the first fault that ends the run."""
        node = self.node
        node.status.publish()
        if node.plant.remote is not None:
            node.plant.remote.arrived()  # takes the machine's newest state: that of the arming is old
        node.keep_pause()
        node.publish_state()
        if self.guard.answers.are_due() and not await_answer(node, self._first_timeout_s) and node.must_end():
            come_to_rest(node)
            node.finish()  # without a first answer the clock of the run never starts
            return
        self.guard.answers.oldest_ns = self._timeout_ns
        self.times.start_ns = self.begin_ns = self._woken = self._common_start()
        self.guard.network = self._network()
        node.pace = self
        self.lateness.begin()
        self._judge(self.times.start_ns)
        while node.plant.k < node.grid.steps and not node.stop and not node.must_end():
            event = node.grid.next_event(node.plant.k)
            if not self._wait(event):
                break
            deadline = self.times.due(event)
            node.advance_to(event)
            self._judge(self._keep_time(event, deadline))
            if node.must_end():
                break
            if node.grid.is_control(node.plant.k):
                self.guard.count_repeats(node.grid.instant(node.plant.k))
            self._keep_pause()
            if node.stop or node.must_end():
                break
            node.publish_state()  # other work is done after the answer
            if node.grid.is_control(node.plant.k):  # even where the sensor has lost the state
                self.watchdog.expect(node.clock())
            node.status.execution.add((node.clock() - self._woken) / 1e9)
            self._status_kept = False
        if self.guard.failed:
            come_to_rest(node, self._wait_for)
        elif node.stop and not node.plant.simulated and self.guard.disarm() is None:
            node.stop = node.stops > 1  # an external plant comes to rest first; a second stop skips that
            come_to_rest(node, self._wait_for, round(STOPPING_NS / self.times.step_ns))
        self.end_ns = node.clock()
        node.finish()

    def _network(self) -> NetworkLatency | None:
        """What measures how late answers act; None where they do not come from another computer."""
        node, launch = self.node, self.node.closed_loop.launch
        if not is_networked(launch) or launch.steps_per_period is None:
            return None
        delay = self.guard.output.delay
        return NetworkLatency(delay, launch.steps_per_period, self.times, node.clock, node.plant.simulated)

    def values(self) -> dict[str, float]:
        """The values for a status, by name."""
        return {"rate": self.rate(), **self.lateness.values()}

    def summary(self) -> dict[str, Any]:
        """The statistics of time of the whole run."""
        late = self.lateness
        return {
            "rate": self.rate(),
            "misses": late.misses,
            "stalls": late.stalls,
            "overruns": late.overruns,
            "lateness_s": late.durations.percentiles(),
            "wall_s": (self.end_ns - self.begin_ns) / 1e9,
        }

    def _wait_for(self, step: int) -> None:
        """Sleep until the time of a plant step; no command acts, but operators get answers."""
        node = self.node
        while not node.stop and (now := node.clock()) < (deadline := self.times.due(step)):
            node.bus.wait(min(deadline, now + NAP_NS))
            node.take_commands()

    def rate(self) -> float:
        """Plant seconds per second of wall-clock time since the start."""
        wall = (self.end_ns or self.node.clock()) - self.begin_ns - self.node.pause.paused_ns
        return self.node.plant.k * self.node.plant.step_ns / wall if wall > 0 else 0.0

    def _keep_pause(self) -> None:
        """While the run is paused, let neither plant time pass nor any timeout."""
        if passed := self.node.keep_pause():
            pause, member = self.node.pause, self.node.closed_loop.member
            if member is None:
                self.times.start_ns += passed
            else:
                self.times.start_ns = member.resume_ns - round(pause.stood * self.times.step_ns)
            self._woken += passed
            self.watchdog.postpone(passed, self.guard.answers.are_due())

    def _keep_speed(self, event: int) -> None:
        """Take the operator's speed, if it is another one, and its timeouts: those of commands are of its periods.

        A plant that is late for its next event is as late as before, and not by as many of the new steps.
        """
        pause = self.node.pause
        if pause.speed == self._speed or pause.speed is None:
            return
        self._speed = pause.speed
        now = self.node.clock()
        self.times.set_step_ns(self.node.plant.step_ns / pause.speed, min(now, self.times.due(event)))
        self._timeout_ns = None if pause.timeout is None else round(pause.timeout * 1e9)
        self.guard.answers.oldest_ns = self._timeout_ns
        self.watchdog.set_timeout(self._timeout_ns, now)
        self.lateness.set_timeout(self._timeout_ns)
        self.node.states.set_speed(pause.speed)

    def _wait(self, event: int) -> bool:
        """Sleep until the time of an event, taking commands as they arrive; False if the run must end."""
        node = self.node
        node.act()  # inputs due at this instant; an answer that comes now acts after the steps before it
        slept = False
        while True:
            fresh = node.take_commands()  # taken before anything is judged
            now = node.clock()
            if fresh:
                if self.watchdog.overdue:
                    node.counts["resumed"] += 1
                self.watchdog.answered(now, self.guard.answers.are_due())
                self.catch_up()
                node.act()
                self._keep_status()
                now = node.clock()  # a stall in this work must count as lateness before anything is judged
            if node.stop or node.must_end():
                return False
            self._keep_speed(event)
            if now >= (deadline := self.times.due(event)):
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
        """Publish the status if it is due, once a tick, when no answer is awaited."""
        if not self._status_kept:
            self._status_kept = True
            self.node.status.if_due()

    def present_step(self) -> int:
        """The plant step that the clock has reached, before the next event; a command of now acts from it on."""
        if self.node.pause.stands:
            return self.node.plant.k
        return min(self.times.step(self.node.clock()), self.node.grid.next_event(self.node.plant.k) - 1)

    def catch_up(self) -> None:
        """Advance the plant to the step that the clock has reached."""
        step = self.present_step()
        if step > self.node.plant.k:
            self.node.advance_to(step)

    def _keep_time(self, event: int, deadline: int) -> int:
        """Count how late this event is, and whether the next one is missed; returns the present time [ns].

        Too large a lateness is a fault of an armed plant. After a stall of the host timeouts begin afresh, because the
        controller was stalled too.
        """
        node, late = self.node, self.lateness
        now = node.clock()
        late.misses += event < node.grid.steps and now >= self.times.due(node.grid.next_event(node.plant.k))
        if late.count(now - deadline, self.times.step_ns):
            if node.plant.remote is not None:
                node.plant.remote.restart_timeouts(now)
            self.watchdog.begin_afresh(now)
        if self.guard.lifecycle.accepts_commands and (found := late.fault()) is not None:
            node.fault(*found)
        return now

    def obstacle(self) -> str | None:
        """Why the plant cannot be armed now: it is behind the clock; None: it can."""
        if self.node.pause.stands:
            return "the run is paused, so that no controller answers; resume it first (servonode resume)"
        return self.lateness.obstacle()

    def _judge(self, now: int) -> None:
        """Judge the machine's link, and the wait for a command, at the time at which lateness was judged."""
        self._judge_fleet(now)
        found = self.node.link.fault(now)
        if found is not None:
            self.node.fault(*found)
        if not self.guard.lifecycle.accepts_commands:
            self.watchdog.forget()
        expires = self.watchdog.expires()
        if expires is not None and now > expires:
            self._go_stale()

    def _common_start(self) -> int:
        """Wait until all robots can begin; the monotonic time of their common t = 0, or now if the run ends before."""
        node = self.node
        now = node.clock()
        while node.member is not None and not node.stop and not node.must_end():
            self._judge_fleet(node.clock())
            if start := node.member.begin(now):
                return start
            node.serve_link()
            if (found := node.link.fault()) is not None:
                node.fault(*found)
            node.take_commands()
            node.status.if_due()
            node.bus.wait(node.clock() + 1_000_000)
        return node.clock()

    def _judge_fleet(self, now: int) -> None:
        """Stop an armed plant when another robot has stopped, or shows no sign of life."""
        node, member, silence_ns = self.node, self.node.member, self._silence_ns
        if member is None:
            return
        member.look(now)
        if now - self._looked > silence_ns // 3:  # this process was stalled, and so the others may have been
            self._judged_from = now + silence_ns
        self._looked = now
        if not self.guard.lifecycle.accepts_commands:
            return
        node.stop_with(member.stopped())
        if now > self._judged_from and (silent := member.silent(now, silence_ns)):
            node.stop_with((f"robot {silent} shows no sign of life for {silence_ns / 1e6:.0f} ms", False))

    def _go_stale(self) -> None:
        """Apply the safe action, because no fresh command answers the states."""
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
            text = f"no fresh command for {limit / 1e6:.0f} ms: {action}; check that the controller is running "
            text += "and the computer is not busy (servonode doctor)"
            self.node.fault("stale_command", text)
