"""The guard between commands and the machine: command filter, limits, fault ladder, arming.

It is part of the plant's process; its output alone writes inputs to the plant. A command that passes `consider` acts
from its instant on. From the safe state `damp` on no command acts until the latched faults are reset and the plant is
armed again.
"""

import math
from collections import Counter, deque
from typing import cast

import numpy as np
from msgspec import UNSET

from servonode.arrays import Array
from servonode.bus import Applied, Command, Lifecycle
from servonode.bus.durations import Clock, Durations
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.controllers.engine.keeping import KEEP_FAULT
from servonode.nodes.answers import Answers, AskedState
from servonode.nodes.fault_ladder import ESTOP, ESTOP_STAYS_LATCHED, Fault, Ladder, SafeState
from servonode.nodes.input_limiter import REASON, InputLimiter, Preview
from servonode.nodes.network_latency import NetworkLatency
from servonode.nodes.node import Outbox, start_id
from servonode.plants.limits import Limits
from servonode.plants.plant import FollowingPlant, Plant, SpeedPlant


class SafeAction:
    """The inputs of a machine's safe action, within the limits of value. stated: whether it defines one; else zero."""

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self.stated = closed_loop.machine.description.has_safe_action
        self._machine, self.limits = closed_loop.machine, closed_loop.safety.limits.value

    def inputs(self, t: float, x: Array) -> list[float]:
        """The inputs at this state; zero where they are not finite."""
        asked = self._machine.safe_input(t, x)
        if not np.isfinite(asked).all():
            asked = np.zeros(len(asked))
        return [min(max(u, -limit), limit) for u, limit in zip(asked.tolist(), self.limits, strict=True)]


class PlantOutput:
    """Writes inputs to the plant, as the only object that does.

    applied: the inputs that act from now on; by_name: the same by name. braking: whether the safe action acts, which is
    computed again for each step. state_unknown: whether no safe action can be computed, because the machine has not
    answered a handshake. Its attributes are many: what acts, what is scheduled, and what was measured of both.
    """

    def __init__(self, closed_loop: ClosedLoop, plant: Plant, limiter: InputLimiter, clock: Clock) -> None:
        launch = closed_loop.launch
        self.safe_action = SafeAction(closed_loop)
        self.applied = np.zeros(len(limiter.names))
        self.by_name = dict.fromkeys(limiter.names, 0.0)
        self.braking = False
        self.state_unknown = not plant.simulated
        self._readonly = closed_loop.readonly  # nothing is written, so that the safe action does not act either
        self.age = Durations()  # of the reading behind a command, when its inputs act
        self.delay = launch.controller.delay if launch.controller else 0  # control periods
        self._steps = launch.steps_per_period or 1
        # step from which inputs act, the inputs, time of their reading, goal for a law in the machine's firmware
        self._later: deque[tuple[int, list[float], int, list[float] | None]] = deque()
        self._goal: list[float] | None = None  # the goal that acts
        self._plant, self._limiter, self._clock = plant, limiter, clock
        self.speeds = closed_loop.speed_commands()  # for drives that take speeds; None: they take efforts
        self._brake_steps = closed_loop.safety.brake_steps

    @property
    def can_brake(self) -> bool:
        """Whether the machine has a safe action, and a known state for it."""
        return self.safe_action.stated and not self.state_unknown

    @property
    def due(self) -> int | None:
        """The step from which the next scheduled inputs act; None: none is scheduled."""
        return self._later[0][0] if self._later else None

    def schedule(
        self, values: list[float], state: AskedState, k: int, present: int, goal: list[float] | None = None
    ) -> bool:
        """Schedule the answer to a state for `delay` periods later, not before step `present`; whether it is late.

        It is late if its control period is over at plant step k. goal: see `FollowingPlant`.
        """
        due = (state.instant + self.delay) * self._steps
        self._later.append((max(due, present), values, state.measured, goal))
        return due + self._steps <= k

    def cancel(self) -> None:
        """Cancel the scheduled inputs."""
        self._later.clear()

    def postpone(self, passed_ns: int) -> None:
        """Leave a pause of so long [ns] out of the age of the scheduled inputs."""
        self._later = deque((due, values, measured + passed_ns, goal) for due, values, measured, goal in self._later)

    def act(self, k: int) -> None:
        """Write the inputs that are due at step k."""
        while self._later and self._later[0][0] <= k:
            _, values, measured, goal = self._later.popleft()
            if self.delay:  # the machine has moved since the command came
                values = self._limiter.limit_power(values)
            self.braking = False
            self._write(values, goal)
            self.age.add((self._clock() - measured) / 1e9)

    def repeat(self) -> None:
        """Write the inputs once more: they show an external machine's watchdog that this process lives."""
        if not self._plant.simulated:
            self._send()

    def make_safe(self, zero: bool) -> None:
        """Apply the safe action, or zero input if `zero` or it cannot be computed; cancel the scheduled inputs."""
        self._later.clear()
        if zero or self._readonly or not self.can_brake or not self._plant.finite:
            self.zero()
        else:
            self.brake()

    def brake(self) -> None:
        """Write the safe action's inputs at the present state."""
        values = self.safe_action.inputs(self._plant.t, self._plant.x)
        self.braking, self._limiter.newest = True, values
        self._hold(values, None)
        if self.speeds is not None:
            self.speeds.brake(self._plant.k, self._plant.x, self.applied, self._brake_steps)
            self._send()
        else:
            getattr(self._plant, "brake", self._plant.write)(self.applied)  # some machines brake by themselves

    def release(self) -> None:
        """Write zero inputs, which release the safe action."""
        self.braking, self._limiter.newest = False, [0.0] * len(self.applied)
        self._write(self._limiter.newest)

    def zero(self) -> None:
        """Apply zero input at once, with every driver; a machine that brakes by itself may do that instead.

        For drives that take speeds it is zero speed.
        """
        self.braking, self._limiter.newest = False, [0.0] * len(self.applied)
        self._hold(self._limiter.newest, None)
        if self.speeds is not None:
            self.speeds.stop()
        self._plant.safe()

    def _write(self, values: list[float], goal: list[float] | None = None) -> None:
        self._hold(values, goal)
        if self.speeds is not None:
            plant = self._plant
            late = plant.age + (plant.remote.latency if plant.remote else 0.0)
            if not self.speeds.follow(plant.k, plant.x, self.applied, late):
                self._limiter.count("speed")
        self._send()

    def _send(self) -> None:
        if self.speeds is not None:
            cast(SpeedPlant, self._plant).drive(self.applied, self.speeds.newest)
        elif self._goal is None:
            self._plant.write(self.applied)
        else:
            cast(FollowingPlant, self._plant).follow(self.applied, self._goal)

    def _hold(self, values: list[float], goal: list[float] | None) -> None:
        self.applied, self._goal = np.array(values), goal
        self.by_name = dict(zip(self.by_name, values, strict=True))


