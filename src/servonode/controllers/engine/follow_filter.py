"""A low-pass filter whose output has derivatives: a goal of any order from positions alone.

A chain of n = order + 1 equal first-order lags, s_1' = w (u - s_1), s_i' = w (s_(i-1) - s_i), of which the last is the
output. Its transfer function is (w / (s + w))^n: the output follows slow inputs n / w late, and its derivatives up to
`order` are continuous where the input jumps. An input that moves at a limited rate moves the output no faster, and the
output never leaves the range of the inputs: the impulse response is positive.
"""

import math
import sys
from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array


@dataclass(frozen=True)
class FilterDesign:
    """A chain for derivatives up to `order`, of a bandwidth w [rad/s], whose input moves at most at `rate` [1/s]."""

    order: int
    bandwidth: float
    rate: float = math.inf

    @property
    def lags(self) -> int:
        """The number n of first-order lags."""
        return self.order + 1

    @property
    def delay(self) -> float:
        """By how much the output follows slow inputs late [s]."""
        return self.lags / self.bandwidth

    @property
    def reach(self) -> float:
        """The largest input of which no derivative, nor the square of one, is beyond all numbers."""
        return math.sqrt(sys.float_info.max) / max(1.0, (2 * self.bandwidth) ** self.order)


class FollowFilter:
    """A chain at rest at first; `advance` is exact for an input that is constant, or moves steadily, in between."""

    def __init__(self, design: FilterDesign, start: float) -> None:
        self.design = design
        self.u = start  # the input that has come so far on its way
        self.s = np.full(design.lags, start)  # of each lag

    def advance(self, u: float, passed: float) -> None:
        """To `passed` [s] later; the input moves to u at the design's rate, and stays there."""
        rate, way = self.design.rate, u - self.u
        moving = min(abs(way) / rate, passed)
        if moving:
            self._advance(math.copysign(rate, way), moving)
        if moving < passed:
            self.u = u
            self._advance(0.0, passed - moving)

    def _advance(self, slope: float, passed: float) -> None:
        """To `passed` later under a steady input, for which s_i = p_i = u - i slope / w solves the equations.

        The rest decays: s_i - p_i = sum of e^(-a) a^m / m! (s_(i-m) - p_(i-m)), a = w t.
        """
        a = self.design.bandwidth * passed
        weights = [math.exp(-a) * a**m / math.factorial(m) for m in range(self.design.lags)]
        behind = slope / self.design.bandwidth * np.arange(1, self.design.lags + 1)
        with np.errstate(over="ignore", invalid="ignore"):  # who publishes the goal judges whether it is finite
            rest = np.convolve(self.s - (self.u - behind), weights)[: self.design.lags]
            self.u += slope * passed
            self.s = rest + (self.u - behind)

    def output(self) -> Array:
        """The last lag's value and derivatives up to the order: each is w times the difference of two before it."""
        found, chain = np.empty(self.design.lags), self.s
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(self.design.lags):
                found[k] = chain[-1]
                chain = self.design.bandwidth * (chain[:-1] - chain[1:])
        return found

    def copy(self) -> "FollowFilter":
        """The same chain, to be advanced apart."""
        other = FollowFilter(self.design, self.u)
        other.s = self.s
        return other
