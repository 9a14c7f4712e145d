"""The readings of a machine behind a link: the newest that can be believed, and why the next cannot be."""

from collections import deque

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from servonode.bus import State
from servonode.mechanics.description import unpacked
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.applied_inputs import AppliedInputs
from servonode.plants.drivers.frozen import Frozen
from servonode.plants.drivers.reading_age import ReadingAge
from servonode.plants.drivers.terms import Terms
from servonode.plants.plausible import Plausible

Array = npt.NDArray[np.float64]
KEPT = 64  # numbers of a sensor, two a reading, that wait to be given


class Readings:
    """The newest good state of a machine, as numbers, and when it was measured by our clock.

    `plausible` judges its values; one that cannot be believed is not taken, and `distrust` says why until the next
    handshake.
    """

    def __init__(self, machine: Machine, terms: Terms, plausible: Plausible | None) -> None:
        self.newest: State | None = None  # of this handshake
        self.step = -1  # the machine's own number of its newest state
        self.values: list[float] = []  # of that state
        self.extra: dict[str, float] = {}  # what else the machine measures, as it said last
        self.measured_ns = 0  # when the newest state was measured
        self.distrust: tuple[str, str] | None = None
        self._sensors: dict[str, deque[float]] = {}  # what came of them and was not given yet
        self._layout = machine.description.layout
        self.names = frozenset(name for name, _ in self._layout)
        self._step_ns = terms.step_ns
        self._age = None if terms.lockstep else ReadingAge(terms.step_ns / terms.speed)
        self._plausible, self._frozen = plausible, Frozen(machine, terms)

    def forget(self) -> None:
        """A handshake begins: nothing is known of the machine, and what it says is believed again."""
        self.newest, self.step, self.distrust = None, -1, None
        self._frozen.forget()
        self._sensors = {}
        if self._age is not None:
            self._age.forget()
        if self._plausible is not None:
            self._plausible.forget()

    def take(self, state: State, now: int, x: Array, inputs: AppliedInputs) -> str:
        """Take a state that has just come; why it is refused, as it is counted, or empty.

        x: the kernel state that was known before it; `inputs` act.
        """
        try:
            values = unpacked(self._layout, state.state)
        except ValueError:
            return "refused_shape"
        fresh = state.k > self.step  # else the same reading once more, which is no younger for that
        if fresh and self.distrust is None and self._plausible is not None:
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

    def give(self, k: int) -> dict[str, list[float]] | None:
        """What came of the sensors since this was asked last; the machine's clock may run ahead of our step k."""
        if not self._sensors:
            return None
        given = {name: list(pairs) for name, pairs in self._sensors.items()}
        self._sensors = {}
        for pairs in given.values():
            pairs[::2] = [min(measured, float(k)) for measured in pairs[::2]]
        return given
