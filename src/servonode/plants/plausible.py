"""Which readings of a machine are plausible: within limits of value and of change."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from servonode.plants.effect_kernels import effect_kernel


@dataclass(frozen=True)
class StateLimits:
    """What a plausible reading keeps, by state; inf where nothing is known.

    value: its largest magnitude [its unit]. rate: its fastest change [its unit per s of plant time].
    """

    names: tuple[str, ...]
    value: tuple[float, ...]
    rate: tuple[float, ...]

    @property
    def any(self) -> bool:
        """Whether anything is limited."""
        return min((*self.value, *self.rate), default=inf) < inf


class Plausible:
    """Judges the readings of one machine, one after the other.

    least [s of plant time]: two readings that come closer together may differ by as much as over this time, for a
    sensor's noise and quantum do not shrink with the time between them.
    """

    def __init__(self, limits: StateLimits, least: float) -> None:
        n = len(limits.names)
        self.limits, self._least, self._kernel = limits, least, effect_kernel("readings", n)
        self._believed = np.array([limits.value, limits.rate])
        self._measured, self._before, self._since = np.zeros(n + 1), np.zeros(n), np.full(1, -1.0)

    def forget(self) -> None:
        """The next reading follows none: a machine may be anywhere when a run begins."""
        self._since[0] = -1.0

    def complaint(self, t: float, values: Sequence[float]) -> tuple[str, str] | None:
        """Name and text of the fault that the values measured at t [s] are; None: they are good, and the newest."""
        self._measured[:-1] = values
        found = self._kernel.plausible(t, self._measured, self._believed, self._least, self._before, self._since)
        if found < 0:
            return None
        limits, i = self.limits, found % len(values)
        if found == i:
            text = f"the reading {limits.names[i]} = {values[i]:g} is beyond {limits.value[i]:g}, which is its "
            return "implausible_state", f"{text}plant.safety.state_limit; check the sensor, or raise the limit"
        text = f"the reading {limits.names[i]} jumped from {self._before[i]:g} to {values[i]:g} in "
        text += f"{t - self._since[0]:g} s, beyond its plant.safety.state_rate_limit of {limits.rate[i]:g} per s; "
        return "implausible_state", f"{text}check the sensor (is an angle wrapped?), or raise the limit"
