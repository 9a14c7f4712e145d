"""A relay of one computer in the test's own process, with the test in the place of the other computer.

Its clock goes on a little whenever it is read, and by a millisecond a turn: no stall of the computer is silence.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servonode.bus import Bus
from servonode.bus.envelope import Envelope, Hello
from servonode.bus.keys import TrustedKey
from servonode.bus.tunnel import Peer
from servonode.closed_loop.closed_loop import ClosedLoop, on_computer, resolve, with_keys
from servonode.closed_loop.launch_file import read_launch
from servonode.nodes.meeting import manifest
from servonode.nodes.node_main import listeners_of
from servonode.nodes.relay_node import RelayNode
from servonode.record.shared_memory import NodeMemory
from tests.helpers.events import LONG_S, soon

HOST = "127.0.0.1"
LAUNCH = "trailer_pursuit_lockstep"
PEER = b"peer"


def computer_of(on: str | None, *settings: str) -> ClosedLoop:
    """The closed loop of one of two computers, whose plant is on HOST, without keys."""
    launch = read_launch(LAUNCH, [f"hosts.plant=tcp://{HOST}:7400", *settings])
    return with_keys(on_computer(resolve(launch), on), "", insecure=True)


class Wire:
    """A tunnel whose other end is the test: it takes what `came`, and keeps what was `sent`."""

    fds = ()

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.came: deque[tuple[Peer, TrustedKey | None, Envelope]] = deque()
        self.sent: list[Envelope] = []
        self.is_closed = self.key_refused = False
        self.own_key = "own"

    def look(self, _: int) -> int:
        return 0

    def waits(self) -> bool:
        return bool(self.came)

    def receive(self, take: Callable[[Peer, TrustedKey | None, Envelope], None]) -> None:
        while self.came:
            take(*self.came.popleft())

    def send(self, _: Peer, envelope: Envelope) -> None:
        self.sent.append(envelope)

    def close(self) -> None:
        self.is_closed = True


class Relay:
    """A relay, and the test as the other computer. A context manager that closes."""

    def __init__(self, folder: Path, closed_loop: ClosedLoop) -> None:
        self.closed_loop, self.wire, self.now = closed_loop, Wire(), 10**9
        self.bus = Bus(folder, "relay")
        computer = closed_loop.computer
        assert computer is not None
        self.computer = computer
        self.memories = {node: NodeMemory() for node in (*computer.nodes, *computer.others, "relay")}
        wire: Any = self.wire
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr("servonode.nodes.relay_node.time", SimpleNamespace(monotonic_ns=self.clock))
        self.node = RelayNode(closed_loop, self.bus, listeners_of(closed_loop), wire, self.memories, 1)

    def clock(self) -> int:
        """The time [ns], a microsecond later than the last one."""
        self.now += 1000
        return self.now

    def close(self) -> None:
        self._patch.undo()

    def say(self, said: Envelope, key: TrustedKey | None = None, peer: Peer | None = None) -> list[Envelope]:
        """The other computer says this; what the relay sends in that turn."""
        self.wire.came.append((self.peer if peer is None else peer, key, said))
        return self.turn()

    def turn(self) -> list[Envelope]:
        """What the relay sends in one turn."""
        self.wire.sent.clear()
        self.node.work()
        return self.wire.sent.copy()

    @property
    def peer(self) -> Peer:
        return PEER if self.computer.listens else b""

    def hello(self, start: int = 7, **changed: str) -> Hello:
        """A hello of the other computer, which runs the same but for these entries of its manifest."""
        return Hello(start, self.computer.others, manifest(self.closed_loop) | changed)

    def meet(self, start: int = 7, key: TrustedKey | None = None, peer: Peer | None = None) -> list[Envelope]:
        """Meet it; what the relay sends in that turn."""
        return self.say(self.hello(start), key, peer)

    def count(self, name: str) -> int:
        """A counter of the relay's."""
        return self.node.all_counts().get(name, 0)

    def until(self, holds: Callable[[], Any], within_s: float = LONG_S) -> bool:
        """Whether it holds in time, while the relay works."""
        limit = soon(within_s)
        while not holds() and soon(0) < limit:
            self.node.work()
            self.bus.wait(soon(0.005), self.node.fds)
            self.now += 1_000_000
        return bool(holds())


@contextmanager
def relay(folder: Path, closed_loop: ClosedLoop) -> Iterator[Relay]:
    """A relay in this folder."""
    with closing(Relay(folder, closed_loop)) as made, made.bus:
        yield made
