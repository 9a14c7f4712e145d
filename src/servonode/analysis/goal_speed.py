"""How fast a goal may be driven: the largest speed of its time at which limits hold and the goal is reached."""

from dataclasses import dataclass

import msgspec
import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.goal_reached import LOOKS, ROUNDING, at_limit
from servonode.closed_loop.launch_error import KeyRefused, LaunchError
from servonode.closed_loop.launch_file import GOAL_SPEED
from servonode.closed_loop.variation import Variation
from servonode.definitions.progress import task
from servonode.record.run import Run, default_every
from servonode.simulation.simulate import can_fuse, simulate_fused

SLOWEST, FASTEST = 1 / 16, 1024.0  # speeds that are tried, as factors of the launch file's
FACTOR = 2.0  # factor between the speeds that are tried until one holds and the next does not
SLOW, MOST_STEPS = 1 / 4, 200_000  # the slowest goal that is looked for as a remedy, and plant steps of such a run
PRECISION = 0.005  # of the largest speed


@dataclass(frozen=True)
class Drive:
    """A run with the goal at a speed, for as long as the goal then takes.

    shares: of its limit the largest magnitude of each input that has one. first, first_t: the input that is at its
    limit first and when [s]; empty and NaN: none is. reason: why limits or goal do not hold; empty: they do.
    """

    speed: float
    shares: dict[str, float]
    first: str
    first_t: float
    reason: str


def goal_moves(closed_loop: ClosedLoop) -> bool:
    """Whether functions of t in [target] or the program's settings move the goal: its speed acts on them alone."""
    times = np.linspace(0.0, closed_loop.launch.duration_ns / 1e9, LOOKS)
    goals = np.array([closed_loop.goal(float(t)) for t in times])
    return bool(goals.size and np.any(np.ptp(goals, axis=0) > ROUNDING))


def check_speed(closed_loop: ClosedLoop, section: str, key: str) -> None:
    """Refuse a speed of a goal that stands still, which this key of this section states.

    Raises:
        KeyRefused: that is so.
    """
    if not goal_moves(closed_loop):
        text = "no function of t in [target] or [controller.settings] moves the goal, so all runs would be alike"
        raise KeyRefused(section, key, f"{text}; state one there, or leave this key out")


def drive(closed_loop: ClosedLoop, speed: float) -> Drive:
    """The run with the goal at this speed."""
    whole = _for_seconds(closed_loop, closed_loop.launch.duration_ns / 1e9 / speed)
    limits = dict(zip(whole.machine.description.input_names, whole.safety.limits.value, strict=True))
    try:
        loop = Variation(whole, [GOAL_SPEED]).at([speed])
    except LaunchError as error:
        return Drive(speed, {}, "", np.nan, str(error))
    run = simulate_fused(loop, default_every(loop))
    task().at(task().done + 1)
    finite = {name: limit for name, limit in limits.items() if np.isfinite(limit)}
    shares = {name: float(np.max(np.abs(run.input[name]))) / limit for name, limit in finite.items() if limit}
    times = {name: run.t[at_limit(run.input[name], limit)] for name, limit in finite.items()}
    first = min((name for name, t in times.items() if len(t)), key=lambda name: times[name][0], default="")
    return Drive(speed, shares, first, float(times[first][0]) if first else np.nan, _reason(run))


def _reason(run: Run) -> str:
    if run.fault:
        return f"{run.fault['text']} at t = {run.fault['t']:.4g} s"
    against = [str(each) for each in run.warnings if each.name in ("input_limit", "goal")]
    return "; ".join(against)


def drives(closed_loop: ClosedLoop, slowest: float = SLOWEST, fastest: float = FASTEST) -> list[Drive]:
    """Runs at the speeds that bracket the largest one that holds, by bisection; in the order of their speeds.

    The largest is the last one below the first that does not hold: whether a faster one holds again is not asked.
    """
    found = [drive(closed_loop, 1.0)]
    holds = not found[0].reason
    while (not found[-1].reason) == holds:
        speed = found[-1].speed * (FACTOR if holds else 1 / FACTOR)
        if not slowest <= speed <= fastest:
            break
        found.append(drive(closed_loop, speed))
    good = max((each.speed for each in found if not each.reason), default=0.0)
    bad = min((each.speed for each in found if each.reason), default=np.inf)
    while good > 0 and bad < np.inf and bad > good * (1 + PRECISION):
        found.append(drive(closed_loop, float(np.sqrt(good * bad))))
        good, bad = (good, found[-1].speed) if found[-1].reason else (found[-1].speed, bad)
    return sorted(found, key=lambda each: each.speed)


def largest_speed(found: list[Drive]) -> float:
    """The largest speed that holds with all slower ones that were tried; 0 where the slowest does not."""
    good = 0.0
    for each in found:
        if each.reason:
            break
        good = each.speed
    return good


def slower_goal(closed_loop: ClosedLoop) -> str:
    """The remedy where inputs are at their limits: the largest speed of the goal at which no limit is reached.

    It is empty where the goal does not move, or slower than SLOW does not help either.
    """
    if not goal_moves(closed_loop):
        return ""
    if closed_loop.launch.steps > MOST_STEPS or not can_fuse(closed_loop):
        return "a slower goal may help, servonode fastest finds its speed"
    speed = largest_speed(drives(closed_loop, slowest=SLOW, fastest=1.0))
    if not 0 < speed < 1:
        return ""
    factor = f"{np.floor(speed * 100) / 100:g}"
    return f"at {factor} times the goal's speed ({factor}*t for t) no limit is reached (servonode fastest)"


def duration_at(closed_loop: ClosedLoop, speed: float) -> float:
    """The time [s] that the goal takes at this speed, in whole control periods."""
    return _for_seconds(closed_loop, closed_loop.launch.duration_ns / 1e9 / speed).launch.duration_ns / 1e9


def _for_seconds(closed_loop: ClosedLoop, duration: float) -> ClosedLoop:
    """The closed loop for another time [s], rounded up to whole control periods."""
    unit = (closed_loop.launch.steps_per_period or 1) * closed_loop.launch.step_ns
    return lasting(closed_loop, -(-round(duration * 1e9) // unit) * unit)


def lasting(closed_loop: ClosedLoop, time_ns: int) -> ClosedLoop:
    """The closed loop of a run for another time [ns]."""
    launch = closed_loop.launch
    run = msgspec.structs.replace(launch.run, duration=time_ns / 1e9)
    times = msgspec.structs.replace(launch.times, duration_ns=time_ns)
    changed = msgspec.structs.replace(launch, run=run, times=times)
    stated = msgspec.structs.replace(closed_loop.stated, run=run, times=times)
    return closed_loop.with_parts(launch=changed, stated=stated)
