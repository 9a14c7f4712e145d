"""What becomes of inputs in a control period: limits when they are decided, and when they act."""

from servonode.kernels.lib.given import input_rates
from servonode.kernels.lib.limits import limit, limit_power
from servonode.kernels.lib.names import *


def decide(
    t: float,
    x: f64[n_x],
    c: f64[n_constants],
    period: float,
    bounds: f64[bounded, n_tau],
    power: float,
    counts: i64[n_counts],
    newest: f64[n_tau],
    asked: f64[n_tau],
) -> None:
    """Bring the inputs asked for within all limits; they are the newest then."""
    rates = empty(n_tau)
    if isfinite(power):
        input_rates(t, x, c, rates)
    limit(asked, newest, period, bounds, power, rates, counts)
    for i in range(n_tau):
        newest[i] = asked[i]


def limit_late(
    t: float, x: f64[n_x], c: f64[n_constants], power: float, counts: i64[n_counts], waited: f64[n_tau]
) -> None:
    """Limit the power of inputs that have waited: the machine has moved on since they were decided."""
    rates = empty(n_tau)
    if isfinite(power):
        input_rates(t, x, c, rates)
        limit_power(waited, power, rates, counts)
