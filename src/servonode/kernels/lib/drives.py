"""What the drives make of demanded inputs: delay, dead zone, rounding, limit, rate limit and lag, in this order."""

from servonode.kernels.lib.names import *
from servonode.kernels.lib.rounding import clipped, rounded

LIMIT = 0  # rows of the drives' numbers
CHANGE = 1
BLEND = 2
QUANTUM = 3
DEAD_ZONE = 4


def shaped(demand: float, i: int, drive: f64[drive_rows, n_tau]) -> float:
    """What a drive makes of a demand, but for its dynamics."""
    value = 0.0 if fabs(demand) < drive[DEAD_ZONE, i] else demand
    value = rounded(value, drive[QUANTUM, i])
    return clipped(value, drive[LIMIT, i])


def act(drive: f64[drive_rows, n_tau], demand: f64[n_tau], u: f64[n_tau]) -> None:
    """The inputs of drives without dynamics, from now on."""
    for i in range(n_tau):
        u[i] = shaped(demand[i], i, drive)


def drives(
    k: int,
    drive: f64[drive_rows, n_tau],
    depths: i64[n_tau],
    pipe: f64[any_size, n_tau],
    demand: f64[n_tau],
    slewed: f64[n_tau],
    u: f64[n_tau],
) -> None:
    """Let step k pass in drives with dynamics: delay, shape, rate limit and lag."""
    for i in range(n_tau):
        delayed = demand[i]
        if depths[i] > 0:
            at = k % depths[i]
            delayed = pipe[at, i]
            pipe[at, i] = demand[i]
        slewed[i] += clipped(shaped(delayed, i, drive) - slewed[i], drive[CHANGE, i])
        u[i] += drive[BLEND, i] * (slewed[i] - u[i])