class HeldCommand:
    """Counts for how many control periods in a row the newest command has been held. allowed: the largest number."""

    def __init__(self, allowed: int | None, delay: int) -> None:
        self.periods = 0
        self._allowed, self._delay = allowed, delay
        self._instant = -1  # control instant of the state that the command answers

    def begin(self, instant: int) -> None:
        """Note a command that answers the state of this control instant."""
        self._instant, self.periods = instant, 0

    def count(self, instant: int) -> int:
        """Update and return `periods`, at the end of the control period before this instant."""
        self.periods = max(instant - 1 - self._delay - self._instant, 0)
        return self.periods

    @property
    def too_long(self) -> bool:
        """Whether the command has been held for more periods than allowed."""
        return self._allowed is not None and self.periods > self._allowed


class Guard:
    """Decides by lifecycle, latched faults and limits what acts on a plant: commands, its safe action, or zero input.

    unlimited: inputs that need a limit before the machine can be armed, and have none. It is large because everything
    that changes what acts goes through it: commands, faults and the operator.
    """

    def __init__(
        self, closed_loop: ClosedLoop, plant: Plant, outbox: Outbox, ladder: Ladder, counts: Counter[str], clock: Clock
    ) -> None:
        self.lifecycle = Lifecycle.UNCONFIGURED
        self.ladder = ladder
        self.counts = counts
        self.limiter = InputLimiter(closed_loop, plant, counts)
        successors = closed_loop.safety.on_fault == "resume"  # then a restarted controller may continue
        self.answers = Answers(outbox.run, self.limiter.names, successors, counts, clock)
        self.output = PlantOutput(closed_loop, plant, self.limiter, clock)
        self.unlimited: tuple[str, ...] = ()
        self.controlled = closed_loop.control is not None
        self.network: NetworkLatency | None = None  # of a controller on another computer; set in real time
        timeout_ns = (closed_loop.safety.command_timeout or math.inf) * 1e9
        preview = Preview(self.limiter, lambda: self.answers.age_ns() <= timeout_ns)
        self.preview = preview if closed_loop.readonly else None
        self._held = HeldCommand(closed_loop.launch.plant.safety.repeats, self.output.delay)
        law = closed_loop.device_law if hasattr(plant, "follow") else None  # a simulation in its place has none
        self._n_goal = law.n_goal if law else None  # entries of the goal of a law in the machine's firmware
        self._plant, self._outbox, self._limit_key = plant, outbox, closed_loop.safety.limit_key

    @property
    def failed(self) -> bool:
        """Whether a fault is latched."""
        return bool(self.ladder.latched)

    @property
    def time_passes(self) -> bool:
        """Whether the plant need not wait for the operator: it is armed, or only observed and without a fault."""
        return self.lifecycle.accepts_commands or (self.preview is not None and not self.failed)

    @property
    def follows(self) -> bool:
        """Whether a command acts or is held, so that goal time passes."""
        return self.lifecycle is Lifecycle.ACTIVE and self.ladder.passing < SafeState.DAMP

    @property
    def safe_state(self) -> SafeState:
        """The present safe state; without a safe action, or a state to compute it from, damp becomes zero."""
        safe_state = self.ladder.safe_state
        return SafeState.ZERO if safe_state is SafeState.DAMP and not self.output.can_brake else safe_state

    # commands

    def consider(self, command: Command, k: int, present: int) -> bool:
        """Filter a command at plant step k; returns whether it is a good answer, which will act.

        present: the step that the clock has reached, from which the command acts at the earliest; k may be less.
        """
        state = self.answers.take(command, self.lifecycle)
        if state is None:
            return False
        if self.network is not None:
            self.network.answered(state.instant, present)
        if self.preview is not None:
            self.preview.take(command, state.instant)
            if self._outbox.has_subscriber("applied"):
                self._publish(k, [0.0] * len(self.limiter.names), command.input, command.seq, [REASON])
            return False
        if not self.lifecycle.accepts_commands:
            self.counts["refused_unarmed"] += 1
            return False
        if command.fault:
            own = command.fault_name is not UNSET and command.fault_name.startswith(KEEP_FAULT)
            name = str(command.fault_name) if own else "law"
            self.latch(Fault(name, command.fault, self._plant.t, "controller"))
            return False
        if self.lifecycle is Lifecycle.ARMING:
            self.lifecycle = Lifecycle.ACTIVE
            self.answers.take_only(command.src)
        self._obey(command, state, k, present)
        return True

    def _obey(self, command: Command, state: AskedState, k: int, present: int) -> None:
        """Schedule the inputs of a command, within all limits."""
        reasons = self.limiter.limit(command.input, state.instant)
        as_asked = not reasons and not self.limiter.starting(state.instant)
        goal = self._goal_of(command, state) if as_asked else None
        self._held.begin(state.instant)
        self.ladder.passing = SafeState.WARN if reasons else SafeState.NOMINAL
        self.counts["late_commands"] += self.output.schedule(self.limiter.newest, state, k, present, goal)
        if self._outbox.has_subscriber("applied"):
            self._publish(k, self.limiter.newest, command.input, command.seq, reasons)

    def _goal_of(self, command: Command, state: AskedState) -> list[float] | None:
        """The goal of a command, for the law in the machine's firmware; None: there is no such law or goal.

        Another controller than servonode's may send no goal: its inputs then act as they are, and this is counted.
        """
        if self._n_goal is None:
            return None
        if command.goal is UNSET or len(command.goal) != self._n_goal:
            self.counts["without_goal"] += 1
            return None
        return [float(state.goal_at), float(state.goal_step), *command.goal]

    def _publish(self, k: int, values: list[float], desired: dict[str, float], re: int, reasons: list[str]) -> None:
        self._outbox.send(
            Applied, k, self._plant.t, input=dict(zip(self.limiter.names, values, strict=True)), desired=desired, re=re,
            reasons=reasons, repeats=self._held.periods,
        )  # fmt: skip

    def count_repeats(self, instant: int) -> None:
        """Count at the end of a control period for how many periods in a row an older command has been held.

        Beyond the allowed number the safe action acts until a command comes; no fault is latched.
        """
        if self.lifecycle is not Lifecycle.ACTIVE or not self._held.count(instant):
            return
        self.counts["repeats"] += 1
        if self.ladder.passing < SafeState.HOLD:
            self.ladder.passing = SafeState.HOLD
        if self._held.too_long and self.ladder.passing < SafeState.DAMP:
            self.counts["over_budget"] += 1
            self.ladder.passing = SafeState.DAMP
            self.safe("repeats")
        else:
            self.output.repeat()

    # faults

    def latch(self, fault: Fault) -> None:
        """Latch a fault until it is reset; its safe state acts from now on."""
        if self.ladder.latch(fault):
            self.lifecycle = Lifecycle.FAULT
            self.safe(f"fault:{fault.name}")

    def safe(self, reason: str) -> None:
        """Apply the machine's safe action, or zero input, and cancel the scheduled inputs."""
        safe_state = self.ladder.safe_state
        if safe_state is SafeState.ZERO:
            self.output.state_unknown = True
        self.output.make_safe(zero=safe_state >= SafeState.ZERO)
        if self._outbox.has_subscriber("applied"):
            self._publish(self._plant.k, self.output.applied.tolist(), {}, -1, [reason])

    def trust_state(self) -> None:
        """Note after a handshake that the machine's state is known, so that the safe action can be computed."""
        if self.output.state_unknown:
            self.output.state_unknown = False
            if self.lifecycle not in (Lifecycle.UNCONFIGURED, Lifecycle.ACTIVE):
                self.safe(f"fault:{self.ladder.latched[0].name}" if self.failed else "inactive")

    # the operator

    def arm(self, answers_within_ns: int | None) -> str | None:
        """Accept commands from the next good one on; returns a sentence why not, or None.

        answers_within_ns: the largest age of the controller's last answer; None: it has not been asked yet.
        """
        if self.failed:
            return self.ladder.obstacle()
        if self.lifecycle is Lifecycle.UNCONFIGURED:
            return "the machine has not answered yet; wait until it does"
        if self.lifecycle.accepts_commands:
            return "the plant is already armed"
        if self.unlimited:
            text = f"input {', '.join(self.unlimited)} has no limit; give plant.safety.{self._limit_key}, or "
            return f"{text}plant.safety.unsafe"
        if not self.controlled:  # without a controller its inputs are zero from now on
            self.lifecycle = Lifecycle.ACTIVE
            self.output.release()
            return None
        if answers_within_ns is not None and self.answers.age_ns() > answers_within_ns:
            return "no controller answers the states; start it, or look at servonode status"
        self.lifecycle = Lifecycle.ARMING
        return None

    def begin(self, instant: int) -> None:
        """Begin an arming at this control instant, under a new run id: older commands in transit are refused."""
        self._outbox.run = start_id()
        self.answers.begin(self._outbox.run)
        self.limiter.start_softly()
        self.output.cancel()
        self._held.begin(instant - 1 - self.output.delay)  # no command is overdue

    def lower(self, numbers: list[float]) -> None:
        """Let less reach the machine: limits of the value and the rate of each input, then that of their power.

        While it is not armed they may also rise again, at most to those with which the run began.

        Raises:
            ValueError: there are not as many, or one is above what it may be.
        """
        armed, n = self.lifecycle.accepts_commands, len(self.limiter.names)
        most = self.limiter.limits if armed else self.limiter.of_start
        if len(numbers) != 2 * n + 1:
            raise ValueError(f"{len(numbers)} limits are given; give {2 * n + 1}")
        for given, allowed in zip(numbers, (*most.value, *most.rate, most.power), strict=True):
            if not 0 <= given <= allowed:
                until = "disarm it first" if armed else "a restart of the run can give other ones"
                what = "is armed, and its limits" if armed else "has limits of its start, which"
                raise ValueError(f"{given:g} is above {allowed:g}: the machine {what} are only lowered; {until}")
        self.limiter.limits = Limits(tuple(numbers[:n]), tuple(numbers[n : 2 * n]), numbers[-1])
        self.output.safe_action.limits = self.limiter.limits.value

    def disarm(self) -> str | None:
        """Return to inactive, under the safe action; returns a sentence why not, or None."""
        if not self.lifecycle.accepts_commands:
            return f"the plant is {self.lifecycle}, not armed"
        self.lifecycle = Lifecycle.INACTIVE
        self.safe("disarmed")
        return None

    def reset(self, estop: bool = False) -> str | None:
        """Clear latched faults and return to inactive, still under the safe action; why not, or None.

        An emergency stop stays latched, and the plant in fault, unless `estop` clears it too.
        """
        if not self.failed:
            return f"no fault is latched: the plant is {self.lifecycle.published}"
        if not estop and {fault.name for fault in self.ladder.latched} == {ESTOP}:
            return ESTOP_STAYS_LATCHED
        self.ladder.reset(estop)
        self.lifecycle = Lifecycle.FAULT if self.failed else Lifecycle.INACTIVE
        self.safe(f"fault:{ESTOP}" if self.failed else "inactive")
        return None
