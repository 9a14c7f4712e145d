"""The states of a machine behind a link: the newest plausible one, and why a state is refused."""

from collections import deque
from collections.abc import Sequence

import numpy as np
from msgspec import UNSET

from servonode.arrays import Array
from servonode.bus import State
from servonode.bus.messages import MAX_ITEMS
from servonode.mechanics.description import unpacked
from servonode.plants.drivers.applied_inputs import AppliedInputs
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.estimated import Estimated
from servonode.plants.plant import EstimateOf

KEPT = MAX_ITEMS  # numbers kept of a sensor, two for each reading, until they are asked for: what a message carries
LEAD_NS, LEAD = 1e9, 1.1  # by how much a machine's clock may be ahead of ours, and the largest ratio of their rates
CREEP = 0.01  # share by which the machine's clock may be slower than ours without its readings counting as late
STILL = 1e-9  # a smaller relative change of a state counts as no change


class Readings:
    """The newest good state of a machine, as numbers, and when it was measured by our clock.

    Its attributes are that state, and the judges of whether the next one is believed.

    One that is not plausible is not taken, and `distrust` says why until the next handshake.
    """

    def __init__(self, context: DriverContext) -> None:
        self.newest: State | None = None  # of this handshake
        self.step = -1  # the machine's own number of its newest state
        self.values: list[float] = []  # of that state
        self.extra: dict[str, float] = {}  # what else the machine measures, by its last message
        self.measured_ns = 0  # when the newest state was measured
        self.distrust: tuple[str, str] | None = None
        self.answered = False  # whether the handshake is complete: from then on an unknown state is a fault
        self._sensors: dict[str, deque[float]] = {}  # readings that came and were not asked for yet
        self._layout = context.machine.description.layout
        self.estimated = None if context.estimate is None else Estimated(context.estimate, awaits=not context.lockstep)
        self.names = frozenset(() if self.estimated else (name for name, _ in self._layout))  # in a message
        self._step_ns, self._speed = context.step_ns, context.speed
        self._begun = 0, 0  # our step and time at which the handshake began
        self._age = None if context.lockstep else ReadingAge(context.step_ns / context.speed)
        self._plausible, self._frozen = context.plausible, Frozen(context)

    @property
    def known(self) -> bool:
        """Whether the machine has sent its state, or enough readings to estimate it."""
        return self.newest is not None and not (self.estimated and self.estimated.unknown_reason)

    def forget(self, k: int, now: int) -> None:
        """Begin a handshake at our step k, now: no state is known, and the machine is trusted again."""
        self._begun = k, now
        self.newest, self.step, self.distrust, self.answered = None, -1, None, False
        self._frozen.forget()
        self._sensors = {}
        if self._age is not None:
            self._age.forget()
        if self._plausible is not None:
            self._plausible.forget()
        if self.estimated is not None:
            self.estimated.forget(k)

    def take(self, state: State, now: int, x: Array, inputs: AppliedInputs) -> str:
        """Take a state that has just come; returns the reason to count if it is refused, or empty.

        x: the kernel state known before it; inputs: those that act.
        """
        fresh = state.k > self.step  # else the same reading once more, whose age stays
        values, reason = self._measured(state) if self.estimated is None else self._estimate(state, now, self.estimated)
        if reason:
            return reason
        guessed = self.estimated is not None and bool(self.estimated.unknown_reason)  # it may still jump
        if fresh and self.distrust is None and self._plausible is not None and not guessed:
            self.distrust = self._plausible.complaint(state.k * self._step_ns / 1e9, values)
        if self.distrust is not None:
            return "refused_implausible"
        if fresh:
            self.measured_ns = now if self._age is None else self._age.arrived(state.k, now)
            self.distrust = self._frozen.complaint(state, values, self.step, x, inputs.values, inputs.acting_since)
        if state.extra is not UNSET:
            self.extra = state.extra
        if state.readings is not UNSET:
            for name, pairs in state.readings.items():
                self._sensors.setdefault(name, deque(maxlen=KEPT)).extend(pairs[: len(pairs) // 2 * 2])
        self.newest, self.step, self.values = state, state.k, values
        return ""

    def _measured(self, state: State) -> tuple[list[float], str]:
        """The values of a state, or the reason why it is refused."""
        try:
            return unpacked(self._layout, state.state), ""
        except ValueError:
            return [], "refused_shape"

    def _estimate(self, state: State, now: int, estimated: Estimated) -> tuple[list[float], str]:
        """The values that are estimated after this message, or the reason why it is refused."""
        reason = "refused_future" if self._leads(state, now) else estimated.misfit(state)
        if reason or self.distrust is not None:
            return [], reason or "refused_implausible"
        fault = estimated.take(state)
        if fault is not None and self.answered:
            self.distrust = fault
        return estimated.mean, ""

    def _leads(self, state: State, now: int) -> bool:
        """Whether a state's step is too far ahead to be true: a filter would integrate up to it, step by step."""
        k, begun = self._begun
        return self._age is not None and (state.k - k) * self._step_ns > ((now - begun) * LEAD + LEAD_NS) * self._speed

    def quality(self) -> EstimateOf | None:
        """Standard deviations of the estimate, and a summary of new readings; None: the machine sends its state."""
        return self.estimated.give() if self.estimated is not None else None

    def give(self, k: int) -> dict[str, list[float]] | None:
        """The readings since the last call, with steps of at most our k, because the machine's clock may be ahead."""
        if not self._sensors:
            return None
        given = {name: list(pairs) for name, pairs in self._sensors.items()}
        self._sensors = {}
        for pairs in given.values():
            pairs[::2] = [min(measured, float(k)) for measured in pairs[::2]]
        return given


class ReadingAge:
    """Maps the machine's steps to our monotonic clock: to the time at which they would arrive without any delay.

    The quickest arrival so far is the reference. An age is what a reading has waited beyond that: in a queue, in a
    machine that sends what it measured long ago, or here. The two clocks need not agree; slow drift is followed.
    """

    def __init__(self, step_wall_ns: float) -> None:
        self._step_wall_ns = step_wall_ns
        self._base: float | None = None  # ns, when step 0 would have arrived
        self._newest = 0  # when the newest reading arrived

    def forget(self) -> None:
        """Forget the machine's clock: a handshake begins."""
        self._base = None

    def arrived(self, step: int, now: int) -> int:
        """The time at which the state of this step, which has just arrived, was measured [monotonic ns]."""
        base = now - step * self._step_wall_ns
        if self._base is None or base <= self._base:
            self._base = base
        else:
            self._base = min(base, self._base + CREEP * (now - self._newest))
        self._newest = now
        return now - round(base - self._base)


class Frozen:
    """Judges, reading by reading, whether a machine's are frozen: identical bits although inputs should change them."""

    def __init__(self, context: DriverContext) -> None:
        self._machine, self._time, self._step_ns = context.machine, context.frozen_time, context.step_ns
        self._still = max(STILL, context.resolution)
        self._since = -1  # the machine's step since which its readings are the same; -1: they are not

    def forget(self) -> None:
        """Forget the readings: the next one is the first."""
        self._since = -1

    def complaint(
        self, state: State, values: Sequence[float], step: int, x: Array, inputs: Array, acting_since: int
    ) -> tuple[str, str] | None:
        """Name and text of the fault, or None, for the values of `state`.

        x: the kernel state before it, of the machine's `step`; a `step` of -1: there was no state before. inputs: those
        that act, not all zero since the step `acting_since` (-1: all are zero).
        """
        if step < 0 or values != x[:-1].tolist():
            self._since = -1
            return None
        if self._since < 0:
            self._since = step
        since = max(self._since, acting_since)
        if acting_since < 0 or (state.k - since) * self._step_ns <= self._time * 1e9:
            return None
        self._since = state.k  # the next judgement comes after as much time again
        rates = self._machine.derivatives(state.t, x, inputs)[:-1]
        moved = np.abs(rates) * self._time > self._still * (1.0 + np.abs(x[:-1]))
        if not moved.any():
            return None
        name = self._machine.description.state_names[int(np.argmax(moved))]
        text = f"the machine's readings are the same, bit by bit, for {self._time:g} s of plant time, "
        text += f"although its inputs should have changed {name}; check the sensors, or raise "
        return "frozen_state", f"{text}plant.safety.frozen_time"
