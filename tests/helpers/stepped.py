"""A plant node on a clock that the test moves, with the test as its controller: no sleeping, no process, no socket.

`Bench` steps the node from hand to hand; with `latency_ns` set it answers each control state so much later, at its own
time. Waiting moves the clock: to the next planned happening, or to the deadline.
"""

import heapq
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from servonode.bus import AnySubscriber, Applied, Command, MemoryBus, Message, State, Status, Switchboard
from servonode.bus.codec import BOUND
from servonode.bus.topology import CONTROLLER, NODES, PLANT
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.nodes.lockstep import prepare
from servonode.nodes.plant_node import PlantNode

Array = npt.NDArray[np.float64]
MS = 1_000_000  # ns
BEGIN = 5_000_000 * MS  # of the clock
MOST_WAITS, LONGEST_NS = 500_000, 1_000_000 * MS  # a run that goes on for ever is a failure, not a hang
SRC = 4711

MACHINE = '''"""A puck on a table that two forces push."""

from servonode.mechanics import Model, condition, coordinate, input_, parameter


def model(brake: bool = True, edge: bool = False) -> Model:
    x, y = coordinate("x", "place", "m"), coordinate("y", "place", "m")
    m = parameter("m", "mass", "kg", default=2.0, above=0)
    c_b = parameter("c_b", "brake", "N s/m", default=3.0, above=0)
    F, G = input_("F", "force along x", "N"), input_("G", "force along y", "N")
    return Model(
        name="puck",
        description="puck on a table",
        coordinates=(x, y),
        parameters=(m, c_b),
        kinetic=m * (x.rate**2 + y.rate**2) / 2,
        inputs={F: x.rate, G: y.rate},
        faults=(condition(x < 1.0, "over the edge (x >= 1 m)", "over_the_edge"),) if edge else (),
        safe={F: -c_b * x.rate, G: -c_b * y.rate} if brake else {},
    )
'''
LAUNCH = """
[run]
duration = 60
mode = "MODE"
[plant]
machine = "./puck.py:model"
initial = { x_dot = 0.5, y_dot = -0.2 }
[plant.safety]
ramp = 0
"""
CONTROLLED = """
[controller]
residuals = { x = "x - 0.3", y = "y + 0.1" }
period = 0.01
"""
NAMES = ("F", "G")
WAITS = 'plant.safety.on_fault="wait"'  # a fault waits for its reset


def puck(folder: Path, *settings: str, controlled: bool = True, mode: str = "realtime") -> ClosedLoop:
    """The puck, m = 2 kg at 0.5 m/s and -0.2 m/s, plant step 1 ms, period 10 ms; settings as in `--set`."""
    (folder / "puck.py").write_text(MACHINE)
    file = folder / "puck.toml"
    file.write_text(LAUNCH.replace("MODE", mode) + (CONTROLLED if controlled else ""))
    return resolve(read_launch(str(file), list(settings)))


def active(closed_loop: ClosedLoop) -> "Bench":
    """A plant node of this loop, active."""
    return Bench(closed_loop).activate()


class Clock:
    """A monotonic clock [ns] that goes only where it is sent."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> int:
        return self.now


Plans = list[tuple[int, int, Callable[[], object]]]


class SteppedBus(MemoryBus):
    """The plant's bus: waiting lets happen what is planned, in order of time, and moves the clock there."""

    def __init__(self, switchboard: Switchboard, clock: Clock) -> None:
        super().__init__(switchboard, PLANT)
        self.clock = clock
        self.before_look: Callable[[], None] = lambda: None
        self.wakes_late: Callable[[int], int] = lambda _: 0  # ns by which the sleep to this time [ns] is too long
        self.waits = 0
        self._messages: Plans = []
        self._plans: Plans = []
        self._number = count()

    def plan(self, at: int, happening: Callable[[], object]) -> None:
        """Let something happen at a time [ns] of the clock, or when the node next waits after that: a request."""
        heapq.heappush(self._plans, (at, next(self._number), happening))

    def send(self, at: int, happening: Callable[[], object]) -> None:
        """Let a message come at a time [ns] of the clock; it is there also for a node that does not wait."""
        heapq.heappush(self._messages, (at, next(self._number), happening))

    def arrive(self) -> None:
        """Let the messages come that have arrived by now."""
        self.before_look()
        while self._messages and self._messages[0][0] <= self.clock.now:
            heapq.heappop(self._messages)[2]()

    def _happen(self) -> None:
        self.arrive()
        while self._plans and self._plans[0][0] <= self.clock.now:
            heapq.heappop(self._plans)[2]()

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:  # noqa: ARG002
        self.waits += 1
        endless = self.waits > MOST_WAITS or self.clock.now > BEGIN + LONGEST_NS
        assert not endless, "the node waits for ever"
        self._happen()
        if super().wait(deadline_ns):
            return True
        if deadline_ns is not None and deadline_ns <= self.clock.now:
            self.clock.now += 1  # to look takes time, else who waits for later than now would wait for ever
            return False
        planned = min((plans[0][0] for plans in (self._messages, self._plans) if plans), default=None)
        assert planned is not None or deadline_ns is not None, "the node waits for what never comes"
        if planned is not None and (deadline_ns is None or planned <= deadline_ns):
            self.clock.now = max(self.clock.now, planned)
        elif deadline_ns is not None:
            self.clock.now = deadline_ns + self.wakes_late(deadline_ns)
        self._happen()
        return super().wait(deadline_ns)


