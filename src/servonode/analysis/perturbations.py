"""Whether what starts a little beside a motion stays there: the growth of perturbations along the closed loop's run."""

from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.simulation.continuous_loop import ContinuousLoop
from servonode.simulation.equations_source import AGAIN, APART, HUGE, STOPPED
from servonode.simulation.loop_equations import BATCH

SMALL = 1e-7  # size of the perturbations, relative to the states (to 1 for states below 1)
COPIES, SEED = 4, 1
BESIDE = 0.01  # m, rad, or relative to what is above 1: a perturbation that is none of calculus
FACTOR = 100.0  # least growth of a perturbation that is called growing
STEADY = 0.35  # least share of that growth (in logarithm) in the second half of its time: 1/2 is a steady rate
POINTS, FEW = 401, 10  # times at which growth is looked at; so few of them cannot tell a steady one from a transient
AFTERMATH = 5120  # steps beyond what stopped a motion, in which it may escape
AT_LAST = 0.9  # of the time: growth up to there has not ended


@dataclass
class Motion:
    """The motion and the growth of the copies' distances (logarithms), with unit directions; what ended it."""

    times: list[float]
    logs: list[Array]
    directions: list[Array]
    states: list[Array] = field(default_factory=list)
    refusal: tuple[float, str] | None = None
    escape: tuple[float, str] | None = None

    def near(self, t: float) -> tuple[float, Array]:
        """The accepted time next to t [s], and the state there."""
        i = int(np.argmin(np.abs(np.array(self.times) - t)))
        return self.times[i], self.states[i]

    def over(self, times: Array, entry: int) -> Array:
        """An entry of the state at these times [s], interpolated between accepted ones."""
        found: Array = np.interp(times, self.times, [x[entry] for x in self.states])
        return found


def follow(loop: ContinuousLoop, duration: float, active: npt.NDArray[np.bool_]) -> Motion:
    """The motion and its copies, which are brought back to SMALL whenever they have left it by a factor of 100.

    `active` says which of the loop's entries count.
    """
    n, entries, x = len(loop.start), loop.entries, loop.start
    unit = np.random.default_rng(SEED).normal(size=(COPIES, len(entries))) * active
    scale = SMALL * np.maximum(1.0, np.abs(x[entries]))

    def stacked(x: Array, unit: Array) -> Array:
        beside = np.tile(x, (COPIES, 1))
        beside[:, entries] += unit / np.linalg.norm(unit, axis=1, keepdims=True) * scale
        return np.concatenate([x, *beside])

    motion, total, text = Motion([0.0], [np.zeros(COPIES)], [unit], [x]), np.zeros(COPIES), None
    weights = np.zeros(n)
    weights[entries] = active / scale
    t, code = 0.0, AGAIN
    for part in loop.steps(0.0, stacked(x, unit), duration, stops=True, weights=weights, **loop.too_fast):
        states = part.states.reshape(len(part.times), COPIES + 1, n)
        code, kept = part.code, len(part.times) - (part.code in (STOPPED, HUGE))
        beside = states[:kept, 1:, entries] - states[:kept, :1, entries]
        unit = beside / scale * active
        size = np.maximum(np.linalg.norm(unit, axis=2), 1e-12)
        motion.times += part.times[:kept].tolist()
        motion.states += list(states[:kept, 0])
        motion.logs += list(total + np.log(size))
        motion.directions += list(unit / size[:, :, None])
        if len(part.times):
            t, x = float(part.times[-1]), states[-1, 0].copy()
        if code == APART:
            total, part.states[-1, n:] = motion.logs[-1], stacked(x, unit[-1])[n:]
    if code in (STOPPED, HUGE):
        text = loop.refusal(t, x)
    elif t < duration:
        text = "the integration cannot continue; the law or the motion is not smooth here"
    motion.refusal = (t, text) if text else None
    if t < duration and not loop.dead_point(t, x):
        motion.escape = _aftermath(loop, t, x, t + duration)
    return motion


def _aftermath(loop: ContinuousLoop, t: float, x: Array, end: float) -> tuple[float, str] | None:
    """The escape that a motion comes to if its guards let it pass, or None: none within so many steps."""
    for part in islice(loop.steps(t, x, end, **loop.too_fast), AFTERMATH // BATCH):
        if len(part.times):
            t, x = float(part.times[-1]), part.states[-1]
    return loop.escape(t, x)


def growth(motion: Motion, lasting: bool = False) -> tuple[float | None, Array, float]:
    """The rate [1/s] at which copies leave the motion, None where they do not; the direction at the end, the begin [s].

    Powers of time grow too: of the growth of t^n over a factor 100 in time only a seventh falls into the second half.
    With `lasting` only growth that continues to the end counts.
    """
    times, logs = np.array(motion.times), np.array(motion.logs)
    for i in range(COPIES):
        grid = np.linspace(0.0, times[-1], POINTS)
        first, last, g = _rise(np.interp(grid, times, logs[:, i]))
        if lasting and last < AT_LAST * (len(grid) - 1):
            continue
        if last - first < FEW:
            grid = np.linspace(grid[first], grid[last], POINTS)
            first, last, g = _rise(np.interp(grid, times, logs[:, i]))
        middle = (first + last) // 2
        rise = g[last] - g[first]
        if rise > np.log(FACTOR) and g[last] - g[middle] > STEADY * rise:
            rate = float(np.polyfit(grid[middle : last + 1], g[middle : last + 1], 1)[0])
            end = motion.directions[min(int(np.searchsorted(times, grid[last])), len(times) - 1)][i]
            return rate, end, float(grid[first])
    return None, np.zeros(0), 0.0


def spread(loop: ContinuousLoop, motion: Motion, since: float, weights: Array) -> float:
    """By what factor copies that start BESIDE a motion, at a time [s], leave it until its end; inf where that stops.

    Distances are the largest entry, as these weights count them.
    """
    i = int(np.argmin(np.abs(np.array(motion.times) - since)))
    t, x, entries = motion.times[i], motion.states[i], loop.entries
    apart = motion.directions[i] * np.maximum(1.0, np.abs(x[entries]))
    apart *= BESIDE / np.maximum(np.abs(apart * weights).max(axis=1, keepdims=True), SMALL)
    both = np.tile(x, (2 * COPIES + 1, 1))
    both[1:, entries] += np.concatenate([apart, -apart])
    largest = BESIDE
    for part in loop.steps(t, both.ravel(), motion.times[-1], **loop.too_fast):
        states = part.states.reshape(len(part.times), *both.shape)[:, :, entries]
        largest = max(largest, float(np.abs((states[:, 1:] - states[:, :1]) * weights).max(initial=0.0)))
        if not len(part.times) or not np.isfinite(states).all():
            return np.inf
        t = float(part.times[-1])
    return largest / BESIDE if t >= motion.times[-1] else np.inf


def _rise(g: Array) -> tuple[int, int, Array]:
    """Where the largest rise of g begins and ends, and g."""
    last = int(np.argmax(g - np.minimum.accumulate(g)))
    return int(np.argmin(g[: last + 1])), last, g


def largest_rise(motion: Motion) -> float:
    """The largest factor by which a copy's distance grew between two times."""
    logs = np.array(motion.logs)
    return float(np.exp(np.max(logs - np.minimum.accumulate(logs, axis=0), initial=0.0)))
