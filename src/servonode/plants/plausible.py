"""Which readings of a machine are plausible: within limits of value and of change."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf


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
        self.limits, self._least = limits, least
        self._valued = [i for i, most in enumerate(limits.value) if most < inf]
        self._rated = [i for i, most in enumerate(limits.rate) if most < inf]
        self._t = 0.0
        self._before: Sequence[float] | None = None

    def forget(self) -> None:
        """The next reading follows none: a machine may be anywhere when a run begins."""
        self._before = None

    def complaint(self, t: float, values: Sequence[float]) -> tuple[str, str] | None:
        """Name and text of the fault that the values measured at t [s] are; None: they are good, and the newest."""
        limits = self.limits
        for i in self._valued:
            if not abs(values[i]) <= limits.value[i]:
                text = f"the reading {limits.names[i]} = {values[i]:g} is beyond {limits.value[i]:g}, which is its "
                return "implausible_state", f"{text}plant.safety.state_limit; check the sensor, or raise the limit"
        if self._before is not None and self._rated:
            passed = max(t - self._t, self._least)
            for i in self._rated:
                before, most = self._before[i], limits.rate[i] * passed
                if not abs(values[i] - before) <= most:
                    text = (
                        f"the reading {limits.names[i]} jumped from {before:g} to {values[i]:g} in {t - self._t:g} s, "
                    )
                    text += f"beyond its plant.safety.state_rate_limit of {limits.rate[i]:g} per s; check the "
                    return "implausible_state", f"{text}sensor (is an angle wrapped?), or raise the limit"
        self._t, self._before = t, values
        return None
