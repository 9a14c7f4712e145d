"""The extended Kalman filter: the mean by the machine's own integrator, the covariance by its linearisation.

Readings of different sensors have independent errors, so they are taken one after the other, each a scalar: with its
slope h (n,), variance r and innovation nu,

    s = h P h^T + r,   K = P h^T / s,   x <- x + K nu,   P <- (1 - K h) P (1 - K h)^T + K r K^T,

the last in Joseph's form, which stays symmetric and positive under rounding. All slopes are taken at the predicted
mean, nu_i = z_i - h_i(x_predicted) - h_i (x - x_predicted), so that their order is of no effect: it is the filter that
inverts the whole innovation covariance, and the sum of nu^2 / s is its NIS.

What the machine holds, such as the norm of a quaternion, holds for the mean after each correction, and the covariance
has no part across it.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from servonode.estimators.filter import wrapped
from servonode.estimators.settings import EstimatorSettings
from servonode.mechanics.observer import Observer

Array = npt.NDArray[np.float64]


class ExtendedKalmanFilter:
    """An extended Kalman filter of one machine, see `filter.Filter`."""

    def __init__(self, observer: Observer, settings: EstimatorSettings) -> None:
        n, n_z = observer.n, observer.n_z
        self._observer, self._step_ns = observer, settings.step_ns
        self._S, self._V = settings.state_noise**2, settings.input_noise**2
        self._r, self._wraps = settings.variances.tolist(), settings.wraps
        self._z, self._H = np.zeros(n_z), np.zeros((n_z, n))
        self._moved = np.zeros(n)
        self._eye, self._joseph, self._work = np.eye(n), np.zeros((n, n)), np.zeros((n, n))

    def predict(self, k: int, n: int, x: Array, u: Array, P: Array) -> bool:
        return self._observer.predict(k, n, self._step_ns, x, u, self._S, self._V, P)

    def correct(
        self, t: float, x: Array, u: Array, P: Array, which: Sequence[int], z: Array, missed: Array, squares: Array
    ) -> None:
        self._observer.measured(t, x, u, self._z, self._H)
        moved = self._moved
        moved[:] = 0.0
        for i in which:
            h = self._H[i]
            off = float(z[i] - self._z[i])
            missed[i] = wrapped(off) if self._wraps[i] else off
            gain = P @ h
            s = float(h @ gain) + self._r[i]
            nu = float(missed[i]) - float(h @ moved)
            squares[i] = nu * nu / s
            gain /= s
            moved += gain * nu
            np.subtract(self._eye, np.outer(gain, h), out=self._joseph)
            np.matmul(self._joseph, P, out=self._work)
            np.matmul(self._work, self._joseph.T, out=P)
            P += np.outer(gain, gain) * self._r[i]
        x[: len(moved)] += moved
        self._observer.hold(t, x, P)
