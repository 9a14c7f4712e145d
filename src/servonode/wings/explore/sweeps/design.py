"""The design of a sweep: the values of the varied keys in each of its runs, by the run's number."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.key_table import key_of
from servonode.closed_loop.launch_error import KeyRefused
from servonode.definitions.progress import time_text
from servonode.wings.explore.sections import Sweep, Vary

MOST_RUNS = 10_000_000
RATE = 5000  # plant seconds per second that a compiled loop does on one core, for estimates of time
VARY, SWEEP = "sweep.vary", "sweep"
_Points = Callable[[int, int], Array]  # points of a unit cube, from one number to below another


class Axis:
    """The values of one key: from numbers of 0 to 1 (below it) for a random method, by their index in a grid."""

    def __init__(self, key: str, stated: Sequence[float] | Vary) -> None:
        """Raises KeyRefused where it states no range and no values."""
        self.key, self.whole = key, is_whole(key)
        vary = stated if isinstance(stated, Vary) else _pair(key, stated)
        self.points, self.log = vary.points, vary.scale == "log"
        self.values = None if vary.values is None else np.array(vary.values, dtype=float)
        if self.values is not None:
            if (vary.low, vary.high, vary.points) != (None, None, None):
                raise KeyRefused(VARY, key, "there are both values and a range; give only one of them")
            self.low, self.high = float(self.values.min()), float(self.values.max())
            self._check_whole(*self.values)
            return
        if vary.low is None or vary.high is None:
            missing = "low" if vary.low is None else "high"
            raise KeyRefused(VARY, key, f"{missing} is missing; give [low, high], or values = [...]")
        self.low, self.high = vary.low, vary.high
        if not self.low < self.high:
            raise KeyRefused(VARY, key, f"low = {self.low:g} is not below high = {self.high:g}; give another range")
        if self.log and self.low <= 0:
            text = f'low = {self.low:g} has no logarithm; give low > 0, or scale = "linear"'
            raise KeyRefused(VARY, key, text)
        self._check_whole(self.low, self.high)

    @property
    def size(self) -> int:
        """The number of its values in a grid. Raises KeyRefused where it states none."""
        if self.values is not None:
            return len(self.values)
        most = int(self.high - self.low) + 1
        if self.points is None and self.whole:
            return most
        if self.points is None:
            text = f"a grid needs the number of values; give {{low = {self.low:g}, high = {self.high:g}, points = 11}}"
            raise KeyRefused(VARY, self.key, text)
        if self.whole and self.points > most:
            text = f"points = {self.points} are more than there are whole numbers; give at most {most}"
            raise KeyRefused(VARY, self.key, text)
        return self.points

    def grid(self) -> Array:
        """The values of this key in a grid, (size,)."""
        if self.values is not None:
            return self.values
        found: Array = (np.geomspace if self.log else np.linspace)(self.low, self.high, self.size)
        if self.whole:
            found = np.floor(found + 0.5)
        return found

    def between(self, shares: Array) -> Array:
        """The values for numbers of 0 to below 1, (n,)."""
        if self.values is not None:
            chosen: Array = self.values[(shares * len(self.values)).astype(int)]
            return chosen
        high = self.high + self.whole  # each whole number has the values up to the next one
        if self.log:
            found: Array = np.exp(math.log(self.low) + shares * math.log(high / self.low))
        else:
            found = self.low + shares * (high - self.low)
        if self.whole:
            found = np.floor(found)
        return found.clip(self.low, self.high)  # what rounding puts beyond an end

    def _check_whole(self, *values: float) -> None:
        if self.whole and not all(value.is_integer() and value >= 0 for value in map(float, values)):
            raise KeyRefused(VARY, self.key, "the key takes whole numbers; give such")


def is_whole(key: str) -> bool:
    """Whether a key takes whole numbers alone."""
    known = key_of(key)
    return known is not None and known.is_whole


def _pair(key: str, stated: Sequence[float]) -> Vary:
    if len(stated) != 2:
        shown = ", ".join(f"{value:g}" for value in list(stated)[:4])
        text = f"{len(stated)} numbers are no range; give [low, high], or {{values = [{shown}]}}"
        raise KeyRefused(VARY, key, text)
    return Vary(low=float(stated[0]), high=float(stated[1]))


class Design:
    """The values of all runs. `keys` have the order of the columns; `runs` is their number.

    The values of any part are computed when they are asked for: what it needs of memory grows with the part alone,
    but for Latin hypercubes, which are drawn whole.
    """

    def __init__(self, sweep: Sweep, duration_s: float) -> None:
        """Raises KeyRefused where [sweep] cannot be one of runs of so many seconds."""
        if not sweep.vary:
            raise KeyRefused(SWEEP, "vary", 'no key varies; give for example "plant.parameters.m1" = [3.0, 5.0]')
        self.axes = [Axis(key, stated) for key, stated in sweep.vary.items()]
        self.keys = tuple(axis.key for axis in self.axes)
        self.shape = _grid_shape(self.axes, sweep) if sweep.method == "grid" else None
        self.runs = math.prod(self.shape) if self.shape else _stated_runs(self.axes, sweep)
        self._check_runs(duration_s)
        self._grid = [axis.grid() for axis in self.axes] if self.shape else []
        self._method, self._seed = sweep.method, sweep.seed
        self._points: _Points | None = None

    def _check_runs(self, duration_s: float) -> None:
        """Refuse too many runs; the text has the time that they would take."""
        if self.runs <= MOST_RUNS:
            return
        text = f"{self.runs:.3g} runs of {duration_s:g} s take about {time_text(self.runs * duration_s / RATE)} on "
        text += f"one core at {RATE} times real time; at most {MOST_RUNS:.0e} are possible: give fewer"
        key, remedy = ("vary", " points, or the method sobol with runs") if self.shape else ("runs", "")
        raise KeyRefused(SWEEP, key, text + remedy)

    def values(self, first: int, last: int) -> Array:
        """The values of the runs from `first` to below `last`, (last - first, n_keys)."""
        if self.shape is not None:
            indices = np.unravel_index(np.arange(first, last), self.shape)
            return np.stack([values[index] for values, index in zip(self._grid, indices, strict=True)], axis=1)
        if self._points is None:
            self._points = _points(self._method, len(self.axes), self._seed, self.runs)
        shares = self._points(first, last)
        return np.stack([axis.between(column) for axis, column in zip(self.axes, shares.T, strict=True)], axis=1)


def _grid_shape(axes: Sequence[Axis], sweep: Sweep) -> tuple[int, ...]:
    if sweep.runs is not None:
        text = f"a grid has its own number of runs; leave {sweep.runs} out, or choose the method sobol"
        raise KeyRefused(SWEEP, "runs", text)
    return tuple(axis.size for axis in axes)


def _stated_runs(axes: Sequence[Axis], sweep: Sweep) -> int:
    if sweep.runs is None:
        text = f"missing; the method {sweep.method} takes as many runs as it is given"
        raise KeyRefused(SWEEP, "runs", text)
    counted = next((axis.key for axis in axes if axis.points is not None), None)
    if counted is not None:
        text = f"points belongs to a grid; leave it out with the method {sweep.method}"
        raise KeyRefused(VARY, counted, text)
    return sweep.runs


def _points(method: str, n: int, seed: int, runs: int) -> _Points:
    """The points of a random method in n dimensions."""
    if method == "random":
        return lambda first, last: _random(n, seed, first, last)
    from scipy.stats import qmc  # slow to import

    if method == "sobol":
        return _Sobol(lambda: qmc.Sobol(n, rng=np.random.default_rng(seed)))
    whole: Array = qmc.LatinHypercube(n, rng=np.random.default_rng(seed)).random(runs)
    return lambda first, last: whole[first:last]


def _random(n: int, seed: int, first: int, last: int) -> Array:
    """Uniform numbers, each of which depends on seed and position alone."""
    bits = np.random.PCG64(seed)
    bits.advance(first * n)
    return np.random.Generator(bits).random((last - first, n))


class _Sobol:
    """Scrambled Sobol points by their number; what is asked for in order is computed once."""

    def __init__(self, engine: Any) -> None:
        self._new, self._engine = engine, engine()

    def __call__(self, first: int, last: int) -> Array:
        if self._engine.num_generated > first:
            self._engine = self._new()
        if ahead := first - self._engine.num_generated:
            self._engine.fast_forward(ahead)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about numbers of points that are no powers of 2
            found: Array = self._engine.random(last - first)
        return found


def stated_axes(vary: Mapping[str, Any]) -> dict[str, Any]:
    """What a caller in Python states of each key, as [sweep.vary] states it: an array, or a range(), is its values."""
    return {
        key: {"values": np.asarray(stated).tolist()} if isinstance(stated, np.ndarray | range) else stated
        for key, stated in vary.items()
    }
