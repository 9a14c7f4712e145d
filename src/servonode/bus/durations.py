"""Durations, collected in constant memory: percentiles from a histogram with logarithmic buckets.

Imports only the standard library, because the operator's commands import it too and must be quick.
"""

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate

from servonode.bus.topology import NODES

Clock = Callable[[], int]  # monotonic ns
LEAST, MOST = 1e-7, 1e3  # s; there is one bucket below and one above
PER_OCTAVE = 48  # buckets, each 1.5 % wide, which bounds the error of a percentile
KEPT = 256  # newest durations, for the median in a status line
EXTRA = "extra_"  # begins the name of a value that an external plant measures beside its state
QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}

_OFFSET = 1.0 - PER_OCTAVE * math.log2(LEAST)
_ABOVE = math.ceil(PER_OCTAVE * math.log2(MOST / LEAST)) + 1  # the last bucket
_log2 = math.log2


def _bucket(seconds: float) -> int:
    if LEAST <= seconds < MOST:
        return int(_OFFSET + PER_OCTAVE * _log2(seconds))
    return _ABOVE if seconds >= MOST else 0


class Durations:
    """Durations [s]: how many, the largest, percentiles, and the median of the newest ones.

    A negative one counts as 0. `count` and `maximum` are exact; percentiles are within 1.5 % where the durations are
    between 100 ns and 1000 s. All memory is allocated at the beginning.
    """

    __slots__ = ("_buckets", "_minimum", "_newest", "count", "maximum")

    def __init__(self) -> None:
        self._buckets = array("q", bytes(8 * (_ABOVE + 1)))
        self._newest = array("d", bytes(8 * KEPT))
        self._minimum = math.inf
        self.count = 0
        self.maximum = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration; takes a fraction of a microsecond."""
        if LEAST <= seconds < MOST:
            self._buckets[int(_OFFSET + PER_OCTAVE * _log2(seconds))] += 1
        elif seconds >= MOST:
            self._buckets[_ABOVE] += 1
        else:
            seconds = seconds if seconds > 0.0 else 0.0  # also for nan
            self._buckets[0] += 1
        self._newest[self.count % KEPT] = seconds
        self.count += 1
        if seconds > self.maximum:
            self.maximum = seconds
        if seconds < self._minimum:
            self._minimum = seconds

    def recent(self, n: int = KEPT) -> float:
        """The median of the last n, at most 256 [s]; 0 if none were measured."""
        n = min(n, self.count, KEPT)
        if n < 1:
            return 0.0
        first = (self.count - n) % KEPT
        newest = sorted([*self._newest[first : first + n], *self._newest[: max(first + n - KEPT, 0)]])
        return (newest[(n - 1) // 2] + newest[n // 2]) / 2.0

    def percentiles(self) -> dict[str, float]:
        """p50, p99, p999 and max [s]; empty when nothing was added."""
        if not self.count:
            return {}
        lowest = _bucket(self._minimum)
        counts = self._buckets[lowest : _bucket(self.maximum) + 1]
        passed = list(accumulate(counts))  # how many durations lie in each bucket or below
        found = {name: self._quantile(share, lowest, counts, passed) for name, share in QUANTILES.items()}
        return {**found, "max": self.maximum}

    def flat(self, name: str) -> dict[str, float]:
        """The percentiles as `NAME_p50`, `NAME_p99`, `NAME_p999` and `NAME_max` [s], for a status message."""
        return {f"{name}_{key}": value for key, value in self.percentiles().items()}

    def _quantile(self, share: float, lowest: int, counts: "array[int]", passed: list[int]) -> float:
        """The quantile `share`: as in numpy, linear between the two values nearest in rank."""
        rank = share * (self.count - 1)
        below = math.floor(rank)
        value = self._value(below, lowest, counts, passed)
        if rank > below:
            value += (rank - below) * (self._value(below + 1, lowest, counts, passed) - value)
        return value

    def _value(self, rank: int, lowest: int, counts: "array[int]", passed: list[int]) -> float:
        """The value of this rank from below, with the values of a bucket spread evenly over it."""
        i = bisect_right(passed, rank)
        begin, end = _edge(lowest + i), _edge(lowest + i + 1)
        begin, end = max(begin, self._minimum), min(end, self.maximum)
        inside = rank - (passed[i] - counts[i])
        return begin + (end - begin) * ((inside + 0.5) / counts[i] if counts[i] > 1 else 0.5)


def _edge(bucket: int) -> float:
    """The lower edge of a bucket [s]."""
    if bucket >= _ABOVE:
        return MOST if bucket == _ABOVE else math.inf
    return LEAST * 2.0 ** ((bucket - 1) / PER_OCTAVE) if bucket else 0.0


def gathered(values: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """The inverse of `flat`, for the values of a status message: {"round_trip": {"p50": ...}}."""
    found: dict[str, dict[str, float]] = {}
    for key, value in values.items():
        name, _, quantile = key.rpartition("_")
        if name and not key.startswith(EXTRA) and (quantile in QUANTILES or quantile == "max"):
            found.setdefault(name, {})[quantile] = value
    return {name: each for name, each in found.items() if len(each) == len(QUANTILES) + 1}


def extras(values: Mapping[str, float]) -> str:
    """The values in a status that an external plant measures beside its state, as a line for people."""
    found = {key.removeprefix(EXTRA): value for key, value in values.items() if key.startswith(EXTRA)}
    return ", ".join(f"{name} {value:.4g}" for name, value in found.items())


_HEADS = "".join(f"{head:>10}" for head in ("p50", "p99", "p99.9", "max"))
_NODES = tuple(reversed(NODES))
_ORDER = ("period", "lateness", "execution", "command_age", "round_trip")


def in_rows(nodes: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[tuple[str, str]]:
    """A table of percentiles by node and name ("period" or "period_s"): rows of node and text, after a header.

    Only what was measured has a row; without rows there is no header.
    """
    rows = []
    for node in _in_order(nodes, _NODES):
        named = {name.removesuffix("_s"): each for name, each in nodes[node].items() if each}
        for name in _in_order(named, _ORDER):
            numbers = "".join(f" {named[name][key] * 1e3:>9.3f}" for key in (*QUANTILES, "max"))
            rows.append((node, f"{name.replace('_', ' '):<12}{numbers}"))
    return [("timing [ms]", f"{'':<12}{_HEADS}"), *rows] if rows else []


def _in_order(names: Iterable[str], order: Sequence[str]) -> list[str]:
    """The names in this order, then the others alphabetically."""
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))
