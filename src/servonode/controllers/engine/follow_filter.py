"""A low-pass filter whose output has derivatives: a goal of any order from positions alone.

A chain of n = order + 1 equal first-order lags, s_1' = w (u - s_1), s_i' = w (s_(i-1) - s_i), of which the last is the
output. Its transfer function is (w / (s + w))^n: the output follows slow inputs n / w late, and its derivatives up to
`order` are continuous where the input jumps.
"""

import math
from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array


@dataclass(frozen=True)
class FilterDesign:
    """A chain for derivatives up to `order`, of a bandwidth w [rad/s]."""

    order: int
    bandwidth: float

    @property
    def lags(self) -> int:
        """The number n of first-order lags."""
        return self.order + 1

    @property
    def delay(self) -> float:
        """By how much the output follows slow inputs late [s]."""
        return self.lags / self.bandwidth


class FollowFilter:
    """A chain at rest at first; `advance` is exact for an input that is constant in between."""

    def __init__(self, design: FilterDesign, start: float) -> None:
        self.design = design
        self.s = np.full(design.lags, start)  # of each lag

    def advance(self, u: float, passed: float) -> None:
        """To `passed` [s] later under the constant input u: s_i - u = sum of e^(-a) a^m / m! (s_(i-m) - u), a = w t."""
        if not passed:
            return  # s - u + u would round
        a = self.design.bandwidth * passed
        weights = [math.exp(-a) * a**m / math.factorial(m) for m in range(self.design.lags)]
        with np.errstate(over="ignore", invalid="ignore"):  # who publishes the goal judges whether it is finite
            self.s = np.convolve(self.s - u, weights)[: self.design.lags] + u

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
        other = FollowFilter(self.design, 0.0)
        other.s = self.s
        return other
