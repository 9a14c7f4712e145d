"""Whether a run reaches its goal: its late residuals against the goal's own size, and the time at a limit."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.goal_reached import (
    BAND,
    LIMITED_SHARE,
    Explained,
    Late,
    at_limit,
    goal_amplitudes,
    limited_late,
    missed,
)
from servonode.closed_loop.static_checks import Examination, Level
from servonode.plants.plausible import StateLimits
from servonode.record.run import Run


def judge_limits(closed_loop: ClosedLoop, run: Run, found: Examination, slower: Callable[[], str]) -> None:
    """Warn of inputs that reach their limits, when first and for which share of time, and of states beyond theirs.

    `slower` finds the remedy.
    """
    shares = found.numbers["simulated"]["limited_share"] = run.limited_share
    limits = dict(zip(closed_loop.machine.description.input_names, closed_loop.safety.limits.value, strict=True))
    for name, share in shares.items():
        if share:
            first = run.t[at_limit(run.input[name], limits[name])][:1]
            text = f"reaches its limit {limits[name]:g}, first at t = {first[0]:.4g} s and " if len(first) else ""
            text += f"for {share:.2g} of the time: while it is limited the residuals do not follow their equations"
            found.add("warn", name, "; ".join(filter(None, (text, slower()))))
    for name, text in _beyond(closed_loop.safety.known_readings, run):
        found.add("warn", name, "; ".join(filter(None, (f"{text}, which ends a run on the machine", slower()))))


def _beyond(limits: StateLimits, run: Run) -> Iterator[tuple[str, str]]:
    """The states that leave their limits of size or speed, as joints of a robot's file have them: when, how far."""
    described = run.closed_loop.machine.description.state
    for each, x, most, fastest in zip(described, run.state.values(), limits.value, limits.rate, strict=True):
        name, unit = each.name, each.unit
        speeds = np.abs(np.diff(x) / np.diff(run.t))
        looks = (("size", np.abs(x), most, unit), ("speed", speeds, fastest, f"{unit} per s"))
        for word, sizes, limit, of in looks:
            if (over := np.flatnonzero(sizes > limit)).size:
                text = f"reaches the limit of its {word}, {limit:g} {of}, at t = {run.t[over[0]]:.4g} s, and at most "
                yield name, f"{text}{np.max(sizes):.4g} {of} in the run"


def judge_arrival(
    closed_loop: ClosedLoop,
    control: Control,
    run: Run,
    found: Examination,
    other_rate: Callable[[], str],
    slower: Callable[[], str],
) -> None:
    """Whether the last quarter's residuals are small beside the initial ones and what sampling and noise leave.

    `other_rate` and `slower` find the remedies with another convergence rate and with a slower goal, if they help.
    """
    if run.fault:
        return
    texts = missed_residuals(closed_loop, run, found)
    remedy = _remedy(limited_late(closed_loop, run.input, len(run.t)), other_rate(), slower) if texts else ""
    for i, name in enumerate(_judged(run)):
        if name in texts:
            level: Level = "warn" if i in control.gains.plain and not control.law.description.explicit else "refuse"
            found.add(level, name, f"{texts[name]}: the goal is not reached; {remedy}")


def missed_residuals(closed_loop: ClosedLoop, run: Run, found: Examination) -> dict[str, str]:
    """How far each residual is missed of those that are; the sizes go into the numbers."""
    limited = limited_late(closed_loop, run.input, len(run.t)) > LIMITED_SHARE
    residuals = _judged(run)
    amplitudes = goal_amplitudes(closed_loop, run.t, run.program_state)
    found.numbers["goal_amplitude"] = dict(zip(residuals, amplitudes.tolist(), strict=True))
    late_residuals, texts = found.numbers.setdefault("late_residual", {}), dict[str, str]()
    for amplitude, (name, values) in zip(amplitudes.tolist(), residuals.items(), strict=True):
        late = Late.of(values)
        late_residuals[name] = late.last
        text = missed(late, abs(float(values[0])), amplitude, limited, _explained(name, found))
        texts |= {name: text} if text else {}
    return texts


def _judged(run: Run) -> Mapping[str, Array]:
    """The residuals of the true state where these are known, else those that the law saw."""
    return (run.estimate.residual if run.estimate else {}) or run.residual


def _explained(name: str, found: Examination) -> Explained:
    spread = found.numbers.get("estimator", {}).get("residual_std", {})
    noise = found.numbers.get("noise_residual", {}).get(name, 0.0)
    held = found.numbers.get("steady_residual", {}).get(name, 0.0)
    return Explained(held, noise, BAND * min(spread.get(name, [0.0])))


def _remedy(limited: float, rate: str, slower: Callable[[], str]) -> str:
    """What to change: the rate where another one reaches the goal, else drives, goal or period."""
    if limited > LIMITED_SHARE:
        text = f"an input is at its limit for {limited:.2g} of the second half: "
        less = ", or ".join(filter(None, ("ask for less", slower(), "give stronger drives or more time")))
        return text + (rate or less)
    return rate or "look at the drives, and whether the period is short enough for this goal"
