"""The sensors of a simulated machine: readings of its true motion, with the errors of the devices."""

import math
import zlib
from collections import deque
from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.description import SensorDescription
from servonode.mechanics.observer import Observer
from servonode.plants.injection import Injector

Readings = dict[str, list[float]]


@dataclass(frozen=True)
class SensorEffects:
    """A sensor as a launch file specifies it: its description, and between which steps it gives nothing.

    period: plant steps between two readings, not always a whole number. delay: steps until a reading is there.
    """

    description: SensorDescription
    period: float
    delay: int
    lost_from: float = math.inf  # step
    lost_to: float = math.inf

    def expected(self, k: int, last: int) -> int:
        """How many of the readings measured up to step k are there by step `last`; of dropped ones the mean share."""
        until = min(k, last - self.delay) + 1
        lost = self._before(min(until, self.lost_to)) - self._before(min(until, self.lost_from))
        return int((self._before(until) - lost) * (1 - self.description.drop))

    def _before(self, step: float) -> int:
        """How many readings are due before a step."""
        return max(math.ceil(step / self.period), 0)


class Device:
    """One sensor at work. Its random numbers are its own: another sensor more or less changes nothing of it."""

    def __init__(self, effects: SensorEffects, seed: int) -> None:
        self.effects, self.name = effects, effects.description.name
        self.next = 0  # step of the next reading
        self._number = 0
        self._rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        self._waiting: deque[tuple[int, int, float]] = deque()  # when it is there, when it was measured, its value

    def take(self, k: int, true: float, injector: Injector) -> None:
        """Read the true value at step k, with the faults of the run."""
        stated, effects = self.effects.description, self.effects
        value = true + stated.noise * float(self._rng.standard_normal()) if stated.noise else true
        if stated.wraps:
            value -= 2 * math.pi * math.floor((value + math.pi) / (2 * math.pi))
        if stated.quantum:
            value = round(value / stated.quantum) * stated.quantum
        dropped = stated.drop > 0 and bool(self._rng.random() < stated.drop)
        shown = injector.reading(k, self.name, value)
        lost = dropped or shown is None or effects.lost_from <= k < effects.lost_to
        if shown is not None and not lost and math.isfinite(shown):
            self._waiting.append((k + effects.delay, k, shown))
        while self.next <= k:
            self._number += 1
            self.next = round(self._number * effects.period)

    def give(self, k: int) -> list[float]:
        """The readings that are there at step k and were not given yet: step, value, step, value, ..."""
        given: list[float] = []
        while self._waiting and self._waiting[0][0] <= k:
            _, measured, value = self._waiting.popleft()
            given += [float(measured), value]
        return given


class SensorSuite:
    """All sensors of a simulated machine. injector: their faults."""

    def __init__(self, observer: Observer, effects: tuple[SensorEffects, ...], seed: int) -> None:
        self._observer = observer
        self._devices = [Device(each, seed) for each in effects]
        self._true = np.zeros(observer.n_z)
        self.injector = Injector()

    @property
    def next(self) -> int:
        """The plant step of the next reading."""
        return min(device.next for device in self._devices)

    def take(self, k: int, t: float, x: Array, u: Array) -> None:
        """Read what is due at step k, time t [s], of the true kernel state under the inputs that act."""
        self._observer.measure(t, x, u, self._true)
        for device, true in zip(self._devices, self._true.tolist(), strict=True):
            if device.next <= k:
                device.take(k, true, self.injector)

    def give(self, k: int) -> Readings:
        """The readings by sensor that are there at step k and were not given yet."""
        return {device.name: given for device in self._devices if (given := device.give(k))}
