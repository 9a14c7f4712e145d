"""Goals that others publish while the machine runs: positions on a topic, from which a filter makes derivatives."""

from dataclasses import dataclass

from servonode.bus.link import check_address
from servonode.closed_loop.goals import Target
from servonode.closed_loop.launch_error import KeyRefused
from servonode.closed_loop.launch_keys import Goal, OnLoss
from servonode.controllers.engine.follow_filter import FilterDesign
from servonode.mechanics.description import ProgramDescription


@dataclass(frozen=True)
class LiveGoal:
    """One target that is sampled: where its positions come from, its filter, and its entries among the targets'."""

    name: str
    address: str
    topic: str
    field: str
    design: FilterDesign
    start: float
    timeout: float
    on_loss: OnLoss
    entries: slice

    @property
    def remark(self) -> str:
        """What the filter does to it."""
        text = f"{self.name} comes from {self.address} through {self.design.lags} lags of {self.design.bandwidth:g} "
        text += f"rad/s: it follows {self.design.delay:.3g} s late; before the first message, and in a check, it is "
        return f"{text}{self.start:g}; without a message for {self.timeout:g} s {self.lost_text}"

    @property
    def lost_text(self) -> str:
        """What it does when its messages stop."""
        then = {
            "fault": "its commands end",
            "hold": "it keeps its last value",
            "start": f"it goes back to {self.start:g}",
        }
        return then[self.on_loss]


def live_goals(target: Target, description: ProgramDescription, period: float, mode: str) -> tuple[LiveGoal, ...]:
    """The goals that come over a topic, in the order of the program's targets; period [s]: of the control.

    Raises:
        KeyRefused: the keys do not fit together, or the run is not in real time.
    """
    found = []
    for i, name in enumerate(description.targets):
        goal = target[name]
        if isinstance(goal, Goal) and goal.topic is not None:
            found.append(_live(name, goal, description.target_order, i, period, mode))
    return tuple(found)


def _live(name: str, goal: Goal, order: int, i: int, period: float, mode: str) -> LiveGoal:
    def error(key: str, text: str) -> KeyRefused:
        return KeyRefused(f"target.{name}", key, text)

    if mode != "realtime":
        raise error(
            "topic", 'is followed in real time only; set run.mode = "realtime", or give points or an expression'
        )
    if goal.address is None:
        raise error("address", "missing; give the address at which the topic is published, as ipc:///PATH")
    if goal.address.startswith("tcp://"):
        text = f"{goal.address!r} has no keys, so that whoever reaches it first would give the goals; take ipc:///PATH"
        raise error("address", text)
    if complaint := check_address(goal.address):
        raise error("address", complaint.replace("tcp://127.0.0.1:PORT, tcp://[::1]:PORT or ", ""))
    if goal.bandwidth is None:
        text = "missing; give the bandwidth of the filter in rad/s, well above that of the goal's motion"
        raise error("bandwidth", text)
    most = 2 / period
    if goal.bandwidth > most:
        text = f"{goal.bandwidth:g} rad/s lets the steps between two control instants through; give at most {most:g}, "
        raise error("bandwidth", f"{text}or a shorter controller.period")
    entries = slice(i * (order + 1), (i + 1) * (order + 1))
    design = FilterDesign(order, goal.bandwidth)
    topic, field = goal.topic or "", goal.field or name
    return LiveGoal(name, goal.address, topic, field, design, goal.start, goal.timeout, goal.on_loss, entries)
