"""The unscented Kalman filter: points around the mean go through the machine's own steps, nothing is linearised.

Of a mean x and a covariance P with the root P = R R^T the points are x and x +- sqrt(n + l) times each column of R,
l = a^2 n - n, weighted so that their mean and covariance are x and P (Julier and Uhlmann; van der Merwe's scaling with
a = SPREAD, b = 2, kappa = 0). Moved points, or their readings, are weighted in the same way. Process noise is additive,
that of the linearised motion along the mean. It stands here to be compared with the extended filter; each prediction
takes 2 n + 1 integrations.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from servonode.estimators.filter import wrapped
from servonode.estimators.settings import EstimatorSettings
from servonode.mechanics.observer import Observer

Array = npt.NDArray[np.float64]
SPREAD, PRIOR = 0.5, 2.0  # a: how far out the points lie, in sqrt(n) standard deviations; b: 2 where all is Gaussian


class UnscentedKalmanFilter:
    """An unscented Kalman filter of one machine, see `filter.Filter`."""

    def __init__(self, observer: Observer, settings: EstimatorSettings) -> None:
        n = observer.n
        self._observer, self._step_ns = observer, settings.step_ns
        self._advance, self._c = observer.machine.advancer(observer.integrator), observer.machine.c
        self._S, self._V = settings.state_noise**2, settings.input_noise**2
        self._R, self._wraps = np.diag(settings.variances), settings.wraps
        self._most = [limit**2 for limit in settings.gate.limits] if settings.gate else None
        self._width = SPREAD * np.sqrt(n)
        self._means, self._weights = (np.full(2 * n + 1, 1 / (2 * n * SPREAD**2)) for _ in range(2))
        self._means[0] = 1 - 1 / SPREAD**2
        self._weights[0] = self._means[0] + 1 - SPREAD**2 + PRIOR
        self._points = np.zeros((2 * n + 1, n + 1))
        self._read = np.zeros((2 * n + 1, observer.n_z))
        self._noise, self._along = np.zeros((n, n)), np.zeros(n + 1)

    def predict(self, k: int, n: int, x: Array, u: Array, P: Array) -> bool:
        if n == 0:
            return True
        points, t = self._spread(k * self._step_ns / 1e9, x, P), (k + n) * self._step_ns / 1e9
        for point in points:
            self._advance(k, n, self._step_ns, point, u, self._c)
        self._noise[:] = 0.0
        self._along[:] = x
        self._observer.predict(k, n, self._step_ns, self._along, u, self._S, self._V, self._noise)
        x[:-1] = self._means @ points[:, :-1]
        off = points[:, :-1] - x[:-1]
        P[:] = (off.T * self._weights) @ off + self._noise
        finite = bool(np.isfinite(x[:-1]).all() and np.isfinite(P).all())
        if finite:
            self._observer.hold(t, x, P)
        return finite

    def correct(
        self, t: float, x: Array, u: Array, P: Array, which: Sequence[int], z: Array, missed: Array, squares: Array
    ) -> Sequence[int]:
        points, read, used = self._spread(t, x, P), self._read, list(which)
        for point, row in zip(points, read, strict=True):
            self._observer.measure(t, point, u, row)
        for i in used:
            if self._wraps[i]:  # so that the mean of readings near pi and -pi is near them
                read[:, i] = [read[0, i] + wrapped(each - read[0, i]) for each in read[:, i].tolist()]
        rejected = self._rejected(read, used, z, missed, squares)
        used = [i for i in used if i not in rejected]
        if not used:
            return rejected
        seen = read[:, used]
        mean = self._means @ seen
        for i, value in zip(used, mean.tolist(), strict=True):
            missed[i] = wrapped(float(z[i]) - value) if self._wraps[i] else float(z[i]) - value
        off, off_x = seen - mean, points[:, :-1] - self._means @ points[:, :-1]
        S = (off.T * self._weights) @ off + self._R[np.ix_(used, used)]
        root = np.linalg.cholesky(S)
        across = (off.T * self._weights) @ off_x
        gain_root = solve_triangular(root, across, lower=True, check_finite=False)  # K root, transposed
        parts = solve_triangular(root, missed[used], lower=True, check_finite=False)
        squares[used] = parts**2
        x[:-1] += gain_root.T @ parts
        P -= gain_root.T @ gain_root
        P[:] = (P + P.T) / 2
        self._observer.hold(t, x, P)
        return rejected

    def _rejected(self, read: Array, used: Sequence[int], z: Array, missed: Array, squares: Array) -> Sequence[int]:
        """The sensors whose readings are beyond the gate, each by its own innovation and variance."""
        if self._most is None:
            return ()
        for i in used:
            mean = float(self._means @ read[:, i])
            off = read[:, i] - mean
            missed[i] = wrapped(float(z[i]) - mean) if self._wraps[i] else float(z[i]) - mean
            squares[i] = missed[i] ** 2 / (float(self._weights @ off**2) + self._R[i, i])
        return [i for i in used if not squares[i] <= self._most[i]]

    def _spread(self, t: float, x: Array, P: Array) -> Array:
        """The points of a mean and a covariance (2 n + 1, n + 1), on what the machine holds. One array, reused."""
        values, directions = np.linalg.eigh(P)
        columns = (directions * np.sqrt(np.maximum(values, 0.0))).T * self._width
        points, n = self._points, len(columns)
        points[:] = x
        points[1 : n + 1, :-1] += columns
        points[n + 1 :, :-1] -= columns
        machine = self._observer.machine
        if machine.description.held:
            for point in points[1:]:
                machine.kernel.project(t, point, self._c)
        return points
