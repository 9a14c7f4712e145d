"""Two virtual computers with a network between them: the plant runs on the robot, controller and target on the desk.

    with Pair("simulated", there=Line(5 * MS), back=Line(5 * MS)) as pair:
        pair.robot.until_active()
        pair.desk.kill(CONTROLLER)

The relays are those of a run. What stands for a node of the other computer has that node's place on the bus; the tunnel
between the two is a pair of lines. The desk's clock is ahead of the robot's.
"""

from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, Self, cast

from servonode.bus import Wanted
from servonode.bus.codec import Intake
from servonode.bus.envelope import Envelope, decode_envelope, encode_envelope
from servonode.bus.requests import HEADER, NEVER, NO_TICKET, decode_map, encode_map
from servonode.bus.topology import NODES, RELAY, subscribers
from servonode.bus.tunnel import QUEUE
from servonode.closed_loop.closed_loop import ClosedLoop, on_computer, with_keys
from servonode.nodes import relay_node
from servonode.nodes.relay_node import RelayNode
from servonode.record.shared_memory import NodeMemory
from tests.safety.cases import COMMON, HOP
from tests.virtual import Computer, Desk, Events, Inbox, Line, Process, Publisher, S, VirtualBus
from tests.wires import loop_of, wired

ROBOT = "127.0.0.1"
AHEAD = 3600 * S  # ns: of the desk's clock


class Part(Computer):
    """One of the two, with a clock of its own, and its relay."""

    def __init__(self, loop: ClosedLoop, ahead: int, **options: Any) -> None:
        assert loop.computer is not None
        super().__init__(loop, Line(HOP), absent=loop.computer.others, **options)
        self.ahead = ahead

    def clock(self) -> int:
        return self.events.now + self.ahead

    def make(self, name: str) -> Any:
        if name != RELAY:
            return super().make(name)
        process = self.processes[name] = RelayProcess(self, name)
        return process.made()


class Tunnel:
    """One end of the network's connection. What does not leave in time is dropped."""

    fds = ()
    own_key, key_refused = "", False

    def __init__(self, process: "RelayProcess") -> None:
        self.counts: Counter[str] = Counter()
        self.other: Tunnel
        self.line: Line
        self._process, self._came = process, deque[bytes]()
        self._waiting = 0

    def look(self, _: int) -> int:
        return 0

    def waits(self) -> bool:
        return bool(self._came)

    def send(self, _: bytes, envelope: Envelope) -> None:
        if self._waiting >= QUEUE:
            self.counts["dropped"] += 1
            return
        events, other, frame = self._process.events, self.other, encode_envelope(envelope)
        arrives = self.line.arrival(events.now, len(frame))
        if arrives is not None:
            self._waiting += 1
            events.plan(arrives - self.line.delay_ns, self._left)
            events.plan(arrives, lambda: other.arrive(frame))

    def _left(self) -> None:
        self._waiting -= 1

    def arrive(self, frame: bytes) -> None:
        """Take what the network brings."""
        if self._process.alive:
            self._came.append(frame)
            self._process.wake()

    def receive(self, take: Callable[[bytes, None, Envelope], None]) -> None:
        while self._came:
            take(b"other", None, decode_envelope([self._came.popleft()]))

    def close(self) -> None: ...


class Stand(Publisher):
    """Publishes here in the place of a node that runs on the other computer."""

    fd = -1

    def __init__(self, process: Process, node: str, readers: Any, expected: int) -> None:
        super().__init__(process, readers, expected)
        self.node = node

    def publish_frames(self, topic: bytes, payload: bytes) -> None:
        """Publish what has come."""
        self.send((topic, payload))

    def look(self) -> None: ...

    def has_subscriber(self, topic: str) -> bool:
        return any(topic.encode() in reader.words for reader in self._readers)


class Asking:
    """A socket: whoever asks here waits for what the relay sends back."""

    def __init__(self, asks: Callable[[list[bytes]], object]) -> None:
        self.came: deque[list[bytes]] = deque()
        self._asks = asks

    def send(self, *parts: bytes) -> None:
        self._asks(list(parts))

    def read(self) -> list[bytes] | None:
        return self.came.popleft() if self.came else None


