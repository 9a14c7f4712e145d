"""Limits of the inputs' value, rate and power, the same for simulation and hardware."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.plants.effect_kernels import effect_kernel

Rates = Callable[[], Sequence[float] | Array]  # the velocity on which each input works, at the measured state


@dataclass(frozen=True)
class Limits:
    """What may reach the machine; `inf` where there is no limit.

    Raises:
        ValueError: a limit is negative or NaN, or there is not one rate for each value.
    """

    value: tuple[float, ...]  # largest magnitude of each input, its unit
    rate: tuple[float, ...]  # fastest change of each input, its unit per s
    power: float = math.inf  # W, the most that all inputs together put into the machine

    def __post_init__(self) -> None:
        if len(self.value) != len(self.rate):
            text = f"{len(self.value)} limits of value, but {len(self.rate)} of rate; give one each per input"
            raise ValueError(text)
        wrong = [each for each in (*self.value, *self.rate, self.power) if not each >= 0]
        if wrong:
            raise ValueError(f"a limit is {wrong[0]}; give a magnitude, 0 or more")

    @functools.cached_property
    def bounds(self) -> Array:
        """Value and rate as the compiled limits take them, (2, inputs)."""
        return np.array([self.value, self.rate], dtype=float)


@dataclass(frozen=True, slots=True)
class SoftStart:
    """What holds for a while after an arming, in control periods from the first command that acts."""

    ramp: int  # in these the inputs grow, with the square of the time, to what is asked
    periods: int  # in these `limits` hold
    limits: Limits
    at_first: bool  # whether the first arming of a run has it too

    def share(self, passed: int) -> float:
        """The share of what is asked in the period with this number, from 1 on: smoother than a linear ramp."""
        share = passed / self.ramp if passed < self.ramp else 1.0
        return share * share


def limited(
    asked: Sequence[float],
    before: Sequence[float],
    elapsed: float,
    limits: Limits,
    names: Sequence[str],
    rates: Rates | None = None,
) -> tuple[list[float], list[str]]:
    """Inputs within all limits, and why they are not what was asked: `limit:NAME`, `rate:NAME`, `power`.

    `before` is what was applied before, `elapsed` [s] how long ago that was decided. `rates`, such as
    `Machine.input_rates` at the measured state, is called only where power is limited.
    Values inside all limits come back unchanged. Too much power scales all inputs by one factor; negative power,
    braking, is never cut. Value and power win over rate: an input may drop faster than its rate limit to obey them.
    The power is that at the measured state, not what the machine makes of it until the next decision.

    Raises:
        ValueError: a value is not finite (a clamp would turn NaN into full torque), or power is limited without rates.
    """
    if not len(asked) == len(before) == len(limits.value) == len(names):
        raise ValueError(f"{len(asked)} inputs, {len(before)} before, {len(limits.value)} limits, {len(names)} names")
    if limits.power < math.inf and rates is None:
        raise ValueError("a limit on power needs the rates on which the inputs work")
    n = len(names)  # arrays of its own for each call: threads share kernels
    values, old, works = np.array(asked, dtype=float), np.array(before, dtype=float), np.zeros(n)
    counts = np.zeros(2 * n + 2, dtype=np.int64)
    if rates is not None and limits.power < math.inf:
        works[:] = rates()
    seconds = elapsed if 0.0 < elapsed < math.inf else 0.0  # else, NaN too: no time, no change
    wrong = effect_kernel("limits", n).limit(values, old, seconds, limits.bounds, limits.power, works, counts)
    if wrong >= 0:
        if not math.isfinite(asked[wrong]):
            raise ValueError(f"input {names[wrong]} is {asked[wrong]}; only finite inputs may reach a limit")
        raise ValueError(f"input {names[wrong]} was {before[wrong]}; only finite inputs have been applied")
    reasons = (
        [each for each, count in zip(_told(tuple(names)), counts.tolist(), strict=False) if count] if counts[-1] else []
    )
    return values.tolist(), reasons


@functools.cache
def _told(names: tuple[str, ...]) -> tuple[str, ...]:
    """What the counts mean, for inputs of these names."""
    return *(f"limit:{name}" for name in names), *(f"rate:{name}" for name in names), "power"
