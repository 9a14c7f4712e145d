"""The limits of the inputs' value, rate and power."""

from servonode.kernels.lib.names import *

VALUE = 0  # rows of the bounds
RATE = 1


def power_of(values: f64[n_tau], factor: float, rates: f64[n_tau]) -> float:
    """The power of the inputs times a factor [W]."""
    power = 0.0
    for i in range(n_tau):
        power += values[i] * factor * rates[i]
    return power


def limit_power(values: f64[n_tau], power: float, rates: f64[n_tau], counts: i64[n_counts]) -> bool:
    """Scale all inputs by one factor, so that their power is within the limit; whether it did.

    Negative power, braking, is never cut. rates: the velocity on which each input works.
    """
    finite = True
    for i in range(n_tau):
        finite = finite and isfinite(rates[i])
    asked = power_of(values, 1.0, rates)
    if finite and asked <= power:
        return False
    counts[2 * n_tau] += 1
    factor = 0.0
    if finite and isfinite(asked):
        factor = power / asked
        slack = 1.1102230246251565e-16  # the rounding of the sum, which may be far more than that of its terms
        while not power_of(values, factor, rates) <= power:
            slack *= 2.0
            factor *= 1.0 - slack  # 0 after 53 turns
        for i in range(n_tau):
            values[i] *= factor
    else:
        for i in range(n_tau):
            values[i] = 0.0
    return True


def limit(
    values: f64[n_tau],
    before: f64[n_tau],
    elapsed: float,
    bounds: f64[bounded, n_tau],
    power: float,
    rates: f64[n_tau],
    counts: i64[n_counts],
) -> int:
    """Bring the inputs within all limits; those applied `before` were decided `elapsed` [s] ago.

    Value and power win over rate: an input may drop faster than its rate limit to obey them. Returns -1, or, with all
    left as it was, the first input that is not finite, or was not: a clamp would make a full input of it.
    """
    for i in range(n_tau):
        if not isfinite(values[i]) or not isfinite(before[i]):
            return i
    changed = False
    for i in range(n_tau):
        asked = values[i]
        inside = min(max(asked, -bounds[VALUE, i]), bounds[VALUE, i])
        if inside != asked:
            changed = True
            counts[i] += 1
        values[i] = inside
    if slewed:
        for i in range(n_tau):
            if isfinite(bounds[RATE, i]):  # times no time it would be no number
                change = bounds[RATE, i] * elapsed
                inside = min(max(values[i], before[i] - change), before[i] + change)
                if inside != values[i]:
                    changed = True
                    counts[n_tau + i] += 1
                    values[i] = min(max(inside, -bounds[VALUE, i]), bounds[VALUE, i])  # where `before` was beyond
    if powered and isfinite(power):
        changed = limit_power(values, power, rates, counts) or changed
    if changed:
        counts[2 * n_tau + 1] += 1
    return -1
