"""The goals of a launch file: an expression of t for each target, a curve through points, or values from outside."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from servonode.bus.link import check_address
from servonode.closed_loop.launch_error import KeyRefused, check_names
from servonode.closed_loop.launch_keys import Goal
from servonode.controllers.engine.curves import Curve, rest_degree, smooth_degree, spline, stopping
from servonode.controllers.engine.follow_filter import FilterDesign
from servonode.controllers.engine.signals import Signals, Stated
from servonode.mechanics.description import ProgramDescription

Target = Mapping[str, str | float | Goal]  # [target]
JUDGED = 501  # instants at which the size of a derivative is looked at
AT_REST = 1e-6  # share of its size below which a derivative is rounding
_OF_POINTS = ("points", "samples", "column", "degree", "ends", "stops")
_OF_TOPICS = ("address", "field")
_OF_LIVE = ("bandwidth", "range", "rate", "start", "timeout", "on_loss", "fault_after")
Rest = Literal["fault", "hold", "start", "zero"]
REST_BY_UNIT: Mapping[str, Rest] = {"m": "hold", "rad": "hold", "m/s": "zero", "rad/s": "zero"}


def stated_goals(target: Target, description: ProgramDescription) -> dict[str, Stated]:
    """What [target] states for each target that the program asks for, in its order.

    Raises:
        KeyRefused: a target is missing or unknown, or has fewer derivatives than the law needs.
    """
    check_names("target", target, description.targets)
    for name in description.targets:
        if name not in target:
            text = f"is missing: program {description.name} needs it; give an expression of t, for example "
            raise KeyRefused("target", name, f'{text}"0.3*t", or points')
    return {name: _stated(description, name, target[name]) for name in description.targets}


def _stated(description: ProgramDescription, name: str, goal: str | float | Goal) -> Stated:
    if not isinstance(goal, Goal):
        return goal
    _check_kind(name, goal)
    return goal.start if goal.is_live else _Points(description, name, goal).curve()


def _check_kind(name: str, goal: Goal) -> None:
    """Points or a goal from outside, with the keys of the one that is given."""
    unfit = {each: "does not go with a goal from outside" for each in _OF_POINTS if goal.is_live}
    if not goal.is_live:
        unfit = dict.fromkeys(_OF_LIVE, "belongs to a goal from outside; give its bandwidth")
    if goal.topic is None:
        unfit |= dict.fromkeys(_OF_TOPICS, 'belongs to a topic, and none is given; give topic = "NAME"')
    if goal.state is not None:
        unfit |= dict.fromkeys(("topic", *_OF_TOPICS), "does not go with a state of another robot")
    wrong = next((each for each in unfit if getattr(goal, each) != getattr(Goal(), each)), None)
    if wrong is not None:
        raise KeyRefused(f"target.{name}", wrong, f"{unfit[wrong]}, or leave it out")


def jumps(target: Target, targets: Signals, duration: float) -> Iterator[str]:
    """Where goals through points begin or end during a run of this duration [s] otherwise than at rest."""
    for i, name in enumerate(targets.names):
        goal = target[name]
        if isinstance(goal, Goal) and goal.points is not None:
            derivatives = slice(i * (targets.order + 1) + 1, (i + 1) * (targets.order + 1))
            yield from _jumps_of(name, goal.points, duration, targets, derivatives)


def _jumps_of(name: str, points: list[list[float]], end: float, targets: Signals, derivatives: slice) -> Iterator[str]:
    first, last = points[0][0], points[-1][0]
    largest = np.abs(targets.table(np.linspace(first, last, JUDGED))[:, derivatives]).max(axis=0, initial=0.0)
    for t, word in ((first, "begin"), (last, "end")):
        values = targets.table(np.array([t]))[0, derivatives]
        moving = np.flatnonzero(np.abs(values) > AT_REST * largest)
        if 0 < t < end and len(moving):
            which, size = targets.entries[derivatives][moving[0]], values[moving[0]]
            text = f"{name} {word}s at t = {t:g} s with {which} = {size:.3g}, which is 0 on the other side: it jumps; "
            yield f"{text}let it {word} at rest (ends, degree), or run for as long as it lasts"


class _Points:
    """A goal through points, and the law that follows it."""

    def __init__(self, description: ProgramDescription, name: str, goal: Goal) -> None:
        self.name, self.goal = name, goal
        self.law, self.order = description.name, description.target_order
        self.source = f"of {goal.samples}" if goal.samples else "through the points"

    def curve(self) -> Curve:
        """The curve, with as many derivatives as the law needs.

        Raises:
            KeyRefused: the keys do not fit together, or the curve has not so many.
        """
        self._check_points()
        self._check_shape()
        times, values = zip(*self.goal.points or [], strict=True)
        degree = self._degree()
        if self.goal.stops:
            curve = stopping(times, values, degree)
        else:
            self._check_count(degree)
            curve = spline(times, values, degree, self._rests)
        return curve

    @property
    def _rests(self) -> bool:
        """Whether it begins and ends at rest; samples may begin and end in motion."""
        return self.goal.ends == "rest" or (self.goal.ends is None and not self.goal.samples)

    def _check_points(self) -> None:
        points = self.goal.points
        if points is None:
            text = 'missing; give pairs of time and value, [[0, 0.0], [2, 1.5]], or samples = "FILE.csv"'
            raise self._error("points", text)
        key = "samples" if self.goal.samples else "points"
        if len(points) < 2:
            raise self._error(key, f"{len(points)} are too few; give at least 2 pairs of time and value")
        for before, after in pairwise(points):
            if not after[0] > before[0]:
                text = f"the time {after[0]:g} s follows {before[0]:g} s; give each point a later time than the last"
                raise self._error(key, text)

    def _check_shape(self) -> None:
        goal = self.goal
        if goal.stops and goal.ends == "free":
            raise self._error("ends", '"free" does not go with stops = true, which rests at each point; leave it out')
        if goal.column is not None and not goal.samples:
            raise self._error("column", "there are no samples with columns; leave it out")
        if goal.degree is not None and goal.degree % 2 == 0:
            text = f"{goal.degree} is even; give {goal.degree + 1}, for as many derivatives belong to each end"
            raise self._error("degree", text)

    def _degree(self) -> int:
        """The degree of the polynomials: the stated one, if the law finds its derivatives."""
        order, stops, degree = self.order, self.goal.stops, self.goal.degree
        if degree is None:
            return rest_degree(order) if self._rests or stops else smooth_degree(order)
        least = rest_degree(order) if stops else smooth_degree(order)
        if degree < least:
            has = (degree - 1) // 2 if stops else degree - 1
            what = "polynomials between stops" if stops else f"spline {self.source}"
            text = f"law {self.law!r} needs derivative {order} of {self.name}; the {what}, of degree {degree}, "
            text += f"{'have' if stops else 'has'} {has} continuous ones: write degree = {least}, or leave it out"
            raise self._error("degree", text)
        return degree

    def _check_count(self, degree: int) -> None:
        count = len(self.goal.points or [])
        if not self._rests and count <= degree:
            text = f"the spline {self.source} has {count} points; with free ends and degree {degree}, which the law "
            text += f"{self.law!r} needs for derivative {self.order}, it takes {degree + 1}: give more, or "
            raise self._error("samples" if self.goal.samples else "points", f'{text}ends = "rest"')

    def _error(self, key: str, text: str) -> KeyRefused:
        return KeyRefused(f"target.{self.name}", key, text)


@dataclass(frozen=True)
class LiveGoal:
    """One target from outside: where its values come from, its filter, and its entries among the targets'."""

    name: str
    address: str  # empty: requests of `servonode goal` bring them
    topic: str
    field: str
    design: FilterDesign
    start: float
    low: float
    high: float
    timeout: float
    on_loss: Rest
    fault_after: float  # s (wall clock) for which it may be lost
    entries: slice
    state: str = ""  # of another robot, as leader.X, instead of a topic

    @property
    def source(self) -> str:
        """Where its positions come from, in words."""
        return f"robot {self.state.partition('.')[0]}" if self.state else self.address

    @property
    def remark(self) -> str:
        """What the filter does to it."""
        source, lags = self.source or "servonode goal", f"{self.design.lags} lags of {self.design.bandwidth:g} rad/s"
        text = f"{self.name} comes from {source} through {lags}: it follows {self.design.delay:.3g} s late; before the "
        text += f"first message, and in a check, it is {self.start:g}; without a message for {self.timeout:g} s "
        return f"{text}{self.lost_text}"

    @property
    def is_unbounded(self) -> bool:
        """Whether nothing but the limits of the plant bounds what one wrong value does."""
        return not self.state and self.low == -math.inf and self.design.rate == math.inf

    @property
    def lost_text(self) -> str:
        """What it does when its messages stop."""
        then = {
            "fault": "its commands end",
            "hold": "it keeps its last value",
            "start": f"it goes back to {self.start:g}",
            "zero": "it goes to 0",
        }
        end = f", and after {self.fault_after:g} s its commands end" if 0 < self.fault_after < math.inf else ""
        return f"{then[self.on_loss]}{end}"

    @property
    def lost_value(self) -> float | None:
        """The value to which it goes when its messages stop; None: the last one."""
        return {"start": self.start, "zero": 0.0}.get(self.on_loss)

    def complaint(self, value: object) -> str | None:
        """Why a value from outside is refused, or None."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not -math.inf < value < math.inf:
            return f"{self.name} = {str(value)[:40]} is not a finite number"
        if not self.low <= value <= self.high:
            return f"{self.name} = {value:g} is beyond its range; give a value from {self.low:g} to {self.high:g}"
        if abs(value) > self.design.reach:
            return f"{self.name} = {value:g} is beyond the reach of its filter; give at most {self.design.reach:.3g}"
        return None


def live_goals(target: Target, description: ProgramDescription, period: float, mode: str) -> tuple[LiveGoal, ...]:
    """The goals from outside, in the order of the program's targets; period [s]: of the control.

    Raises:
        KeyRefused: the keys do not fit together, or a run with a topic is not in real time.
    """
    found = []
    for i, name in enumerate(description.targets):
        goal = target[name]
        if isinstance(goal, Goal) and goal.is_live:
            found.append(_live(name, goal, description, i, period, mode))
    return tuple(found)


def _live(name: str, goal: Goal, description: ProgramDescription, i: int, period: float, mode: str) -> LiveGoal:
    def error(key: str, text: str) -> KeyRefused:
        return KeyRefused(f"target.{name}", key, text)

    if goal.state is None:
        _check_given(goal, mode, error)
    most = 2 / period
    bandwidth = 0.1 * most if goal.bandwidth is None else goal.bandwidth
    if bandwidth > most:
        text = f"{bandwidth:g} rad/s lets the steps between two control instants through; give at most {most:g}, "
        raise error("bandwidth", f"{text}or a shorter controller.period")
    low, high = goal.range or (-math.inf, math.inf)
    if not low <= goal.start <= high:
        text = f"{goal.start:g} is beyond range = [{low:g}, {high:g}]; give both so that it lies between, lowest first"
        raise error("start", text)
    units = dict(zip(description.targets, description.target_units, strict=False))
    rest = REST_BY_UNIT.get(units.get(name, "1")) if goal.on_loss == "rest" else goal.on_loss
    if rest is None:
        text = f'"rest" needs a unit, and nothing tells whether {name} is a place or a speed; give "hold" for a place, '
        raise error("on_loss", f'{text}"start" for a speed (start = {goal.start:g}), or "fault" to end its commands')
    if rest == "zero" and not low <= 0 <= high:
        text = f'"rest" of a speed is 0, which is beyond range = [{low:g}, {high:g}]; give "start" or "fault"'
        raise error("on_loss", text)
    order, waits = description.target_order, math.inf if goal.fault_after is None else goal.fault_after
    return LiveGoal(
        name, goal.address or "", goal.topic or "", goal.field or name,
        FilterDesign(order, bandwidth, goal.rate or math.inf), goal.start, low, high, goal.timeout, rest,
        0.0 if rest == "fault" else waits, slice(i * (order + 1), (i + 1) * (order + 1)), goal.state or "",
    )  # fmt: skip


def _check_given(goal: Goal, mode: str, error: Callable[[str, str], KeyRefused]) -> None:
    """Refuse a goal from outside that cannot be followed. error: makes what is raised, of a key and a text."""
    if mode != "realtime":
        text = 'is followed in real time only; set run.mode = "realtime", or give points or an expression'
        raise error("topic" if goal.topic else "bandwidth", text)
    if goal.topic is not None and (complaint := _address_complaint(goal.address)):
        raise error("address", complaint)
    if goal.bandwidth is None:
        text = "missing; give the bandwidth of the filter in rad/s, well above that of the goal's motion"
        raise error("bandwidth", text)


def _address_complaint(address: str | None) -> str | None:
    """Why goals cannot come from this address, in one sentence with the remedy; None where they can."""
    if address is None:
        return "missing; give the address at which the topic is published, as ipc:///PATH"
    if address.startswith("tcp://"):
        return f"{address!r} has no keys, so that whoever reaches it first would give the goals; take ipc:///PATH"
    complaint = check_address(address)
    return complaint and complaint.replace("tcp://127.0.0.1:PORT, tcp://[::1]:PORT or ", "")
