"""What a picture shows of an estimate: its errors, what it expects of them, and its squared errors as running means."""

import numpy as np

from servonode.arrays import Array
from servonode.record.run import Run

WINDOW = 1 / 40  # of a run, over which squared errors are averaged


def estimate_columns(run: Run) -> dict[str, Array]:
    """Of every row, where the truth is known: error_NAME of each state, the root mean square of the estimate's error
    over a window, and expected_NAME, that of the standard deviation that the filter claims; nis_mean, nees_mean.

    nis_mean: squared innovations for each reading; nees_mean: squared errors for each dimension. {}: none, or no row.
    """
    found = run.estimate
    if found is None or not len(run.t):
        return {}
    rows = max(int(WINDOW * len(run.t)), 1)
    means = {"nis_mean": running_ratio(found.nis, found.readings, rows)}
    if not np.nan_to_num(found.dimensions).any():  # nobody knows the true state
        return means
    names = zip(run.state, run.closed_loop.machine.description.columns, strict=True)
    errors: dict[str, Array] = {}
    for name, column in names:
        for word, sizes in (("error", found.state[column] - run.state[name]), ("expected", found.std[column])):
            errors[f"{word}_{name}"] = np.sqrt(running_ratio(sizes**2, np.ones(len(sizes)), rows))
    return errors | means | {"nees_mean": running_ratio(found.nees, found.dimensions, rows)}


def window_s(run: Run) -> float:
    """The time [s] of the running means."""
    return WINDOW * float(run.t[-1] - run.t[0])


def running_ratio(squares: Array, numbers: Array, rows: int) -> Array:
    """The sum of squares for each of their numbers, over so many rows about each one; NaN where none is known."""
    known = np.isfinite(squares) & (numbers > 0)
    begin = np.arange(len(squares)) - rows // 2
    first, last = np.maximum(begin, 0), np.minimum(begin + rows, len(squares))
    above, below = (np.append(0.0, np.cumsum(np.where(known, each, 0.0))) for each in (squares, numbers))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Array = np.maximum(above[last] - above[first], 0.0) / (below[last] - below[first])
    return ratio
