"""Goals from outside while the machine runs: values that others send, from which a filter makes derivatives."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from servonode.bus.link import check_address
from servonode.closed_loop.goals import Target
from servonode.closed_loop.launch_error import KeyRefused
from servonode.closed_loop.launch_keys import Goal
from servonode.controllers.engine.follow_filter import FilterDesign
from servonode.mechanics.description import ProgramDescription

Rest = Literal["fault", "hold", "start", "zero"]
REST_BY_UNIT: Mapping[str, Rest] = {"m": "hold", "rad": "hold", "m/s": "zero", "rad/s": "zero"}


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
    order = description.target_order
    return LiveGoal(
        name, goal.address or "", goal.topic or "", goal.field or name,
        FilterDesign(order, bandwidth, goal.rate or math.inf), goal.start, low, high, goal.timeout, rest,
        _fault_after(goal, rest), slice(i * (order + 1), (i + 1) * (order + 1)), goal.state or "",
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


def _fault_after(goal: Goal, rest: Rest) -> float:
    if rest == "fault":
        return 0.0
    return math.inf if goal.fault_after is None else goal.fault_after


def _address_complaint(address: str | None) -> str | None:
    """Why goals cannot come from this address, in one sentence with the remedy; None where they can."""
    if address is None:
        return "missing; give the address at which the topic is published, as ipc:///PATH"
    if address.startswith("tcp://"):
        return f"{address!r} has no keys, so that whoever reaches it first would give the goals; take ipc:///PATH"
    complaint = check_address(address)
    return complaint and complaint.replace("tcp://127.0.0.1:PORT, tcp://[::1]:PORT or ", "")
