"""How far a number may deviate before runs fail: sizes on a coarse grid first, then in between by halving."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.description import Quantity
from servonode.sweeps.intervals import clopper_pearson

TARGET = 0.9  # success rate that a size must have
PRECISION = 0.01  # of a size, to which a margin is found
MOST_ROUNDS = 12

Trial = Callable[[Array], list[str]]  # values (n, n_keys) -> why each run fails, "" where it succeeds


@dataclass(frozen=True)
class Deviation:
    """One number that deviates, by sizes above 0: on a coarse grid first, then in between.

    values: of the varied keys at a size, a row for each seed. grid: the sizes tried first, in rising order. step: sizes
    are its multiples; 0: any size. least: the size at which nothing deviates. group: what it belongs to.
    """

    name: str
    group: str
    quantity: Quantity
    values: Callable[[float], list[list[float]]]
    grid: tuple[float, ...]
    step: float = 0.0
    least: float = 0.0


@dataclass(frozen=True)
class Tried:
    """The runs at a size: how many succeed, and the most frequent reason why others do not; empty: all succeed."""

    size: float
    successes: int
    runs: int
    reason: str

    @property
    def rate(self) -> float:
        return self.successes / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """The exact interval of 95 % of the success rate."""
        return clopper_pearson(self.successes, self.runs)


@dataclass(frozen=True)
class Margin:
    """The largest size of a deviation up to which at least 90 % of the runs succeed, at each size that was tried.

    low, high: of one run for each size, the sizes between which the first failure lies. Of random runs, the size up to
    which the interval of the success rate lies above 90 %, and that from which it lies below. failed: False where no
    size fails, so that the margin is at least as large. reason: why runs fail beyond it.
    """

    name: str
    group: str
    quantity: Quantity
    least: float
    tried: tuple[Tried, ...]

    @property
    def size(self) -> float:
        """The margin: the last size before the first that fails."""
        return self._last_before(lambda each: each.rate >= TARGET)

    @property
    def low(self) -> float:
        """The lower end of what the margin may be."""
        if self._single:
            return self.size
        return self._last_before(lambda each: each.interval[0] >= TARGET)

    @property
    def high(self) -> float:
        """The upper end of what the margin may be; infinite where no size fails for sure."""
        return next((each.size for each in self.tried if self._fails_for_sure(each)), np.inf)

    def _fails_for_sure(self, tried: Tried) -> bool:
        return tried.rate < TARGET if self._single else tried.interval[1] < TARGET

    @property
    def failed(self) -> bool:
        """Whether a size fails."""
        return any(each.rate < TARGET for each in self.tried)

    @property
    def reason(self) -> str:
        """Why runs fail at the first size that fails; empty: none does."""
        return next((each.reason for each in self.tried if each.rate < TARGET), "")

    @property
    def _single(self) -> bool:
        return all(each.runs == 1 for each in self.tried)

    def _last_before(self, holds: Callable[[Tried], bool]) -> float:
        """The last size before the first one for which something does not hold."""
        last = self.least
        for each in self.tried:
            if not holds(each):
                break
            last = each.size
        return last


def margins(trial: Trial, deviations: Sequence[Deviation]) -> list[Margin]:
    """The margins of deviations that vary the same keys; each round of sizes is one sweep."""
    lines = [_Line(each) for each in deviations]
    wanted = [list(each.deviation.grid) for each in lines]
    for _ in range(MOST_ROUNDS):
        if not any(wanted):
            break
        _try(trial, lines, wanted)
        wanted = [each.next_sizes() for each in lines]
    return [
        Margin(d.name, d.group, d.quantity, d.least, tuple(line.tried))
        for d, line in zip(deviations, lines, strict=True)
    ]


@dataclass
class _Line:
    """A deviation with the sizes that were tried, in rising order."""

    deviation: Deviation
    tried: list[Tried] = field(default_factory=list)

    def next_sizes(self) -> list[float]:
        """The size between the last that succeeds and the first that fails, as long as they differ enough."""
        first = next((i for i, each in enumerate(self.tried) if each.rate < TARGET), None)
        if first is None:
            return []
        high = self.tried[first].size
        low = self.tried[first - 1].size if first else self.deviation.least
        step = self.deviation.step
        middle = float(np.sqrt(low * high)) if low else high / 2
        if step:
            middle = step * round(middle / step)
        close = high - low <= PRECISION * high or not low < middle < high
        return [] if close else [middle]


def _try(trial: Trial, lines: Sequence[_Line], wanted: Sequence[Sequence[float]]) -> None:
    """Run all wanted sizes of all lines at once."""
    sizes = [(line, size) for line, own in zip(lines, wanted, strict=True) for size in own]
    rows = [line.deviation.values(size) for line, size in sizes]
    reasons = iter(trial(np.array([row for each in rows for row in each])))
    for (line, size), each in zip(sizes, rows, strict=True):
        found = [next(reasons) for _ in each]
        failures = Counter(reason for reason in found if reason)
        reason = failures.most_common(1)[0][0] if failures else ""
        line.tried.append(Tried(size, found.count(""), len(found), reason))
    for line in lines:
        line.tried.sort(key=lambda each: each.size)
