"""What sensors make of a state, and which readings are plausible."""

from servonode.kernels.lib.names import *
from servonode.kernels.lib.rounding import rounded

BIAS = 0  # rows of the sensors' numbers
STEP = 1
MOST = 0  # rows of what a plausible reading keeps
FASTEST = 1


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
) -> int:
    """Judge the values measured at t [s] behind those `before` at since[0], which they replace if they are plausible.

    Returns -1 then; else the first entry that is too large, or n_state and the first that has changed too fast.
    """
    passed = max(t - since[0], least)
    for i in range(n_state):
        if not fabs(measured[i]) <= believed[MOST, i]:
            return i
        if since[0] >= 0.0 and not fabs(measured[i] - before[i]) <= believed[FASTEST, i] * passed:
            return n_state + i
    since[0] = t
    for i in range(n_state):
        before[i] = measured[i]
    return -1
