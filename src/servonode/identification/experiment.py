"""An experiment: what was measured of a machine while known inputs acted, on the grid of its plant steps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from servonode.arrays import Array
from servonode.errors import ServonodeError
from servonode.mechanics.kernels import Whole
from servonode.mechanics.machine import Machine
from servonode.mechanics.observer import Observer

MOST_SAMPLES = 20_000  # of a channel; of more every second, third, ... is taken
LEAST_STEPS = 4  # different values, or of fewer occurrences of each, from which the quantum of a channel is read
WHOLE = 1e-6  # of a quantum, by which a value may miss a whole number of them


class IdentificationError(ServonodeError, ValueError):
    """Parameters cannot be identified from a record; the text says why and what helps."""


@dataclass(frozen=True)
class Channel:
    """One measured quantity: a state of the machine, or the readings of a sensor.

    index: of the state among the states, or of the sensor among the sensors. row: the row of the experiment at which
    each value (n,) was measured. wraps: an angle that is read from -pi to pi.
    """

    name: str
    unit: str
    index: int
    row: Whole
    values: Array
    of_sensor: bool = False
    wraps: bool = False

    @cached_property
    def quantum(self) -> float:
        """The step to which the values are rounded, read from the values themselves; 0: they are not rounded."""
        steps = np.unique(self.values)
        if len(steps) < 2 or (len(steps) < LEAST_STEPS and len(self.values) < LEAST_STEPS * len(steps)):
            return 0.0
        smallest = float(np.min(np.diff(steps)))
        multiples = np.diff(steps) / smallest
        return smallest if np.all(np.abs(multiples - np.round(multiples)) < WHOLE * np.maximum(multiples, 1)) else 0.0

    @cached_property
    def noise(self) -> float:
        """The variance that the differences of neighbouring values show."""
        return float(np.mean(np.diff(self.values) ** 2)) / 2

    @property
    def resolved(self) -> bool:
        """Whether the values change by more than two of the steps to which they are rounded, or noise mixes these."""
        spread = float(np.ptp(self.values))
        return spread > 2 * self.quantum * (1 + WHOLE) or 0.0 < self.quantum**2 / 12 < self.noise

    @property
    def span(self) -> float:
        """How far the values spread; 1 where they are all the same."""
        return float(np.ptp(self.values)) or 1.0

    def difference(self, one: Array, other: Array) -> Array:
        """one - other, of an angle that wraps the smallest such."""
        apart: Array = one - other
        return apart - 2 * np.pi * np.round(apart / (2 * np.pi)) if self.wraps else apart


@dataclass(frozen=True)
class Experiment:
    """Rows at the plant steps k (rows,), in between constant inputs u (rows - 1, n_tau), and what was measured.

    machine: with the parameters of its launch file. guess: the states (rows, n_state) as far as they are known before
    the fit, from which segments begin. observer: of the sensors, where there are channels of them.
    """

    name: str
    machine: Machine
    step_ns: int
    integrator: str
    k: Whole
    u: Array
    channels: tuple[Channel, ...]
    guess: Array
    observer: Observer | None = None

    @property
    def t(self) -> Array:
        """The times of the rows [s]."""
        return self.k * self.step_ns / 1e9

    @property
    def duration(self) -> float:
        """From the first to the last row [s]."""
        return float(self.k[-1] - self.k[0]) * self.step_ns / 1e9

    @property
    def n_measurements(self) -> int:
        return len(self.values)

    @cached_property
    def values(self) -> Array:
        """All measured values, channel by channel."""
        return np.concatenate([each.values for each in self.channels])

    @cached_property
    def row(self) -> Whole:
        """The row of each of these values."""
        return np.concatenate([each.row for each in self.channels])

    @cached_property
    def channel(self) -> Whole:
        """The number of the channel of each of these values."""
        return np.repeat(np.arange(len(self.channels)), [len(each.values) for each in self.channels])

    def less(self, correction: Array) -> "Experiment":
        """The experiment with what was measured less a correction (n,)."""
        values = np.split(self.values - correction, np.cumsum([len(each.values) for each in self.channels])[:-1])
        channels = tuple(replace(each, values=own) for each, own in zip(self.channels, values, strict=True))
        return replace(self, channels=channels)

    def difference(self, one: Array, other: Array) -> Array:
        """one - other, entry by entry of what all channels measure."""
        parts, ends = [], np.cumsum([len(each.values) for each in self.channels])[:-1]
        for each, a, b in zip(self.channels, np.split(one, ends), np.split(other, ends), strict=True):
            parts.append(each.difference(a, b))
        return np.concatenate(parts)

    def measured(self, machine: Machine, x: Array) -> Array:
        """What the channels measure without error of the kernel states x (rows, n_x) of a machine."""
        readings = self._readings(machine, x)
        return np.concatenate(
            [(readings[each.row, each.index] if each.of_sensor else x[each.row, each.index]) for each in self.channels]
        )

    def _readings(self, machine: Machine, x: Array) -> Array:
        """What the sensors measure at the rows at which one was read (rows, n_z); elsewhere nothing."""
        if self.observer is None:
            return np.zeros((0, 0))
        observer = Observer(machine, self.observer.kernel, self.integrator)
        found = np.full((len(x), observer.n_z), np.nan)
        for i in np.unique(np.concatenate([each.row for each in self.channels if each.of_sensor])).tolist():
            observer.measure(float(self.t[i]), x[i], self.u[max(i - 1, 0)], found[i])
        return found


def decimated(row: Whole, values: Array) -> tuple[Whole, Array]:
    """At most MOST_SAMPLES of these measurements, evenly spread."""
    every = -(-len(row) // MOST_SAMPLES)
    return row[::every], values[::every]


def runs_of_inputs(k: Sequence[int], u: Array, wanted: Whole) -> tuple[Whole, Array]:
    """Rows of an experiment, at the steps `wanted` and wherever the input changes, and the input of each.

    u[i] acts from step k[i] on, until k[i + 1] or the last step that is wanted.
    """
    steps = np.asarray(k, dtype=np.int64)
    changes = steps[np.append(True, np.any(u[1:] != u[:-1], axis=1))] if len(u) else steps
    rows = np.union1d(changes[(changes > wanted[0]) & (changes < wanted[-1])], wanted)
    acting = np.searchsorted(steps, rows[:-1], side="right") - 1
    return rows, np.ascontiguousarray(u[np.maximum(acting, 0)])
