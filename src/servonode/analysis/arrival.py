"""Whether a run reaches its goal: its late residuals against the goal's own size, and the time at a limit."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.static_checks import Examination, Level
from servonode.record.run import Run

Array = npt.NDArray[np.float64]
MISSED = 100.0  # times the residual that the zero-order hold explains: more than that at the end is a goal not reached
BAND = 3.0  # standard deviations of what an estimator knows of a residual, at start or end, that it may be
LOOKS = 200  # rows of the run at which the motion of the goal is looked at
LIMITED_SHARE = 0.01  # of the second half of the run at a limit, from which on the limit explains a late residual
BEHIND = 0.1  # share of the goal's own size that a late residual may be
CONVERGING = 0.9  # of the residual a quarter of the run earlier: below this it is still decaying
ROUNDING = 1e-6


def limited_share(closed_loop: ClosedLoop, run: Run, first: int = 0) -> dict[str, float]:
    """The share of the rows from `first` on at which each input is at its limit, of those that have one."""
    limits = closed_loop.safety.limits.value
    at = {
        name: np.abs(run.input[name][first:]) >= limit * (1 - 1e-9)
        for name, limit in zip(closed_loop.machine.description.input_names, limits, strict=True)
        if np.isfinite(limit)
    }
    return {name: float(np.mean(rows)) for name, rows in at.items()}


def judge_limits(closed_loop: ClosedLoop, run: Run, found: Examination) -> None:
    """Warn of inputs that reach their limits, with the share of time at it."""
    shares = found.numbers["simulated"]["limited_share"] = limited_share(closed_loop, run)
    limits = dict(zip(closed_loop.machine.description.input_names, closed_loop.safety.limits.value, strict=True))
    for name, share in shares.items():
        if share:
            text = f"reaches its limit {limits[name]:g}, for {share:.2g} of the time: while it is limited the residuals"
            found.add("warn", name, f"{text} do not follow their equations")


def judge_arrival(
    closed_loop: ClosedLoop, control: Control, run: Run, found: Examination, other_rate: Callable[[], str]
) -> None:
    """Whether the last quarter's residuals are small beside the initial ones and what sampling and noise leave.

    `other_rate` finds the remedy with another convergence rate, if one reaches the goal.
    """
    if run.fault:
        return
    texts = missed_residuals(closed_loop, control, run, found)
    remedy = _remedy(_limited(closed_loop, run), other_rate()) if texts else ""
    for i, name in enumerate((run.estimate or run).residual):
        if name in texts:
            level: Level = "warn" if i in control.gains.plain and not control.law.description.explicit else "refuse"
            found.add(level, name, f"{texts[name]}: the goal is not reached; {remedy}")


def missed_residuals(closed_loop: ClosedLoop, control: Control, run: Run, found: Examination) -> dict[str, str]:
    """How far each residual is missed of those that are; the sizes go into the numbers."""
    at_limit = _limited(closed_loop, run) > LIMITED_SHARE
    residuals = (run.estimate or run).residual
    amplitudes = goal_amplitudes(closed_loop, control, run)
    found.numbers["goal_amplitude"] = dict(zip(residuals, amplitudes.tolist(), strict=True))
    late_residuals, texts = found.numbers.setdefault("late_residual", {}), dict[str, str]()
    for amplitude, (name, values) in zip(amplitudes.tolist(), residuals.items(), strict=True):
        late = _Late.of(values)
        late_residuals[name] = late.last
        text = _missed(late, abs(float(values[0])), amplitude, at_limit, _explained(name, found))
        texts |= {name: text} if text else {}
    return texts


def _limited(closed_loop: ClosedLoop, run: Run) -> float:
    """The share of the second half of the run for which an input is at its limit."""
    return max(limited_share(closed_loop, run, len(run.t) // 2).values(), default=0.0)


@dataclass(frozen=True)
class _Late:
    """The largest residual in the last quarter of the run and in the one before."""

    last: float
    before: float

    @classmethod
    def of(cls, values: Array) -> "_Late":
        quarter = max(len(values) // 4, 1)
        last, before = np.abs(values[-quarter:]), np.abs(values[-2 * quarter : -quarter])
        return cls(float(np.max(last)), float(np.max(before, initial=0.0)))

    @property
    def converging(self) -> bool:
        return self.last < CONVERGING * self.before


@dataclass(frozen=True)
class _Explained:
    """What a residual may be without a fault of the goal: by zero-order hold, by noise, by what an estimator knows."""

    held: float
    noise: float
    estimated: float


def _explained(name: str, found: Examination) -> _Explained:
    spread = found.numbers.get("estimator", {}).get("residual_std", {})
    noise = found.numbers.get("noise_residual", {}).get(name, 0.0)
    held = found.numbers.get("steady_residual", {}).get(name, 0.0)
    return _Explained(held, noise, BAND * min(spread.get(name, [0.0])))


def _missed(late: _Late, first: float, amplitude: float, at_limit: bool, explained: _Explained) -> str:
    """Why the goal counts as not reached; empty where it is reached, or the residual still decays.

    The size of a goal that moves is its amplitude alone, however far away the run begins; that of a constant one is the
    initial residual. The residual of the zero-order hold is allowed for only while the goal is constant: a goal that
    moves too fast for the period is not reached.
    """
    moves = amplitude > ROUNDING
    size = amplitude if moves else first
    allowed = max(BAND * explained.noise, explained.estimated, ROUNDING, 0.0 if moves else BAND * explained.held)
    if late.last <= allowed or (late.converging and not at_limit):
        return ""
    if late.last <= size * BEHIND or (size <= ROUNDING and late.last <= _unsized(explained)):
        return ""
    share = f", {late.last / size:.2g} of the goal's own size {size:.3g}" if size > ROUNDING else ""
    return f"the residual is still {late.last:.3g} in the last quarter of the run{share}"


def _unsized(explained: _Explained) -> float:
    """What may remain of a constant goal on which the run begins, so that it has no size."""
    return max(MISSED * (explained.held + explained.noise), explained.estimated)


def _remedy(limited: float, rate: str) -> str:
    """What to change: the rate where another one reaches the goal, else drives, goal or period."""
    if limited > LIMITED_SHARE:
        text = f"an input is at its limit for {limited:.2g} of the second half: "
        return text + (rate or "ask for less, or give stronger drives or more time")
    return rate or "look at the drives, and whether the period is short enough for this goal"


def goal_amplitudes(closed_loop: ClosedLoop, control: Control, run: Run) -> Array:
    """How far each residual's goal moves during the run: half of the way between its extremes.

    It is looked at as the residual at the machine's initial state, while time, targets and own states are the run's.
    """
    law, values = control.law, []
    for i in range(0, len(run.t), max(1, len(run.t) // LOOKS)):
        own = np.array([each[i] for each in run.program_state.values()])
        t = float(run.t[i])
        values.append(law.evaluate(t, closed_loop.start, closed_loop.goal(t, own)).residuals.copy())
    table = np.array(values).reshape(len(values), law.n_s)
    table = table[np.isfinite(table).all(axis=1)]
    if not len(table):
        return np.zeros(law.n_s)
    result: Array = np.ptp(table, axis=0) / 2
    return result
