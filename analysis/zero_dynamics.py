"""What a program leaves free, and what becomes of it: the zero dynamics, simulated and judged.

The closed loop is integrated continuously, with a few copies that start a little beside it. Copies that depart at a
steady exponential rate show an unstable internal motion; a velocity that goes to infinity shows an escape.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from servonode.analysis.simulate import SimulationError
from servonode.closed_loop.closed_loop import ClosedLoop

Array = npt.NDArray[np.float64]
Judgement = Literal["bounded", "growing", "escaping", "leaves its domain"]
SMALL = 1e-7  # size of the perturbations, relative to the states (to 1 for states below 1)
COPIES, SEED = 4, 1
RTOL = ATOL = 1e-9
MAX_STEPS = 100_000
HUGE = 1e6  # a velocity beyond this (m/s, rad/s) runs away
SOON = 1e-2  # an escape is one that comes within this share of the time already past
FACTOR = 100.0  # least growth of a perturbation that is called growing
STEADY = 0.35  # least share of that growth (in logarithm) in the second half of its time: 1/2 is a steady rate


@dataclass(frozen=True)
class ZeroDynamics:
    """What the program leaves free and the judgement on it.

    `internal` parametrises the internal motion, `free_velocities` = n_v - rank J of them are velocities. `passive`
    are coordinates on which nothing else depends (places, wheel angles): integrals, which no judgement looks at.
    """

    judgement: Judgement
    text: str
    internal: tuple[str, ...]
    passive: tuple[str, ...]
    free_velocities: int
    duration: float  # s
    state: str | None = None  # that grows most, or escapes
    rate: float | None = None  # 1/s, of growing
    time: float | None = None  # s, of the escape (extrapolated), or when the law stops
    growth: float = 0.0  # the largest factor by which a perturbation grew, when bounded


def judge(closed_loop: ClosedLoop, duration: float | None = None) -> ZeroDynamics:
    """The judgement on the closed loop from its initial state on, over `duration` [s] (None: that of the run).

    Raises:
        SimulationError: the integration takes more than MAX_STEPS steps.
    """
    length = closed_loop.launch.duration_ns / 1e9 if duration is None else duration
    loop = _Loop(closed_loop)
    passive, (internal, free_velocities) = _passive(loop), _internal(closed_loop)
    motion = _follow(loop, length, np.array([name not in passive for name in loop.names]))

    def result(judgement: Judgement, text: str, state: str | None = None, **numbers: float) -> ZeroDynamics:
        text = f"left free: {', '.join(internal) or 'nothing'}; {text}"
        return ZeroDynamics(judgement, text, internal, passive, free_velocities, length, state, **numbers)

    if motion.escape:
        time, state = motion.escape
        text = f"{state} goes to infinity at t = {time:.4g} s; hold {state} by another residual"
        return result("escaping", text, state, time=time)
    if motion.refusal:
        time, text = motion.refusal
        return result("leaves its domain", f"the law stops at t = {time:.4g} s: {text}", time=time)
    rate, direction = _growth(motion)
    if rate is None:
        growth = _largest_rise(motion)
        text = f"over {length:g} s nothing runs away, and perturbations grow at most {growth:.2g}-fold"
        return result("bounded", text, growth=growth)
    state = loop.names[int(np.argmax(np.abs(direction)))]
    text = f"perturbations grow as exp({rate:.3g} t), most in {state}; hold {state}, or turn the direction of travel"
    return result("growing", text, state, rate=rate)


class _Loop:
    """The closed loop x' = F(t, x), limited as the plant's filter would; `refusal` explains where the law stops.

    A state is the machine's, its work, then the program's own states.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self.closed_loop, self.machine, self.control = closed_loop, closed_loop.machine, closed_loop.control
        self.names, self.start = self.machine.description.state_names, closed_loop.start
        self.n_x = len(self.start)
        if self.control:
            self.start = np.append(self.start, self.control.law.start_states)
            self._answer = self.control.law.answer()
        self.velocities = [self.names.index(name) for name in self.machine.description.velocities]
        self._u = np.zeros(self.machine.n_inputs)
        self._limits = np.array(closed_loop.safety.limits.value)

    def rates(self, t: float, stacked: Array) -> Array:
        """x' of stacked states (n_copies * n,); guards are ignored, the law gives its inputs beyond them too."""
        y, n, limits, u = self.closed_loop.goal(t), len(self.start), self._limits, self._u
        rates = np.zeros(len(stacked))
        for i in range(0, len(stacked), n):
            x = stacked[i : i + n]
            if self.control:
                self._evaluate(t, x, y)
                np.maximum(np.minimum(self._answer.inputs, limits, out=u), -limits, out=u)
                rates[i + self.n_x : i + n] = self.control.law.state_rates(t, x[: self.n_x], y)
            self.machine.kernel.derivatives(t, x[: self.n_x], u, self.machine.c, rates[i : i + self.n_x])
        return rates

    def _evaluate(self, t: float, x: Array, y: Array) -> int:
        """The law's status, and its answer, at a state; the program's own states go into y."""
        assert self.control is not None
        law = self.control.law
        y[law.goal_layout.states] = x[self.n_x :]
        return law.compute(t, x[: self.n_x], y, self._answer)

    def refusal(self, t: float, x: Array) -> str | None:
        """Why the law stops at this state, or None."""
        stops = self.control is not None and self._evaluate(t, x, self.closed_loop.goal(t)) != 0
        return self.control.law.explain(self._answer) if self.control and stops else None

    def steps(self, t: float, stacked: Array, end: float) -> Iterator[tuple[float, Array]]:
        """Accepted steps of DOP853 up to `end`, or to where its step shrinks to nothing; go on from changed states."""
        from scipy.integrate import DOP853

        options = {"t_bound": end, "rtol": RTOL, "atol": ATOL}
        with np.errstate(all="ignore"):  # an escape overflows before the step fails
            solver = DOP853(self.rates, t, stacked, **options)
        for _ in range(MAX_STEPS):
            with np.errstate(all="ignore"):
                solver.step()
            if solver.status == "failed":
                return
            accepted = solver.y.copy()
            yield solver.t, accepted
            if solver.status == "finished":
                return
            if (accepted != solver.y).any():
                options["first_step"] = min(solver.h_abs, end - solver.t)
                solver = DOP853(self.rates, solver.t, accepted, **options)
        raise SimulationError(
            f"the zero dynamics took {MAX_STEPS} steps to t = {solver.t:g} s; judge a shorter duration"
        )

    def huge(self, x: Array) -> bool:
        return bool(np.abs(x[self.velocities]).max(initial=0.0) > HUGE)

    def escape(self, t: float, x: Array) -> tuple[float, str] | None:
        """When and which velocity goes to infinity, by v' ~ v^2 from here on, or None."""
        v, v_dot = x[self.velocities], self.rates(t, x)[self.velocities]
        i = int(np.argmax(np.abs(v)))
        left = v[i] / v_dot[i] if v_dot[i] else np.inf
        return (t + left, self.names[self.velocities[i]]) if 0 < left < SOON * max(t, 1.0) else None


