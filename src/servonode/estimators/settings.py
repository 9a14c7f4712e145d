"""The settings of an estimator: its start and its uncertainty, the errors of its sensors and of its model."""

from dataclasses import dataclass
from math import isfinite

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.description import SensorDescription


@dataclass(frozen=True)
class Gate:
    """The innovation gate: which readings are not used.

    limits: of each sensor, in standard deviations of its innovation, beyond which a reading is rejected; inf: none.
    allowed_steps: of each sensor, for how many steps all of its readings may be rejected.
    """

    limits: tuple[float, ...]
    allowed_steps: tuple[int, ...]


@dataclass(frozen=True)
class EstimatorSettings:
    """Numbers of an estimator of a machine with n states and n_tau inputs, on sensors in the machine's order.

    mean (n_x,) and deviation (n,) at the start; state_noise (n,), input_noise (n_tau,): root spectral densities of
    white noise on the rates of states [unit/s per root Hz] and on inputs [unit per root Hz]. used: which sensors.
    horizon: steps of the past that are kept for readings that come late. gate: None where every reading is used.
    """

    mean: Array
    deviation: Array
    state_noise: Array
    input_noise: Array
    sensors: tuple[SensorDescription, ...]
    used: tuple[int, ...]
    step_ns: int
    horizon: int
    gate: Gate | None = None

    @property
    def gated(self) -> tuple[str, ...]:
        """The sensors in use whose readings the gate may reject."""
        limits = self.gate.limits if self.gate else ()
        return tuple(self.sensors[i].name for i in self.used if limits and isfinite(limits[i]))

    @property
    def variances(self) -> Array:
        """The variance of each sensor's readings: that of its noise, and a twelfth of its quantum squared."""
        return np.array([each.noise**2 + each.quantum**2 / 12 for each in self.sensors])

    @property
    def wraps(self) -> tuple[bool, ...]:
        """Whether each sensor reads an angle from -pi to pi."""
        return tuple(each.wraps for each in self.sensors)
