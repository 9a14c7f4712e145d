"""What every filter does: take a mean and a covariance along the motion, and correct them by readings."""

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Filter(Protocol):
    """A filter of one machine. The mean x (n_x,) is a kernel state; x and the covariance P (n, n) change in place.

    Both raise LinAlgError where the covariance allows no step, because it overflows or has lost its sign.
    """

    def predict(self, k: int, n: int, x: Array, u: Array, P: Array) -> bool:
        """Take them from plant step k on over n steps under held inputs; whether they are still finite."""

    def correct(
        self, t: float, x: Array, u: Array, P: Array, which: Sequence[int], z: Array, missed: Array, squares: Array
    ) -> Sequence[int]:
        """Correct them by readings z (n_z,) of the sensors `which` at time t [s], under the inputs that act.

        missed (n_z,): the innovation of each of these sensors, its reading less what was predicted. squares (n_z,): the
        square of what each adds to the ones before it, in units of its predicted variance; their sum is the NIS.
        Returns the sensors whose readings the gate rejected: those changed nothing, and their squares are those of
        their own innovations.
        """


def wrapped(angle: float) -> float:
    """The angle from -pi to below pi."""
    return angle - 2 * math.pi * math.floor((angle + math.pi) / (2 * math.pi))