@dataclass
class _Motion:
    """Growth of the copies' distances (logarithms) and unit directions at the accepted times; what ended it."""

    times: list[float]
    logs: list[Array]
    directions: list[Array]
    refusal: tuple[float, str] | None = None
    escape: tuple[float, str] | None = None


def _follow(loop: _Loop, duration: float, active: npt.NDArray[np.bool_]) -> _Motion:
    """The motion and its copies, which are brought back to SMALL whenever they have left it by a factor of 100."""
    n, n_state, x = len(loop.start), len(loop.names), loop.start
    unit = np.random.default_rng(SEED).normal(size=(COPIES, n_state)) * active
    scale = SMALL * np.maximum(1.0, np.abs(x[:n_state]))

    def stacked(x: Array, unit: Array) -> Array:
        beside = np.tile(x, (COPIES, 1))
        beside[:, :n_state] += unit / np.linalg.norm(unit, axis=1, keepdims=True) * scale
        return np.concatenate([x, *beside])

    motion, total, t = _Motion([0.0], [np.zeros(COPIES)], [unit]), np.zeros(COPIES), 0.0
    for t, y in loop.steps(0.0, stacked(x, unit), duration):
        x = y[:n]
        text = loop.refusal(t, x)
        if text or loop.huge(x):
            break
        unit = (y[n:].reshape(COPIES, n)[:, :n_state] - x[:n_state]) / scale * active
        size = np.maximum(np.linalg.norm(unit, axis=1), 1e-12)
        motion.times.append(t)
        motion.logs.append(total + np.log(size))
        motion.directions.append(unit / size[:, None])
        if size.max() > 100 or size.min() < 0.01:
            total, y[n:] = motion.logs[-1], stacked(x, unit)[n:]
    else:
        text = None if t >= duration else "the integration cannot go on; the law or the motion is not smooth here"
    motion.refusal = (t, text) if text else None
    if t < duration:
        motion.escape = _aftermath(loop, t, x, t + duration)
    return motion