class RelayBus(VirtualBus):
    """What a relay asks of its bus, in memory."""

    process: "RelayProcess"

    def direct_subscriber(self, wanted: Wanted, intake: Intake[bytes]) -> Inbox:
        made = self.subscriber(wanted)
        made._intake = cast(Any, intake)
        return made

    def publisher_for(self, node: str, expected: int) -> Stand:
        return Stand(self.process, node, self._switchboard.subscribers.setdefault(node, []), expected)

    def requests_for(self, node: str) -> Asking:
        made = self.process.asked[node] = Asking(lambda parts: self.process.replies.append(decode_map(parts[-1])))
        return made

    def requests_to(self, node: str) -> Asking:
        process = self.process.computer.processes[node]
        made = Asking(lambda parts: self._put(process, parts))
        desk = Desk(process)
        desk.answered = lambda parts: (made.came.append(parts[1:]), self.process.wake())
        return made

    @staticmethod
    def _put(process: Process, parts: list[bytes]) -> None:
        if process.alive and process.desk is not None:
            process.desk.came.append([b"relay", *parts])
            process.wake()


class RelayProcess(Process):
    """A relay; what is asked here of nodes of the other computer, and what they have replied."""

    computer: Part

    def __init__(self, computer: Part, name: str) -> None:
        super().__init__(computer, name)
        self.bus = RelayBus(computer.switchboard, self)
        self.asked: dict[str, Asking] = {}
        self.replies: list[Any] = []
        self.tunnel = Tunnel(self)

    def made(self) -> RelayNode:
        """The node."""
        loop = self.computer.loop
        assert loop.computer is not None
        here, others = loop.computer.nodes, loop.computer.others
        listeners = [*subscribers(here), *({node: NODES[node].publishes} for node in here)]
        memories = {node: NodeMemory() for node in (*here, *others, RELAY)}
        with self._clock():
            return RelayNode(loop, cast(Any, self.bus), listeners, cast(Any, self.tunnel), memories, 1)

    def work(self) -> None:
        with self._clock():
            super().work()

    def _clock(self) -> Any:
        """While it lasts, the module's clock is that of this computer."""
        stack, before = ExitStack(), relay_node.time
        relay_node.time = cast(Any, SimpleNamespace(monotonic_ns=self.computer.clock))
        stack.callback(lambda: setattr(relay_node, "time", before))
        return stack

    def order(self, verb: str, node: str) -> None:
        """Ask a node of the other computer for a stop."""
        self.asked[node].came.append([b"client", HEADER.pack(1, NO_TICKET, NEVER), encode_map({"ask": verb})])
        self.wake()


class Pair:
    """The two. A context manager that takes out what is left. there, back: the lines from the robot, and to it."""

    def __init__(self, kind: str, *settings: str, there: Line, back: Line) -> None:
        loop = loop_of(kind, *COMMON, *settings, f'hosts.plant="tcp://{ROBOT}:7400"')
        events = Events()
        robot, desk = (with_keys(on_computer(loop, on), "", insecure=True) for on in (ROBOT, None))
        self.desk, self.robot = Part(desk, AHEAD, events=events), Part(robot, 0, events=events, wire=wired(kind))
        self.there, self.back = there, back

    def __enter__(self) -> Self:
        self.desk.__enter__()
        self.robot.__enter__()
        for part in (self.robot, self.desk):
            part.start(RELAY)
        self.join()
        return self

    def __exit__(self, *_: object) -> None:
        self.robot.__exit__()
        self.desk.__exit__()

    def join(self) -> None:
        """Connect the two relays that run now."""
        ends = [cast(RelayProcess, part.processes[RELAY]).tunnel for part in (self.robot, self.desk)]
        for end, other, line in zip(ends, reversed(ends), (self.there, self.back), strict=True):
            end.other, end.line = other, line

    def cut(self, lost: bool = True) -> int:
        """Let nothing through, or everything again; the time of it."""
        for line in (self.there, self.back):
            line.loses = lambda _: lost
        return self.robot.events.now
