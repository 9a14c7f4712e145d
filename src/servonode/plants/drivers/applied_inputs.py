"""The inputs that are sent to a machine behind a link, and those that it has acknowledged."""

from collections import deque
from typing import Any

import numpy as np
from msgspec import UNSET

from servonode.arrays import Array
from servonode.bus import Applied, Link, State
from servonode.plants.drivers.handshake import NODE, RESEND_NS, Handshake

CLAMPED = "machine_clamped"  # name of a count: states in which less of an input acts than the machine has taken
SHARE = 1e-3  # of an input: by this share rounding may make smaller what acts
KEPT = 127  # measurements whose median is taken: at 100 Hz those of the last 1.3 seconds
UNTAKEN = 4096  # numbers of sent inputs that are remembered while the machine does not take them


class AppliedNearGoal(Applied, frozen=True, kw_only=True, gc=False):
    """Inputs near which a machine's own law follows a goal; sent only in packets, never on the bus.

    goal: the machine's step at which it holds, the step of the goal itself, then its entries.
    """

    goal: list[float]


class AppliedSafeAction(Applied, frozen=True, kw_only=True, gc=False):
    """The order to take the machine's own safe action, which it computes at each step; sent only in packets."""


class AppliedInputs:
    """The inputs that are held, as they are sent, and the sent inputs that the machine has not yet taken.

    Its attributes are those of one exchange: what is held, what was sent, what was acknowledged.

    In lockstep an `order` has the machine advance to a step; a repeated order is the same message.
    """

    def __init__(self, link: Link, handshake: Handshake) -> None:
        context = handshake.context
        self._names = context.machine.description.input_names
        self.values = np.zeros(len(self._names))  # one array, reused
        self.speeds: Array | None = np.zeros(len(self._names)) if context.drives else None  # for drives that take them
        self.servos: dict[str, float] | None = None  # their commands; None: they rest where they stand
        self.goal: list[float] | None = None  # for the machine's own law, as `AppliedNearGoal` has it
        self.brakes = False  # whether the machine is to take its own safe action in place of what is held
        self.acting_since = -1  # the machine's step since which the held inputs are not all zero; -1: they are zero
        self.seq = -1  # number of the newest message sent
        self.sent_ns = 0  # when that was sent
        self.latency = None if context.lockstep else Latency(context.step_ns / context.speed)
        self.order: Applied | None = None  # until the machine has reached its step
        self.due_ns: int | None = None  # when to send the order again
        self._link, self._handshake, self._clock = link, handshake, context.clock
        self._state_seq = -1  # number of the newest state that was taken
        self._untaken: deque[tuple[int, int]] = deque()  # number of a message, and when it was sent

    def begin(self) -> None:
        """A run begins: zero is held, and nothing has been sent."""
        self.hold(np.zeros(len(self.values)), -1)
        self.seq = self._state_seq = -1
        self._untaken.clear()
        if self.latency is not None:
            self.latency.forget()
        self.order = self.due_ns = None

    def hold(
        self, values: Array, step: int, goal: list[float] | None = None, brakes: bool = False,
        speeds: Array | None = None, servos: dict[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Hold these inputs from now on; `step` is the machine's own step of its newest state.

        goal: the goal of the machine's own law, as `AppliedNearGoal` has it; None: the inputs act as they are.
        brakes: the machine takes its own safe action in their place. speeds: for drives that take speeds; absent:
        zero. servos: their commands.
        """
        self.servos = servos
        self.values[:], self.goal, self.brakes = values, goal, brakes
        if self.speeds is not None:
            self.speeds[:] = 0.0 if speeds is None else speeds
        if not any((self.values if self.speeds is None else self.speeds).tolist()):
            self.acting_since = -1
        elif self.acting_since < 0:
            self.acting_since = step

    def send(self, k: int, until: int = 0, final: bool = False) -> None:
        """Send what is held, at plant step k; with `until` it is the order to advance to that step.

        Every input for the machine is sent here (`repeat_order` repeats one); a run that only observes sends none.
        """
        if self._handshake.context.readonly:
            return
        handshake, now = self._handshake, self._clock()
        self.seq, self.sent_ns = self.seq + 1, now
        values = dict(zip(self._names, self.values.tolist(), strict=True))
        kind: type[Applied] = AppliedSafeAction if self.brakes and not final else Applied
        more: dict[str, Any] = {}
        if self.goal is not None:
            kind, more = AppliedNearGoal, {"goal": self.goal}
        if self.speeds is not None:
            more = {"speed": dict(zip(self._names, self.speeds.tolist(), strict=True))}
        if self.servos is not None and not final:
            more = {"servo": self.servos}
        message = kind(
            t=k * handshake.context.step_ns / 1e9, seq=self.seq, run=handshake.run, k=k, mono=now, node=NODE,
            src=handshake.src, input=values, desired=values, re=-1, reasons=[], repeats=0, until=until,
            state_seq=self._state_seq, final=final, **more,
        )  # fmt: skip
        self._link.send("applied", message)
        if len(self._untaken) < UNTAKEN:
            self._untaken.append((self.seq, now))
        if until:
            self.order, self.due_ns = message, now + RESEND_NS

    def repeat_order(self, now: int) -> None:
        """Send the order again."""
        assert self.order is not None
        self._link.send("applied", self.order)
        self.due_ns = now + RESEND_NS

    def taken(self, state: State, measured_ns: int = 0) -> bool:
        """Note which inputs the machine has taken, by a good state; whether it has carried out the order, if any.

        It has not while the state before the order comes once more.
        """
        self._state_seq = state.seq
        sent_ns: int | None = None
        while self._untaken and self._untaken[0][0] <= state.applied_seq:
            _, sent_ns = self._untaken.popleft()
        if self.latency is not None:
            self.latency.state(state.k, measured_ns, sent_ns)
        if self.order is not None and state.k != self.order.until:
            return False
        self.order = self.due_ns = None
        return True

    def clamps(self, state: State) -> bool:
        """Whether less of an input acts than the machine has taken: its own limits are smaller."""
        brakes = self.brakes or (state.extra is not UNSET and bool(state.extra.get("machine_safe")))
        if self.goal is not None or brakes or state.applied_seq != self.seq or self.seq < 0:
            return False
        held = self.values if self.speeds is None else self.speeds
        asked = zip(self._names, held.tolist(), strict=True)
        return any(abs(state.input.get(name, value)) < (1.0 - SHARE) * abs(value) for name, value in asked)

    def untaken_ns(self, measured_ns: int, since_ns: int) -> int:
        """The age [ns] of the oldest input not taken at `measured_ns`, the time of the newest state; 0: all were taken.

        Ages end at that state, because a silent machine may have taken inputs since. No age begins before `since_ns`.
        """
        return measured_ns - max(self._untaken[0][1], since_ns) if self._untaken else 0


class Latency:
    """The median of the newest measurements [ns, wall clock]: a few outliers of a busy computer do not change it.

    A measurement is the time from the sending of an input to the step of the machine in which it began to act, on the
    clock by which readings have an age (`ReadingAge`). It contains both ways of the link and the machine's own time:
    the time by which a state must be predicted, beyond its age. In lockstep nothing is measured.
    """

    def __init__(self, step_wall_ns: float) -> None:
        self._step_wall_ns = step_wall_ns
        self._newest: deque[float] = deque(maxlen=KEPT)
        self._step = -1  # the machine's step in the state before

    def forget(self) -> None:
        """Forget all measurements: a handshake begins."""
        self._newest.clear()
        self._step = -1

    def state(self, step: int, measured_ns: int, sent_ns: int | None) -> None:
        """Take a state of this step, measured at `measured_ns`.

        sent_ns: when the newest input that this state is the first to echo was sent; None: it echoes no new one. The
        input arrived between the two states, in the middle on average: with a state each step, it has acted since the
        step before.
        """
        before, self._step = self._step, step
        if sent_ns is None or not 0 <= before < step:
            return
        steps_ago = (step - before + 1) / 2
        self._newest.append(max(measured_ns - steps_ago * self._step_wall_ns - sent_ns, 0.0))

    def ns(self) -> float:
        """The median [ns, wall clock]; 0 before the first measurement."""
        return sorted(self._newest)[len(self._newest) // 2] if self._newest else 0.0
