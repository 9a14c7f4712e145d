"""The correction of an estimate by readings, each a scalar, and how far off they are; see `estimators/kalman.py`."""

from servonode.kernels.lib.names import *


def innovation(measured: float, expected: float, wraps: float) -> float:
    """A reading less what was predicted; of an angle within half a turn."""
    nu = measured - expected
    if wraps != 0.0:
        nu = nu - 6.283185307179586 * floor((nu + 3.141592653589793) * 0.15915494309189535)
    return nu


def correct(
    m: int,
    which: i64[any_size],
    z: f64[n_z],
    y: f64[n_z],
    r: f64[n_z],
    wraps: f64[n_z],
    H: f64[n_z, n_state],
    P: f64[n_state, n_state],
    missed: f64[n_z],
    squares: f64[n_z],
    moved: f64[n_state],
    g: f64[n_state],
    e: f64[n_state],
    W: f64[n_state, n_state],
) -> None:
    """Correct P by m readings z of the sensors `which`, predicted as y with slopes H; `moved` is for the mean.

    g, e, W: scratch.
    """
    for i in range(n_state):
        moved[i] = 0.0
    for a in range(m):
        s = which[a]
        nu = innovation(z[s], y[s], wraps[s])
        missed[s] = nu
        variance = r[s]
        for i in range(n_state):
            total = 0.0
            for j in range(n_state):
                total += P[i, j] * H[s, j]
            g[i] = total
        for i in range(n_state):
            variance += H[s, i] * g[i]
            nu = nu - H[s, i] * moved[i]
        squares[s] = nu * nu / variance
        for i in range(n_state):
            for j in range(n_state):
                W[i, j] = P[i, j] - g[i] / variance * g[j]
        for i in range(n_state):
            g[i] = g[i] / variance
            moved[i] += g[i] * nu
            total = 0.0
            for j in range(n_state):
                total += W[i, j] * H[s, j]
            e[i] = total
        for i in range(n_state):
            for j in range(i + 1):
                P[i, j] = W[i, j] - e[i] * g[j] + r[s] * g[i] * g[j]
                P[j, i] = P[i, j]


def distances(
    m: int,
    which: i64[any_size],
    z: f64[n_z],
    y: f64[n_z],
    r: f64[n_z],
    wraps: f64[n_z],
    H: f64[n_z, n_state],
    P: f64[n_state, n_state],
    missed: f64[n_z],
    squares: f64[n_z],
) -> None:
    """The innovation of each of m readings, and its square in units of its variance, each by itself."""
    for a in range(m):
        s = which[a]
        nu = innovation(z[s], y[s], wraps[s])
        missed[s] = nu
        variance = r[s]
        for i in range(n_state):
            total = 0.0
            for j in range(n_state):
                total += P[i, j] * H[s, j]
            variance += H[s, i] * total
        squares[s] = nu * nu / variance
