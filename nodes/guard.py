"""What stands between commands and the machine: safety filter, fault ladder, arming. It lives in the plant's process.

Commands pass `consider`; what passes acts from its instant on. Whatever goes wrong climbs the ladder, and from the
safe state `damp` on no command acts until the run is reset and armed anew.
"""

import math
from collections import Counter, deque
from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from servonode.bus import Applied, Command, Lifecycle
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.command_filter import Expected, refusal
from servonode.nodes.durations import Durations
from servonode.nodes.fault_ladder import ESTOP, STAYS, Ladder, SafeState
from servonode.nodes.node import Clock, Fault, Outbox, start_id
from servonode.plants.limits import Limits, limited
from servonode.plants.plant import Plant

Array = npt.NDArray[np.float64]
OUTSTANDING = 64  # control states that may wait for an answer at once


class Unanswered(msgspec.Struct, frozen=True, gc=False):
    """A control state that waits for its answer; both clocks are the plant's [ns]."""

    instant: int  # control instant
    sent: int  # when it was published
    measured: int  # when its reading was taken


class Guard:
    """The safety side of one plant. `applied` acts from now on."""

    def __init__(self, closed_loop: ClosedLoop, plant: Plant, outbox: Outbox, clock: Clock) -> None:
        launch = closed_loop.launch
        self.machine = closed_loop.machine
        self.plant = plant
        self.outbox = outbox
        self.clock = clock
        self.names = closed_loop.machine.description.input_names
        self.has_safe_action = closed_loop.machine.description.has_safe_action
        self.limits = closed_loop.limits
        self._power = Limits(self.limits.value, (math.inf,) * len(self.names), self.limits.power)
        self.period_s = (launch.period_ns or 0) / 1e9
        self.delay = launch.controller.delay if launch.controller else 0
        self._steps = launch.steps_per_period or 1
        self.budget = launch.plant.safety.repeats
        self.controlled = closed_loop.control is not None
        self.ladder = Ladder()
        self.lifecycle = Lifecycle.UNCONFIGURED
        self.braking = False  # the safe action acts, computed anew for each step
        self.state_unknown = not plant.simulated  # the machine's state is not known, until it has answered a handshake
        self.counts: Counter[str] = Counter()
        self.round_trip, self.age = Durations(), Durations()
        self.oldest_ns: int | None = None  # how old a state may be that is answered [ns, wall clock]; set in real time
        self.repeats = 0  # periods in a row for which the last command has been held
        self.answered_at = 0  # clock of the newest good command, also of those that were not let through
        self.applied = np.zeros(len(self.names))
        self.held = dict.fromkeys(self.names, 0.0)  # `applied` by name
        self._later: deque[tuple[int, list[float], int]] = deque()  # step from which inputs act, they, their reading
        self._unanswered: dict[int, Unanswered] = {}  # by the seq of the state, oldest first
        self._expected = Expected(outbox.run, -1, -1, self._unanswered, frozenset(self.names))
        self.unlimited: tuple[str, ...] = ()  # inputs without a limit, of a machine that must have one to be armed
        self._soft = closed_loop.soft_start
        self._starts_softly = self._soft.at_first  # with the next command to act
        self._soft_from = -max(self._soft.ramp, self._soft.periods)  # control instant of the newest soft start
        self._successors = closed_loop.on_fault == "resume"  # another controller may go on where one has died
        self._src = 0  # start id of the controller whose command made the plant active
        self._answered = -1  # control instant of the newest answered state
        self._newest = [0.0] * len(self.names)  # what was let through last, or is written as the safe action
        self._rates: Callable[[], Array] = lambda: self.machine.input_rates(self.plant.t, self.plant.x)

    @property
    def failed(self) -> bool:
        """Whether a fault is latched."""
        return bool(self.ladder.latched)

    @property
    def follows(self) -> bool:
        """Whether commands act, or the last is held: then goal time passes."""
        return self.lifecycle is Lifecycle.ACTIVE and self.ladder.passing < SafeState.DAMP

    @property
    def safe_state(self) -> SafeState:
        """Where on the ladder the plant stands; without a safe action, or a state to compute it from, damp is zero."""
        safe_state = self.ladder.safe_state
        return (
            SafeState.ZERO
            if safe_state == SafeState.DAMP and not (self.has_safe_action and not self.state_unknown)
            else safe_state
        )

    # commands

    def asked(self, seq: int, instant: int, sent: int, age_ns: int = 0) -> None:
        """A control state was published, its reading so old [ns, wall clock], and an answer to it is expected."""
        self._expected.newest = seq
        self._unanswered[seq] = Unanswered(instant, sent, sent - age_ns)
        if len(self._unanswered) > OUTSTANDING:
            self._miss(next(iter(self._unanswered)))

    def _miss(self, seq: int) -> None:
        """A state gets no answer any more."""
        del self._unanswered[seq]
        if self.lifecycle is Lifecycle.ACTIVE:
            self.counts["missed_commands"] += 1

    def awaits_answer(self) -> bool:
        """Whether the newest control state has no answer yet."""
        return self._expected.newest > self._expected.answered

    def consider(self, command: Command, k: int, present: int) -> bool:
        """Put a command through the filter at plant step k; whether it is a good answer that will act.

        present: the step whose time has come, from which it acts at the earliest; steps up to it have still to pass.
        """
        reason = refusal(command, self._expected)
        if reason is not None:
            self.counts[f"refused_{reason}"] += 1
            return False
        if self.lifecycle is Lifecycle.ACTIVE and command.src != self._src and not self._successors:
            self.counts["refused_src"] += 1  # another controller than the one that was armed, such as its successor
            return False
        now, seq = self.clock(), command.re
        state = self._unanswered[seq]
        if self.lifecycle.accepts_commands and self.oldest_ns is not None and now - state.sent > self.oldest_ns:
            self.counts["refused_stale"] += 1  # a slow link must not pass for a controller that answers in time
            return False
        while (oldest := next(iter(self._unanswered))) < seq:
            self._miss(oldest)
        del self._unanswered[seq]
        self._expected.answered, self.answered_at = seq, now
        self.round_trip.add((now - state.sent) / 1e9)
        if self.failed or not self.lifecycle.accepts_commands:
            self.counts["refused_unarmed"] += 1
            return False
        if command.fault:
            self.latch(Fault("law", command.fault, self.plant.t, "controller"))
            return False
        if self.lifecycle is Lifecycle.ARMING:
            self.lifecycle, self._src = Lifecycle.ACTIVE, command.src
        if self._starts_softly:
            self._starts_softly, self._soft_from = False, state.instant
        due = (state.instant + self.delay) * self._steps
        self.counts["late_commands"] += due + self._steps <= k
        self._let_through(command, k, state, max(due, present))
        return True

    def _let_through(self, command: Command, k: int, state: Unanswered, step: int) -> None:
        """What a command asks for, within all limits, is to act from a step on."""
        asked = [command.input[name] for name in self.names]
        passed, limits = state.instant - self._soft_from + 1, self.limits
        if passed < self._soft.ramp:
            share = passed / self._soft.ramp
            asked = [share * share * value for value in asked]  # a stiff law lurches less than under a straight ramp
        if passed <= self._soft.periods:
            limits = self._soft.limits
        # one period, also where the last value was held for longer: it is the step that the machine sees
        values, reasons = limited(asked, self._newest, self.period_s, limits, self.names, self._rates)
        if reasons:
            self.counts["saturated"] += 1
        if passed < self._soft.ramp:
            reasons.append("ramp")
        if reasons:
            for reason in reasons:
                self.counts[reason] += 1
        self._answered, self._newest, self.repeats = state.instant, values, 0
        self.ladder.passing = SafeState.WARN if reasons else SafeState.NOMINAL
        self._later.append((step, values, state.measured))
        if self.outbox.heard("applied"):
            self._publish(k, values, command.input, command.seq, reasons)

    def _publish(self, k: int, values: list[float], desired: dict[str, float], re: int, reasons: list[str]) -> None:
        self.outbox.send(
            Applied, k, self.plant.t, input=dict(zip(self.names, values, strict=True)), desired=desired, re=re,
            reasons=reasons, repeats=self.repeats,
        )  # fmt: skip

    def act(self, k: int) -> None:
        """Let the inputs that are due at step k reach the plant."""
        while self._later and self._later[0][0] <= k:
            _, values, measured = self._later.popleft()
            if self.delay and self._power.power < math.inf:  # the machine has moved on since the command came
                before = values
                values, reasons = limited(before, before, self.period_s, self._power, self.names, self._rates)
                self.counts["power"] += len(reasons)
                if before is self._newest:
                    self._newest = values
            self.braking = False
            self._write(values)
            self.age.add((self.clock() - measured) / 1e9)

    def start_softly(self) -> None:
        """The next command begins a soft start: the machine has been under its safe action for long."""
        self._starts_softly = True

    @property
    def due(self) -> int | None:
        """The step from which the next inputs act that wait for it."""
        return self._later[0][0] if self._later else None

    def count_repeats(self, instant: int) -> None:
        """At the end of a control period: was it driven by an older command, and for how many periods in a row?

        Over the budget the safe action acts until a command comes; it is not latched.
        """
        if self.lifecycle is not Lifecycle.ACTIVE or self.failed:
            return
        self.repeats = max(instant - 1 - self.delay - self._answered, 0)
        if not self.repeats:
            return
        self.counts["repeats"] += 1
        if self.ladder.passing < SafeState.HOLD:
            self.ladder.passing = SafeState.HOLD
        if self.budget is not None and self.repeats > self.budget and self.ladder.passing < SafeState.DAMP:
            self.counts["over_budget"] += 1
            self.ladder.passing = SafeState.DAMP
            self.safe("repeats")
        elif not self.plant.simulated:
            self.plant.write(self.applied)  # a device's own watchdog wants to hear that we live

    # faults

    def latch(self, fault: Fault) -> None:
        """Climb the ladder: from now on the safe action of the fault's safe state."""
        if self.ladder.latch(fault):
            self.lifecycle = Lifecycle.FAULT
            self.safe(f"fault:{fault.name}")

    def safe(self, reason: str) -> None:
        """The machine's own safe action, or zero input, and nothing that was still to come."""
        self._later.clear()
        self.state_unknown = self.state_unknown or self.ladder.safe_state == SafeState.ZERO
        zero = (
            not self.has_safe_action
            or self.state_unknown
            or self.ladder.safe_state >= SafeState.ZERO
            or not self.plant.finite
        )
        self.braking = not zero
        if zero:
            self._write_zero()
        else:
            self.brake()
        if self.outbox.heard("applied"):
            self._publish(self.plant.k, self.applied.tolist(), {}, -1, [reason])

    def brake(self) -> None:
        """Write the safe action's inputs at the present state, within the limits; zero where they are not finite."""
        asked = self.machine.safe_input(self.plant.t, self.plant.x)
        if not np.isfinite(asked).all():
            asked = np.zeros(len(asked))
        values = [min(max(u, -limit), limit) for u, limit in zip(asked.tolist(), self.limits.value, strict=True)]
        self._newest = values
        self._write(values)

    def _write_zero(self) -> None:
        """Zero input, at once and whatever the driver."""
        self._newest = [0.0] * len(self.names)
        self._hold(self._newest)
        self.plant.safe()

    def _write(self, values: list[float]) -> None:
        self._hold(values)
        self.plant.write(self.applied)

    def _hold(self, values: list[float]) -> None:
        self.applied = np.array(values)
        self.held = dict(zip(self.names, values, strict=True))

    # the operator

    def arm(self, now: int, answers_within_ns: int | None) -> str | None:
        """Accept commands from the next good one on; the sentence that says why not, or None.

        answers_within_ns: how fresh the controller's last answer must be; None: it has not been asked yet.
        """
        if self.failed:
            return self.ladder.obstacle()
        if self.lifecycle is Lifecycle.UNCONFIGURED:
            return "the machine has not answered yet; wait for it"
        if self.lifecycle.accepts_commands:
            return "the plant is armed already"
        if self.unlimited:
            return f"input {', '.join(self.unlimited)} has no limit; give plant.safety.limit, or plant.safety.unsafe"
        if self.controlled and answers_within_ns is not None and now - self.answered_at > answers_within_ns:
            return "no controller answers the states; start it, or see servonode status"
        self.lifecycle = Lifecycle.ARMING if self.controlled else Lifecycle.ACTIVE
        if not self.controlled:  # nobody commands it: from now on its inputs are zero
            self.braking = False
            self._write_zero()
        return None

    def sees(self) -> None:
        """The machine has answered the handshake: its state may be trusted again, as for the safe action."""
        if self.state_unknown:
            self.state_unknown = False
            if self.lifecycle not in (Lifecycle.UNCONFIGURED, Lifecycle.ACTIVE):
                self.safe(f"fault:{self.ladder.latched[0].name}" if self.failed else "inactive")

    def begin(self, instant: int) -> None:
        """Forget what came before an arming at this control instant: a new run id refuses what is still on its way."""
        self.outbox.run = self._expected.run = start_id()
        self._unanswered.clear()
        self._starts_softly = True
        self._later.clear()
        self._expected.answered = self._expected.newest
        self._answered = instant - 1 - self.delay
        self.repeats = 0

    def disarm(self) -> str | None:
        """Back to inactive, under the safe action; the sentence that says why not, or None."""
        if not self.lifecycle.accepts_commands:
            return f"the plant is {self.lifecycle}, not armed"
        self.lifecycle = Lifecycle.INACTIVE
        self.safe("disarmed")
        return None

    def reset(self, estop: bool = False) -> str | None:
        """Clear latched faults: to inactive, still under the safe action; why not, or None.

        An emergency stop stays latched, and the plant in fault, unless `estop` releases it too.
        """
        if not self.failed:
            return f"no fault is latched: the plant is {self.lifecycle.published}"
        if not estop and {fault.name for fault in self.ladder.latched} == {ESTOP}:
            return STAYS
        self.ladder.reset(estop)
        self.lifecycle = Lifecycle.FAULT if self.failed else Lifecycle.INACTIVE
        self.safe(f"fault:{ESTOP}" if self.failed else "inactive")
        return None
