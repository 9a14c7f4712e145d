"""The states of a machine behind a link: the newest plausible one, and why the next is not."""

from collections import deque

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from servonode.bus import State
from servonode.mechanics.description import unpacked
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.applied_inputs import AppliedInputs
from servonode.plants.drivers.estimated import Estimated
from servonode.plants.drivers.frozen import Frozen
from servonode.plants.drivers.reading_age import ReadingAge
from servonode.plants.drivers.terms import Terms
from servonode.plants.plant import EstimateOf
from servonode.plants.plausible import Plausible

Array = npt.NDArray[np.float64]
KEPT = 64  # numbers of a sensor, two a reading, that wait to be given
LEAD_NS, LEAD = 1e9, 1.1  # by how much of our clock a machine's may be ahead, and how much faster it may run


class Readings:
    """The newest good state of a machine, as numbers, and when it was measured by our clock.

    `plausible` judges its values; one that is not plausible is not taken, and `distrust` says why until the next
    handshake.
    """

    def __init__(self, machine: Machine, terms: Terms, plausible: Plausible | None) -> None:
        self.newest: State | None = None  # of this handshake
        self.step = -1  # the machine's own number of its newest state
        self.values: list[float] = []  # of that state
        self.extra: dict[str, float] = {}  # what else the machine measures, as it said last
        self.measured_ns = 0  # when the newest state was measured
        self.distrust: tuple[str, str] | None = None
        self.answered = False  # the handshake: from now on a state that is not known is a fault
        self._sensors: dict[str, deque[float]] = {}  # what came of them and was not given yet
        self._layout = machine.description.layout
        self.estimated = None if terms.estimate is None else Estimated(terms.estimate, awaits=not terms.lockstep)
        self.names = frozenset(() if self.estimated else (name for name, _ in self._layout))  # in a message
        self._step_ns, self._speed = terms.step_ns, terms.speed
        self._begun = 0, 0  # our step and clock at which the handshake began
        self._age = None if terms.lockstep else ReadingAge(terms.step_ns / terms.speed)
        self._plausible, self._frozen = plausible, Frozen(machine, terms)

    @property
    def known(self) -> bool:
        """Whether the machine has told its state, or enough to estimate it."""
        return self.newest is not None and not (self.estimated and self.estimated.why_not)

    def forget(self, k: int, now: int) -> None:
        """A handshake begins at our step k, now: nothing is known, and what the machine says is accepted again."""
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
        """Take a state that has just come; why it is refused, as it is counted, or empty.

        x: the kernel state that was known before it; `inputs` act.
        """
        fresh = state.k > self.step  # else the same reading once more, which is no younger for that
        values, reason = self._measured(state) if self.estimated is None else self._estimate(state, now, self.estimated)
        if reason:
            return reason
        guessed = self.estimated is not None and bool(self.estimated.why_not)  # not yet known, and free to jump
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
        """The values of a state, or the reason why not."""
        try:
            return unpacked(self._layout, state.state), ""
        except ValueError:
            return [], "refused_shape"

    def _estimate(self, state: State, now: int, estimated: Estimated) -> tuple[list[float], str]:
        """The values that are estimated after this message, or the reason why not."""
        reason = "refused_future" if self._leads(state, now) else estimated.misfit(state)
        if reason or self.distrust is not None:
            return [], reason or "refused_implausible"
        fault = estimated.take(state)
        if fault is not None and self.answered:
            self.distrust = fault
        return estimated.mean, ""

    def _leads(self, state: State, now: int) -> bool:
        """Whether a machine is at a step that it cannot have come to yet: a filter would go there step by step."""
        k, begun = self._begun
        return self._age is not None and (state.k - k) * self._step_ns > ((now - begun) * LEAD + LEAD_NS) * self._speed

    def worth(self) -> EstimateOf | None:
        """What the estimate is worth, and the readings since this was asked last; None: the machine told its state."""
        return self.estimated.give() if self.estimated is not None else None

    def give(self, k: int) -> dict[str, list[float]] | None:
        """What came of the sensors since this was asked last; the machine's clock may run ahead of our step k."""
        if not self._sensors:
            return None
        given = {name: list(pairs) for name, pairs in self._sensors.items()}
        self._sensors = {}
        for pairs in given.values():
            pairs[::2] = [min(measured, float(k)) for measured in pairs[::2]]
        return given
