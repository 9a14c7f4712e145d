"""Limits of the inputs' value, rate and power, as pure functions, the same for simulation and hardware."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Rates = Callable[[], Iterable[float]]  # the velocity on which each input works, at the measured state


@dataclass(frozen=True, slots=True)
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
            raise ValueError(
                f"{len(self.value)} limits of value, but {len(self.rate)} of rate; give one each per input"
            )
        wrong = [each for each in (*self.value, *self.rate, self.power) if not each >= 0]
        if wrong:
            raise ValueError(f"a limit is {wrong[0]}; give a magnitude, 0 or more")


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
    applied: list[float] = []
    reasons: list[str] = []
    for value, limit, name in zip(asked, limits.value, names, strict=True):
        if not math.isfinite(value):
            raise ValueError(f"input {name} is {value}; only finite inputs may reach a limit")
        inside = min(max(value, -limit), limit)
        applied.append(inside)
        if inside != value:
            reasons.append(f"limit:{name}")
    if min(limits.rate, default=math.inf) < math.inf:
        applied = _slewed(applied, before, elapsed, limits, names, reasons)
    if limits.power < math.inf:
        if rates is None:
            raise ValueError("a limit on power needs the rates on which the inputs work")
        applied = _within_power(applied, list(map(float, rates())), limits.power, reasons)
    return applied, reasons


def _slewed(
    values: list[float],
    before: Sequence[float],
    elapsed: float,
    limits: Limits,
    names: Sequence[str],
    reasons: list[str],
) -> list[float]:
    """Values, already within their limits, no further from `before` than the rates allow; adds to `reasons`."""
    result: list[float] = []
    seconds = elapsed if 0.0 < elapsed < math.inf else 0.0  # else, NaN too: no time, no change
    for value, old, limit, rate, name in zip(values, before, limits.value, limits.rate, names, strict=True):
        if not math.isfinite(old):
            raise ValueError(f"input {name} was {old}; only finite inputs have been applied")
        if rate == math.inf:  # times no time it would be NaN
            result.append(value)
            continue
        change = rate * seconds
        inside = min(max(value, old - change), old + change)
        if inside != value:
            reasons.append(f"rate:{name}")
            inside = min(max(inside, -limit), limit)  # where `before` was beyond
        result.append(inside)
    return result


def _within_power(values: list[float], rates: list[float], most: float, reasons: list[str]) -> list[float]:
    """The values, or all of them scaled by one factor so that their power is at most `most` [W]; adds to `reasons`."""
    power = _power(values, rates)
    finite = all(map(math.isfinite, rates))
    if finite and power <= most:
        return values
    reasons.append("power")
    if not finite or not math.isfinite(power):
        return [0.0] * len(values)
    factor, slack = most / power, 2.0**-53
    while True:
        scaled = [value * factor for value in values]
        if _power(scaled, rates) <= most:
            return scaled
        slack *= 2.0  # the rounding of the sum above, which may be far more than that of its terms
        factor *= 1.0 - slack  # 0 after 53 turns


def _power(values: Sequence[float], rates: Sequence[float]) -> float:
    """Sum of input times rate [W]."""
    power = 0.0
    for value, rate in zip(values, rates, strict=True):
        power += value * rate  # one by one, as in the exported C: sum() corrects its rounding from Python 3.12 on
    return power
