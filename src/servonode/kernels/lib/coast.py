"""A machine without a controller: zero input, each step judged where the machine states faults."""

from servonode.kernels.lib.given import advance, faults
from servonode.kernels.lib.names import *
from servonode.kernels.lib.rows import record_row

PAUSE = 2000000  # steps, about a second: then the interpreter can handle an interrupt
COMPLETED = -1
AGAIN = -2


def coast(
    steps: int,
    step_ns: int,
    every: int,
    x: f64[n_x],
    u: f64[n_tau],
    last: f64[n_x],
    c: f64[n_constants],
    rows: f64[any_size, n_row],
    progress: i64[n_progress],
) -> int:
    """Run to the end, or to the step at whose end a fault, or a state that is not finite, was found, and return it.

    After PAUSE steps it returns AGAIN, to be called again. last: the state before the step that ended with a fault.
    progress: step and row.
    """
    k, row = progress[0], progress[1]
    pause = k + PAUSE
    while True:
        if k >= pause:
            progress[0], progress[1] = k, row
            return AGAIN
        if k % every == 0 or k == steps:
            record_row(k, x, u, rows[row])
            row += 1
        if k == steps:
            return COMPLETED
        until = min(k - k % every + every, steps)
        if watched:
            for i in range(k, until):
                for j in range(n_x):
                    last[j] = x[j]
                advance(i, 1, step_ns, x, u, c)
                if faults((i + 1) * step_ns / 1e9, x, c) != 0:
                    return i + 1
        else:
            advance(k, until - k, step_ns, x, u, c)
        k = until
        for i in range(n_x):
            if not isfinite(x[i]):
                return k
