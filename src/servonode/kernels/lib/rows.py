"""Rows of a plant's record."""

from servonode.kernels.lib.names import *


def record_row(k: int, x: f64[n_x], u: f64[n_tau], row: f64[n_row]) -> None:
    """Write step, state and inputs."""
    row[row_step] = k
    for i in range(n_x):
        row[row_x + i] = x[i]
    for i in range(n_tau):
        row[row_inputs + i] = u[i]
