"""Sums of sines as excitation: texts for a launch file, drawn at random and varied."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from servonode.arrays import Array

SINES = 3  # in the signal of one name
DIGITS = 3


@dataclass(frozen=True)
class Multisine:
    """The sum of share * scale * cap * sin(frequency t + phase) [rad/s, rad] for one name; cap: its largest value."""

    cap: float
    scale: float  # up to 1
    shares: Array  # sum 1
    frequencies: Array
    phases: Array

    @property
    def text(self) -> str:
        """The expression of t, with few digits."""
        sizes = self.cap * self.scale * self.shares
        terms = [
            f"{_short(size)}*sin({_short(frequency)}*t + {_short(phase)})"
            for size, frequency, phase in zip(sizes, self.frequencies, self.phases, strict=True)
            if size > 1e-3 * self.cap
        ]
        return " + ".join(terms) or "0"

    def values(self, t: Array) -> Array:
        """Its values at times t [s], from the digits of the text."""
        found = np.zeros_like(t)
        for size, frequency, phase in zip(
            self.cap * self.scale * self.shares, self.frequencies, self.phases, strict=True
        ):
            if size > 1e-3 * self.cap:
                found += float(_short(size)) * np.sin(float(_short(frequency)) * t + float(_short(phase)))
        return found


Signals = dict[str, Multisine]


def drawn(caps: Mapping[str, float], slowest: float, fastest: float, rng: np.random.Generator) -> Signals:
    """One signal for each name, with frequencies [rad/s] evenly spread on a logarithmic scale."""
    return {name: Multisine(cap, 1.0, rng.dirichlet(np.ones(SINES)),
                            np.exp(rng.uniform(np.log(slowest), np.log(fastest), SINES)), rng.uniform(0, 6.28, SINES))
            for name, cap in caps.items()}  # fmt: skip


def varied(signals: Signals, slowest: float, fastest: float, rng: np.random.Generator) -> Signals:
    """Signals near these: their frequencies, shares and phases a little changed."""
    found = {}
    for name, each in signals.items():
        shares = each.shares * np.exp(0.4 * rng.standard_normal(SINES))
        frequencies = np.clip(each.frequencies * np.exp(0.2 * rng.standard_normal(SINES)), slowest, fastest)
        phases = (each.phases + 0.5 * rng.standard_normal(SINES)) % 6.28
        found[name] = replace(each, shares=shares / shares.sum(), frequencies=frequencies, phases=phases)
    return found


def scaled(signals: Signals, factor: float) -> Signals:
    """The signals times a factor."""
    return {name: replace(each, scale=each.scale * factor) for name, each in signals.items()}


def _short(value: float) -> str:
    return f"{value:.{DIGITS}g}"