class Bench:
    """A plant node, and the test in the place of its controller and its operator.

    It is large because it stands for both, in the order in which their calls come.
    """

    def __init__(self, closed_loop: ClosedLoop, every: int = 1) -> None:
        self.clock = Clock()
        switchboard = Switchboard()
        self.bus = SteppedBus(switchboard, self.clock)
        self.node = PlantNode(
            closed_loop, self.bus, [NODES[CONTROLLER].subscribes], every, self.clock, interactive=True
        )
        self.guard = self.node.guard
        self.limits = closed_loop.safety.limits.value
        other = MemoryBus(switchboard, CONTROLLER)
        self._publisher = other.publisher()
        self._inbox = other.subscriber({PLANT: ["state", "status", "applied"]})
        self._received: dict[type[Message], list[Any]] = {State: [], Status: [], Applied: []}
        self._answered = 0  # of the states received
        self.written: list[tuple[float, ...]] = []
        self.safely = 0  # how often the plant's own safe() was called
        self.latency_ns: int | None = None  # of the answers that are given by themselves; None: none are
        self.law: Callable[[State], dict[str, float]] = lambda _: {"F": 0.01, "G": 0.02}
        self.on_write: Callable[[tuple[float, ...]], None] = lambda _: None
        self._seq = 0
        self.bus.before_look = self._answer_states
        self._listen_to_plant()
        self._deliver_when_read(self.node.inbox)

    def _deliver_when_read(self, commands: AnySubscriber) -> None:
        receive = commands.receive

        def received(bound: int = BOUND) -> list[tuple[str, Message]]:
            self.bus.arrive()
            return receive(bound)

        commands.receive = received  # type: ignore[method-assign]

    def _listen_to_plant(self) -> None:
        plant, write, safe = self.node.plant, self.node.plant.write, self.node.plant.safe

        def written(applied: Array) -> None:
            self.written.append(tuple(applied.tolist()))
            self.on_write(self.written[-1])
            write(applied)

        def made_safe() -> None:
            self.safely += 1
            safe()

        plant.write, plant.safe = written, made_safe  # type: ignore[method-assign]

    # the controller

    def _take(self, kind: type[Message]) -> list[Any]:
        for _, message in self._inbox.receive():
            self._received[type(message)].append(message)
        return self._received[kind]

    @property
    def states(self) -> list[State]:
        """All that the plant has published so far."""
        return self._take(State)

    @property
    def statuses(self) -> list[Status]:
        return self._take(Status)

    @property
    def applied(self) -> list[Applied]:
        return self._take(Applied)

    def _answer_states(self) -> None:
        states = self.states
        for state in states[self._answered :]:
            if state.control and self.latency_ns is not None:
                at = state.mono + self.latency_ns
                self.bus.send(at, lambda state=state: self.publish(self.command(state)))  # type: ignore[misc]
        self._answered = len(states)

    @property
    def state(self) -> State:
        """The newest control state."""
        return next(state for state in reversed(self.states) if state.control)

    def command(self, state: State | None = None, F: float | None = None, G: float = 0.0, **changes: Any) -> Command:
        """A good answer to a state (absent: the newest one), with changes."""
        self._seq += 1
        state = state or self.state
        asked = self.law(state) if F is None else {"F": F, "G": G}
        header = {"t": state.t, "seq": self._seq, "run": state.run, "k": state.k, "mono": self.clock.now}
        values = {"node": CONTROLLER, "src": SRC, "re": state.seq, "target_seq": -1, "input": asked}
        return Command(**{**header, **values, **changes})

    def publish(self, *commands: Command) -> None:
        """Send commands; the plant takes them when it looks."""
        for command in commands:
            self._publisher.publish("command", command)

    # step by step, as lockstep and real time do it

    def prepare(self, arm: bool = True) -> bool:
        """From unconfigured to inactive, and armed if wanted."""
        return prepare(self.node, arm, timeout_s=1.0)

    def ask(self) -> State:
        """Publish the state of this step."""
        self.node.publish_state()
        return self.state

    def give(self, *commands: Command) -> bool:
        """Let the plant take commands, and what is due act."""
        self.publish(*commands)
        fresh = self.node.take_commands()
        self.node.act()
        return fresh

    def answer(self, F: float, G: float = 0.0, **changes: Any) -> bool:
        """Ask, answer and act; whether the answer acts."""
        return self.give(self.command(self.ask(), F, G, **changes))

    def advance(self, steps: int = 10) -> None:
        """Let plant time pass, and the same on the clock."""
        for _ in range(steps):
            self.clock.now += self.node.plant.step_ns
            self.node.advance_to(self.node.plant.k + 1)
            if self.node.grid.is_control(self.node.plant.k):
                self.guard.count_repeats(self.node.grid.instant(self.node.plant.k))

    def period(self, F: float, G: float = 0.0, **changes: Any) -> bool:
        """A whole control period under an answer; whether it acted."""
        acts = self.answer(F, G, **changes)
        self.advance(10)
        return acts

    def activate(self) -> Self:
        """Armed by a first good command of zero."""
        self.prepare()
        assert self.period(0.0)
        assert self.guard.lifecycle == "active"
        return self

    # what is found

    @property
    def counts(self) -> dict[str, int]:
        return self.node.all_counts()

    @property
    def acting(self) -> tuple[float, ...]:
        """The inputs that act from now on."""
        return tuple(self.guard.output.applied.tolist())

    @property
    def safe_state(self) -> str:
        return str(self.node.status.describe()["safe_state"])

    def brake(self) -> tuple[float, ...]:
        """The safe action at the present state, within the limits of value."""
        asked = self.node.closed_loop.machine.safe_input(self.node.plant.t, self.node.plant.x)
        return tuple(min(max(u, -limit), limit) for u, limit in zip(asked.tolist(), self.limits, strict=True))
