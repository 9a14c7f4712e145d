"""A plant at the other end of a wire in memory, in a time that only the test moves."""

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.plant_machine import driven_plant
from tests.wires import MS, S, Wire, loop_of, wire

TIMEOUT_MS = 100
COMMON = ("controller.period=0.01", f"plant.safety.command_timeout={TIMEOUT_MS / 1e3}")
PUSH = (np.array([0.2, 0.2]), np.array([5.0, 5.0]))  # efforts, and speeds for drives that take these


class Events:
    """The queue of events."""

    def __init__(self) -> None:
        self.now = 5 * S
        self._planned: list[tuple[int, int, Callable[[], object]]] = []
        self._number = count()

    def plan(self, at: int, happening: Callable[[], object]) -> None:
        heapq.heappush(self._planned, (max(at, self.now), next(self._number), happening))

    def go(self, ns: int) -> None:
        end = self.now + ns
        while self._planned and self._planned[0][0] <= end:
            self.now, _, happening = heapq.heappop(self._planned)
            happening()
        self.now = end


class AtOnce:
    """A queue of a time that stands still, as in lockstep: all that is planned happens at once."""

    now = S

    def plan(self, at: int, happening: Callable[[], object]) -> None:  # noqa: ARG002
        happening()


class Host:
    """The plant, which looks each millisecond and writes each ten."""

    def __init__(self, made: Wire, loop: ClosedLoop) -> None:
        self.loop, self.wire, self.queue = loop, made, made.queue
        self.plant: Any = driven_plant(loop, lambda: self.queue.now)
        self.remote = self.plant.remote
        self.plant.open()
        self.runs = 0

    def until(self, holds: Callable[[], Any], within_ms: int = 2000) -> Any:
        """What holds, once it does."""
        for _ in range(within_ms):
            if found := holds():
                return found
            self.queue.go(MS)
        raise AssertionError(self.remote.no_answer_reason())

    def begin(self) -> None:
        """The handshake of a new run, to its end or to a fault."""
        self.runs += 1
        self.plant.begin(self.runs, self.plant.k)
        self.until(lambda: self.remote.connected() or self.remote.fault())

    def step(self, steps: int = 10) -> None:
        """In lockstep, so many steps on."""
        self.plant.advance(steps)
        self.until(self.remote.arrived)

    def go(self, ms: int) -> None:
        """Let time pass under the push."""
        for _ in range(ms):
            self.queue.go(MS)
            self.plant.advance(1)
            if self.plant.k % 10 == 0 and self.remote.fault() is None:
                self.plant.drive(*PUSH) if self.loop.drives else self.plant.write(PUSH[0])

    def fault(self, within_ms: int = 300) -> tuple[str, str, int]:
        """Name and text of the fault that is found, and after how many milliseconds."""
        for ms in range(within_ms):
            if (found := self.remote.fault()) is not None:
                return (*found, ms)
            self.go(1)
        raise AssertionError("nothing is found")

    @property
    def acting(self) -> np.ndarray:
        """The inputs that the machine says act."""
        return np.array(list(self.plant.readings.newest.input.values()))

    def law(self) -> tuple[np.ndarray, np.ndarray]:
        """What the law asks for at the plant's state, and the goal."""
        control = self.loop.control
        goal = control.goal(self.plant.t)
        return control.law.evaluate(self.plant.t, self.plant.x[:-1].copy(), goal).inputs.copy(), goal


@contextmanager
def host_of(made: Wire, loop: ClosedLoop) -> Iterator[Host]:
    """A host over this wire, after the handshake."""
    with made.plugged():
        host = Host(made, loop)
        try:
            host.begin()
            yield host
        finally:
            host.plant.close()


@contextmanager
def hosted(kind: str, *settings: str, **ways: dict[str, Any]) -> Iterator[Host]:
    """The same over a wire of a kind; ways: what is set of the two ways of its wire."""
    made = wire(kind, Events())
    for way, changes in ways.items():
        for name, value in changes.items():
            setattr(getattr(made, way), name, value)
    with host_of(made, loop_of(kind, *COMMON, *settings)) as host:
        yield host
