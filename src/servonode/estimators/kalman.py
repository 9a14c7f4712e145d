"""The extended Kalman filter: the mean by the machine's own integrator, the covariance by its linearisation.

Readings of different sensors have independent errors, so they are taken one after the other, each a scalar: with its
slope h (n,), variance r and innovation nu,

    s = h P h^T + r,   K = P h^T / s,   x <- x + K nu,   P <- (1 - K h) P (1 - K h)^T + K r K^T,

the last in Joseph's form, which stays symmetric and positive under rounding. All slopes are taken at the predicted
mean, nu_i = z_i - h_i(x_predicted) - h_i (x - x_predicted), so that their order is of no effect: it is the filter that
inverts the whole innovation covariance, and the sum of nu^2 / s is its NIS.

A gate of g standard deviations rejects a reading with (z_i - h_i(x_predicted))^2 > g^2 (h_i P h_i^T + r_i), each judged
by the prediction alone, so that here too their order is of no effect.

What the machine holds, such as the norm of a quaternion, holds for the mean after each correction, and the covariance
has no part across it.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.definitions import cache
from servonode.estimators.settings import EstimatorSettings
from servonode.kernels.library import library_text
from servonode.mechanics.observer import Observer

LEAST = 1e-9  # of the correlations' eigenvalues: in directions below it nothing is uncertain


@functools.cache
def correction_of(n: int, n_z: int) -> Any:
    """The compiled correction of n states by n_z sensors.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    source = library_text("correction", {}, {"n_state": n, "n_z": n_z})
    return cache.load(cache.key_of("correction", source), lambda: (source, b"{}"))[0]


class ExtendedKalmanFilter:
    """An extended Kalman filter of one machine. The mean x (n_x,) is a kernel state; x and P (n, n) change in place.

    It keeps the arrays that its kernel works in, for none is made within a step.
    """

    def __init__(self, observer: Observer, settings: EstimatorSettings) -> None:
        n, n_z = observer.n, observer.n_z
        self._observer, self._step_ns = observer, settings.step_ns
        self._kernel = correction_of(n, n_z)
        self._most = [limit**2 for limit in settings.gate.limits] if settings.gate else None
        self._S, self._V = settings.state_noise**2, settings.input_noise**2
        self._r, self._wraps = settings.variances, np.array(settings.wraps, dtype=float)
        self._y, self._H = np.zeros(n_z), np.zeros((n_z, n))
        self._which, self._moved = np.zeros(n_z, dtype=np.int64), np.zeros(n)
        self._g, self._e, self._W = np.zeros(n), np.zeros(n), np.zeros((n, n))

    def predict(self, k: int, n: int, x: Array, u: Array, P: Array) -> bool:
        """Take them from plant step k on over n steps under held inputs; whether they are still finite."""
        return self._observer.predict(k, n, self._step_ns, x, u, self._S, self._V, P)

    def correct(
        self, t: float, x: Array, u: Array, P: Array, which: Sequence[int], z: Array, missed: Array, squares: Array
    ) -> Sequence[int]:
        """Correct them by readings z (n_z,) of the sensors `which` at time t [s], under the inputs that act.

        missed (n_z,): the innovation of each of these sensors, its reading less what was predicted. squares (n_z,): the
        square of what each adds to the ones before it, in units of its predicted variance; their sum is the NIS.
        Returns the sensors whose readings the gate rejected: those changed nothing, and their squares are those of
        their own innovations.
        """
        self._observer.measured(t, x, u, self._y, self._H)
        self._which[: len(which)] = which
        rejected: Sequence[int] = ()
        if self._most is not None:
            self._kernel.distances(
                len(which), self._which, z, self._y, self._r, self._wraps, self._H, P, missed, squares
            )
            rejected = [i for i in which if not squares[i] <= self._most[i]]
            which = [i for i in which if i not in rejected]
            if not which:
                return rejected
            self._which[: len(which)] = which
        self._kernel.correct(
            len(which), self._which, z, self._y, self._r, self._wraps, self._H, P, missed, squares, self._moved,
            self._g, self._e, self._W,
        )  # fmt: skip
        x[: len(self._moved)] += self._moved
        self._observer.hold(t, x, P)
        return rejected


def consistency(mean: Array, P: Array, truth: Array) -> tuple[float, int]:
    """NEES of a mean (n,) with covariance P (n, n), and its degrees of freedom: the directions that are uncertain.

    NEES is e^T P^-1 e with the error e of the whole estimate, NIS nu^T S^-1 nu with the innovations nu of readings.
    Where all is as stated both are chi-square, with as many degrees of freedom as there are dimensions or readings, so
    the sum over independent ones lies within known bands.
    """
    deviation = np.sqrt(np.maximum(np.diag(P), 0.0))
    uncertain = deviation > 0
    scale = deviation[uncertain]
    if not len(scale):
        return 0.0, 0
    values, directions = np.linalg.eigh(P[np.ix_(uncertain, uncertain)] / np.outer(scale, scale))
    along = directions.T @ ((mean - truth)[uncertain] / scale)
    kept = values > LEAST
    return float(np.sum(along[kept] ** 2 / values[kept])), int(kept.sum())
