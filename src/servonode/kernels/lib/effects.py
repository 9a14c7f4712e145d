"""The effects of drives and sensors: all their numbers are arguments, by row."""

from servonode.kernels.lib.names import (
    any_size,
    believed_rows,
    drive_rows,
    error_rows,
    f64,
    fabs,
    i64,
    n_state,
    n_tau,
    n_x,
    one,
    rint,
)

LIMIT = 0  # rows of the drives' numbers
CHANGE = 1
BLEND = 2
QUANTUM = 3
DEAD_ZONE = 4
BIAS = 0  # rows of the sensors'
STEP = 1
MOST = 0  # rows of what a plausible reading keeps
FASTEST = 1


def rounded(value: float, quantum: float) -> float:
    """The value in whole steps of a quantum; as it is where that is 0, or below what a double resolves."""
    steps = rint(value / quantum) if quantum > 0.0 else 0.0
    return steps * quantum if quantum > 0.0 and fabs(steps) < 9007199254740992.0 else value


def clipped(value: float, most: float) -> float:
    """The value, or where it is larger than `most` that, with its sign; what is no number stays."""
    within = not fabs(value) > most
    return value if within else most if value > 0.0 else -most


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


def measure(true: f64[n_x], errors: f64[error_rows, n_state], noise: f64[n_state], measured: f64[n_x]) -> None:
    """The measured state; the entry of the work is the true one."""
    for i in range(n_state):
        measured[i] = rounded(true[i] + errors[BIAS, i] + noise[i], errors[STEP, i])
    measured[n_state] = true[n_state]


def plausible(
    t: float,
    measured: f64[n_x],
    believed: f64[believed_rows, n_state],
    least: float,
    before: f64[n_state],
    since: f64[one],
) -> bool:
    """Whether the values measured at t [s] are plausible behind those `before` at since[0], which they replace."""
    passed = max(t - since[0], least)
    for i in range(n_state):
        if not fabs(measured[i]) <= believed[MOST, i]:
            return False
        if since[0] >= 0.0 and not fabs(measured[i] - before[i]) <= believed[FASTEST, i] * passed:
            return False
    since[0] = t
    for i in range(n_state):
        before[i] = measured[i]
    return True