def _aftermath(loop: _Loop, t: float, x: Array, end: float) -> tuple[float, str] | None:
    """The escape that a motion comes to if its guards let it pass, or None."""
    last = (t, x)
    for last in loop.steps(t, x, end):
        if loop.huge(last[1]):
            break
    return loop.escape(*last)


def _growth(motion: _Motion) -> tuple[float | None, Array]:
    """The rate [1/s] at which copies leave the motion, and the direction at the end; None where they do not.

    Powers of time grow too: of the growth of t^n over a factor 100 in time only a seventh falls into the second half.
    """
    times, logs = np.array(motion.times), np.array(motion.logs)
    grid = np.linspace(0.0, times[-1], 401)
    for i in range(COPIES):
        g = np.interp(grid, times, logs[:, i])
        last = int(np.argmax(g - np.minimum.accumulate(g)))
        first = int(np.argmin(g[: last + 1]))
        middle = (first + last) // 2
        rise = g[last] - g[first]
        if rise > np.log(FACTOR) and g[last] - g[middle] > STEADY * rise:
            rate = float(np.polyfit(grid[middle : last + 1], g[middle : last + 1], 1)[0])
            return rate, motion.directions[min(int(np.searchsorted(times, grid[last])), len(times) - 1)][i]
    return None, np.zeros(0)


def _largest_rise(motion: _Motion) -> float:
    """The largest factor by which a copy's distance grew between two times."""
    logs = np.array(motion.logs)
    return float(np.exp(np.max(logs - np.minimum.accumulate(logs, axis=0), initial=0.0)))


def _passive(loop: _Loop) -> tuple[str, ...]:
    """Coordinates on which no rate depends but those of other passive ones, found at a state beside the initial one."""
    n = len(loop.names)
    x = loop.start + np.random.default_rng(SEED).uniform(-0.05, 0.05, len(loop.start))
    rates = np.delete(loop.rates(0.0, x), n)  # all but the work's
    moved = [np.delete(loop.rates(0.0, x + 0.01 * row), n) for row in np.eye(n, len(x))]
    depends = np.array([np.abs(each - rates) > 1e-9 * (1 + np.abs(rates)) for each in moved])  # [i, j]: j on i
    passive: set[int] = set()
    candidates = {loop.names.index(name) for name in loop.machine.description.coordinates}
    while new := {i for i in candidates - passive if set(np.flatnonzero(depends[i])) <= passive}:
        passive |= new
    return tuple(loop.names[i] for i in sorted(passive))


def _internal(closed_loop: ClosedLoop) -> tuple[tuple[str, ...], int]:
    """States that parametrise the internal motion at the initial state, and how many of them are velocities."""
    d, control, x = closed_loop.machine.description, closed_loop.control, closed_loop.start
    if control is None or control.law.description.explicit:
        return d.state_names, len(d.velocities)
    law, y = control.law, closed_loop.goal(0.0)
    finite = np.array(law.description.relative_degrees) == 2

    def residuals(x: Array) -> Array:
        return np.extract(finite, law.evaluate(0.0, x, y).residuals)

    steps = [1e-6 * (np.array(d.state_names) == name) for name in d.coordinates]
    gradient = [residuals(x + np.append(step, 0.0)) - residuals(x - np.append(step, 0.0)) for step in steps]
    fixed = _pivots(law.terms(0.0, x, y)["J"], d.velocities) | _pivots(np.array(gradient).T / 2e-6, d.coordinates)
    internal = tuple(name for name in d.state_names if name not in fixed)
    return internal, sum(name in d.velocities for name in internal)


def _pivots(rows: Array, names: Sequence[str]) -> set[str]:
    """The names of the columns that full pivoting solves the rows for."""
    rows, found = rows.copy(), set()
    while rows.size and np.abs(rows).max() > 1e-6:
        i, j = divmod(int(np.argmax(np.abs(rows))), rows.shape[1])
        found.add(names[j])
        rows = rows - np.outer(rows[:, j] / rows[i, j], rows[i])
    return found
