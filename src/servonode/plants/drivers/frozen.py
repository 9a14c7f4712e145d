"""The detection of frozen states: identical bits although the inputs should have changed them."""

from collections.abc import Sequence

import numpy as np

from servonode.arrays import Array
from servonode.bus import State
from servonode.plants.drivers.driver import DriverContext

STILL = 1e-9  # a smaller relative change counts as no change


class Frozen:
    """Judges, reading by reading, whether a machine's readings are frozen."""

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
