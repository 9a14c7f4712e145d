"""A virtual computer: the nodes of a run on one queue of events, with a clock that goes from event to event.

    with Computer(loop) as computer:
        computer.until_active()
        killed = computer.kill(CONTROLLER)
        fault = computer.status("fault", killed)
        assert fault.mono == ...

The nodes are those of a run, with the same arguments as in their processes. Nothing sleeps and nothing measures time:
a run has the same bits each time, and each time in it is exact to the nanosecond.

* Computing takes no time unless a node is told to `spend` some; a node acts at the time at which it wakes.
* A message takes the time of its `Line`: rate, delay, loss.
* Death is a node that is taken out, a freeze one that is not served, a stall of the computer a freeze of all its nodes.

Nodes that are driven by messages (controller, target, relay) work when something comes or their sleep is over. A plant
has a loop of its own, in a thread of its own: of all threads exactly one runs at any time, and it is this queue that
says which. A machine behind a wire has its own time, which no stall of the computer touches.
"""

import heapq
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any, Self, TypeVar, cast

import pytest

from servonode.bus import Applied, Command, Lifecycle, MemoryBus, Message, State, Status, Switchboard
from servonode.bus.codec import Wanted, encode_frames
from servonode.bus.memory import MemoryPublisher, MemorySubscriber
from servonode.bus.requests import TICKET, Requests, decode_map, encode_map
from servonode.bus.topology import CONTROLLER, PLANT, nodes_of, subscribers
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.controller_node import ControllerNode
from servonode.nodes.lockstep import lockstep, prepare
from servonode.nodes.node import EventNode, Node
from servonode.nodes.node_main import IDLE_NS, NodeBus
from servonode.nodes.plant_node import PlantNode
from servonode.nodes.realtime import RealTime
from servonode.nodes.target_node import target_node_of

US, MS, S = 1_000, 1_000_000, 1_000_000_000  # ns
LOOK_NS = 1  # what a look takes that does not wait: who waits for later than now would else wait for ever
MOST_TURNS = 200_000  # of one node without end: a failure, not a hang
WITHIN_S = 30.0  # for what is awaited, of the virtual clock
M = TypeVar("M", bound=Message)
Frames = tuple[bytes, bytes]


class Killed(BaseException):
    """Ends the thread of a node that is taken out, wherever it waits."""


class Events:
    """The queue: what happens when, and the present time [ns]. What is planned for the same time happens in order."""

    def __init__(self, begin: int = 5 * S) -> None:
        self.now = begin
        self._planned: list[tuple[int, int, Callable[[], object]]] = []
        self._number = count()

    def plan(self, at: int, happening: Callable[[], object]) -> None:
        """Let something happen at a time; at once, but after all that is planned for now, where that is past."""
        heapq.heappush(self._planned, (max(at, self.now), next(self._number), happening))

    def step(self) -> None:
        """Let the next event happen."""
        self.now, _, happening = heapq.heappop(self._planned)
        happening()

    def go_to(self, at: int) -> None:
        """Let all happen up to a time, that included."""
        while self._planned and self._planned[0][0] <= at:
            self.step()
        self.now = max(self.now, at)

    def until(self, holds: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
        """Let events happen until something holds, which is returned; fails if it does not hold in time."""
        limit = self.now + round(within_s * S)
        while not (found := holds()):
            assert self._planned, "nothing happens any more"
            assert self._planned[0][0] <= limit, f"it does not hold within {within_s:g} s"
            self.step()
        return found


@dataclass
class Line:
    """One direction between two nodes: bytes take their time, messages may be lost. rate: bytes/s; None: any number.

    loses: whether the message of this number, from 0 on, is lost.
    """

    delay_ns: int = 0
    rate: float | None = None
    loses: Callable[[int], bool] = lambda _: False
    sent: int = field(default=0, init=False)
    _free: int = field(default=0, init=False)

    def arrival(self, now: int, size: int) -> int | None:
        """When a message of this size arrives that is sent now; None: never."""
        self.sent += 1
        if self.rate is not None:
            now = self._free = max(self._free, now) + round(size / self.rate * S)
        return None if self.loses(self.sent - 1) else now + self.delay_ns


class Publisher(MemoryPublisher):
    """Delivers over lines, and keeps all that is published."""

    def __init__(self, process: "Process", readers: list[MemorySubscriber], expected: int) -> None:
        self._process, self._readers, self.expected_subscriptions = process, readers, expected

    def publish(self, topic: str, message: Message) -> None:
        self._process.computer.published.append(message)
        self.send(encode_frames(topic, message))

    def send(self, frames: Frames) -> None:
        """Send bytes."""
        computer, node = self._process.computer, self._process.name
        for reader in tuple(self._readers):
            if not isinstance(reader, Inbox) or frames[0] not in reader.words:
                continue
            at = computer.line(node, reader.process.name).arrival(computer.events.now, sum(map(len, frames)))
            if at is not None:
                computer.events.plan(at, lambda reader=reader: reader.arrive(frames))  # type: ignore[misc]

    @property
    def subscription_count(self) -> int:
        return self._process.computer.joined[self._process.name]

    def has_subscriber(self, topic: str) -> bool:  # noqa: ARG002
        return True  # by the test


class Inbox(MemorySubscriber):
    """A subscriber whose node wakes when something comes."""

    def __init__(self, process: "Process", wanted: Wanted) -> None:
        super().__init__(wanted)
        self.process = process

    def arrive(self, frames: Frames) -> None:
        """Queue the frames, unless the reader has died."""
        if self.process.alive:
            self.deliver(frames)
            self.process.wake()


class VirtualBus(MemoryBus):
    """The bus of one node."""

    def __init__(self, switchboard: Switchboard, process: "Process") -> None:
        super().__init__(switchboard, process.name)
        self.process = process

    def publisher(self, expected_subscriptions: int = 0) -> Publisher:
        made = super().publisher(expected_subscriptions)
        return Publisher(self.process, made._readers, made.expected_subscriptions)

    def subscriber(self, wanted: Wanted) -> Inbox:
        made = Inbox(self.process, wanted)
        for node in wanted:
            self._switchboard.subscribers.setdefault(node, []).append(made)
            self.process.computer.joined[node] += len(made.words)
        self._subscribers.append((wanted, made))
        return made

    def wait(self, deadline_ns: int | None, fds: Iterable[int] | None = None) -> bool:
        self.process.serve()
        if not super().wait(None):
            self.process.waits_for_machine = fds is not None
            self.process.rest(deadline_ns)
            self.process.waits_for_machine = False
            self.process.serve()
        return super().wait(None)


class Asked:
    """A request of an operator, and its reply once the node has given it."""

    def __init__(self, verb: str, arguments: Mapping[str, Any]) -> None:
        self.verb, self.arguments, self.reply = verb, arguments, None


class Desk(NodeBus):
    """The requests of a node, as its process takes them: bytes of clients, which come when they come."""

    def __init__(self, process: "Process") -> None:
        self.came: deque[list[bytes]] = deque()
        self.replies: list[tuple[int, Any]] = []  # and when: tickets as bytes
        self.answered: Callable[[list[bytes]], object] = lambda _: None
        self.served, self.stopped, self.stopped_by, self._signalled = process.node, False, "", False
        self._process, self._requests = process, deque()
        self._request_socket = Requests(cast(Any, self))
        self._request_socket._tickets._clock = self._process.computer.clock
        process.desk = self

    def post(self, header: bytes, content: Mapping[str, Any], line: Line) -> None:
        """A client sends a request over its line."""
        frames = [b"client", header, encode_map(content)]
        at = line.arrival(self._process.events.now, sum(map(len, frames)))
        if at is not None:
            self._process.events.plan(at, lambda: (self.came.append(frames), self._process.wake()))

    def ask(self, header: bytes, content: Mapping[str, Any], line: Line) -> Any:
        """The reply to a request."""
        n = len(self.replies)
        self.post(header, content, line)
        return self._process.computer.until(lambda: self.replies[n:])[0][1]

    # the socket, as `Requests` reads it

    def read(self) -> list[bytes] | None:
        return self.came.popleft() if self.came else None

    def send(self, *parts: bytes) -> None:
        self.answered(list(parts))
        reply = parts[-1] if len(parts[-1]) == TICKET.size else decode_map(parts[-1])
        self.replies.append((self._process.events.now, reply))


class Process:
    """One node: asleep until something comes or its time is over, then it works.

    late: by how much later than asked for or signalled it wakes at a time [ns]. computed: its own computing time [ns].
    """

    def __init__(self, computer: "Computer", name: str) -> None:
        self.computer, self.name = computer, name
        self.events = computer.events
        self.bus = VirtualBus(computer.switchboard, self)
        self.alive, self.frozen = True, False
        self.late: Callable[[int], int] = lambda _: 0
        self.computed = 0
        self.waits_for_machine = False  # whether what comes from the machine ends its sleep
        self.node: Any = None
        self.turns = 0
        self._asked: deque[Asked] = deque()
        self.desk: Desk | None = None
        self._sleep = 0  # number of the present sleep; what wakes an earlier one wakes nobody
        self._missed = False  # whether something would have woken it while it was frozen

    def begin(self, node: Any) -> None:
        """Let the node begin, now."""
        self.node = node
        self.wake()

    def wake(self, at: int | None = None) -> None:
        """Wake from the present sleep at a time; absent: as soon as it can."""
        sleep, at = self._sleep, self.events.now if at is None else at
        self.events.plan(at + self.late(at), lambda: self._turn(sleep))

    def _turn(self, sleep: int) -> None:
        if not self.alive or sleep != self._sleep or self.node is None:
            return
        if self.frozen:
            self._missed = True
            return
        self._sleep += 1
        self.turns += 1
        assert self.turns < MOST_TURNS, f"{self.name} works without end"
        before, self.computer.running = self.computer.running, self
        self.work()
        self.computer.running = before

    def work(self) -> None:
        """Do what is to be done now, and sleep."""
        self.serve()
        sleep_s = self.node.work()
        sleep_ns = min(IDLE_NS, round(min(sleep_s, 1.0) * S))
        self.wake(self.events.now + max(sleep_ns, LOOK_NS))

    def rest(self, deadline_ns: int | None) -> None:
        """Sleep until something comes, or the deadline."""
        raise NotImplementedError

    def ask(self, verb: str, arguments: Mapping[str, Any]) -> Asked:
        """Ask the node; it answers when it looks."""
        self._asked.append(made := Asked(verb, arguments))
        self.wake()
        return made

    def serve(self) -> None:
        """Answer what was asked."""
        while self._asked:
            asked = self._asked.popleft()
            if asked.verb == "stop":
                self.node.halt()
            asked.reply = {} if asked.verb == "stop" else self.node.handle_request(asked.verb, asked.arguments)
        if self.desk is not None:
            self.desk.answer_requests()

    def freeze(self, frozen: bool) -> None:
        """Serve it no more, or again."""
        self.frozen = frozen
        if not frozen and self._missed:
            self._missed = False
            self.wake()

    def die(self) -> None:
        """End at once, as by SIGKILL: nothing is said to anybody."""
        self.alive = False
        self.bus.close()


class Looping(Process):
    """A node with a loop of its own, `life`, in a thread that runs only while the queue waits for it."""

    life: Callable[[], None]

    def __init__(self, computer: "Computer", name: str) -> None:
        super().__init__(computer, name)
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._error: BaseException | None = None
        self.over = False

    def work(self) -> None:
        if not self._thread.ident:
            self._thread.start()
        self._go.release()
        self._back.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _live(self) -> None:
        self._go.acquire()
        try:
            if self.alive:
                self.life()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  (it fails in the test's own thread)
            self._error = error
        self.over, self.alive = True, False
        self._back.release()

    def rest(self, deadline_ns: int | None) -> None:
        now = self.events.now
        self.wake(None if deadline_ns is None else now + LOOK_NS if deadline_ns <= now else deadline_ns)
        self._hand_over()

    def spend(self, ns: int) -> None:
        """Compute for so long, in this node's own thread."""
        self.computed += ns
        if ns > 0:
            self._sleep += 1  # what comes meanwhile wakes nobody
            sleep = self._sleep
            self.events.plan(self.events.now + ns, lambda: self._turn(sleep))
            self._hand_over()

    def _hand_over(self) -> None:
        self._back.release()
        self._go.acquire()
        if not self.alive:
            raise Killed

    def die(self) -> None:
        was_asleep = self._thread.ident and not self.over
        super().die()
        if was_asleep:
            self._go.release()
            self._back.acquire()
        self._error = None


class Computer:
    """One computer with the nodes of a run. A context manager that takes out what is left.

    hop: between two nodes where no line of its own is given. absent: nodes that do not run. events: the queue; given
    where there are several computers. wire: puts a wire to a machine into the place of the driver's own, and returns
    it. published: all messages of all nodes, oldest first.
    """

    def __init__(
        self,
        loop: ClosedLoop,
        hop: Line | None = None,
        lines: Mapping[tuple[str, str], Line] | None = None,
        absent: Iterable[str] = (),
        arm: bool = True,
        events: Events | None = None,
        wire: Callable[["Computer", pytest.MonkeyPatch], Any] = lambda *_: None,
    ) -> None:
        self.loop, self.arm = loop, arm
        self.wire: Any = None
        self._make_wire = wire
        self.events = events or Events()
        self.switchboard = Switchboard()
        self.published: list[Message] = []
        self.joined = Counter[str]()  # subscriptions ever made, by the node that publishes
        self.processes: dict[str, Process] = {}
        self.running: Process | None = None
        self._plants: list[PlantNode] = []
        self._hop, self._lines = hop or Line(), dict(lines or {})
        self._names = [name for name in nodes_of(loop.control is not None) if name not in absent]
        self._patch = pytest.MonkeyPatch()
        self._random = count(1_000_003, 7_919)

    def __enter__(self) -> Self:
        seeded = SimpleNamespace(randbelow=lambda _: next(self._random))
        for module in ("nodes.node", "plants.drivers.handshake"):
            self._patch.setattr(f"servonode.{module}.secrets", seeded)
        computing = SimpleNamespace(thread_time_ns=lambda: self.running.computed if self.running else 0)
        self._patch.setattr("servonode.nodes.realtime.time", computing)
        self._patch.setattr("servonode.nodes.node_main.time", SimpleNamespace(monotonic_ns=self.clock))
        self.wire = self._make_wire(self, self._patch)
        if self.wire is not None:
            self.wire.wake = self._machine_came
        built = {name: self.make(name) for name in self._names}
        for name, node in built.items():
            self.processes[name].begin(node)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            if process.alive:
                process.die()
        if self.wire is not None:
            self.wire.waits = self.go  # the plant's thread is gone
        for plant in self._plants:
            plant.plant.close()  # as the system closes the files of a process that has died
        self._patch.undo()

    def _machine_came(self) -> None:
        """Something has come from the machine."""
        if self.processes[PLANT].waits_for_machine:
            self.processes[PLANT].wake()

    # nodes

    def clock(self) -> int:
        return self.events.now

    def line(self, node: str, reader: str) -> Line:
        """The line from one node to another."""
        return self._lines.setdefault((node, reader), Line(self._hop.delay_ns, self._hop.rate, self._hop.loses))

    def make(self, name: str) -> Node:
        """Make a node, as its process does."""
        process = self.processes[name] = (Looping if name == PLANT else Process)(self, name)
        listeners = subscribers(nodes_of(self.loop.control is not None), live=bool(self.loop.live))
        if name != PLANT:
            kind: Callable[..., EventNode] = ControllerNode if name == CONTROLLER else target_node_of(self.loop)
            return kind(self.loop, process.bus, listeners, self.clock)
        plant = PlantNode(self.loop, process.bus, listeners, 1, self.clock, interactive=True)
        self._plants.append(plant)
        assert isinstance(process, Looping)
        process.life = lambda: self._drive(plant)
        return plant

    def _drive(self, plant: PlantNode) -> None:
        """A plant's life, as `node_main` leads it."""
        run = self.loop.launch.run
        if not prepare(plant, self.arm, self.loop.launch.plant.device.wait):
            plant.finish()
        elif run.mode == "lockstep":
            lockstep(plant, run.lockstep_timeout)
        else:
            RealTime(plant, run.speed, self.loop.safety.command_timeout, run.lockstep_timeout).run()
        plant.plant.close()

    def put(self, name: str, node: Callable[[VirtualBus], Any]) -> Any:
        """Have another node work in the place of one of the run's, which is taken out; what it was made of."""
        if name in self.processes and self.processes[name].alive:
            self.processes[name].die()
        process = self.processes[name] = Process(self, name)
        process.begin(made := node(process.bus))
        return made

    @property
    def plant(self) -> Any:
        """The plant node."""
        return self.processes[PLANT].node

    # what happens to them

    def kill(self, *names: str) -> int:
        """Take nodes out; the time of it."""
        for name in names:
            self.processes[name].die()
        return self.events.now

    def start(self, name: str) -> None:
        """Start a node again that has died."""
        node = self.make(name)
        self.processes[name].begin(node)

    def freeze(self, *names: str) -> int:
        """Serve nodes no more; the time of it."""
        for name in names:
            self.processes[name].freeze(True)
        return self.events.now

    def thaw(self, *names: str) -> None:
        """Serve them again, in this order."""
        for name in names:
            self.processes[name].freeze(False)

    def stall(self, ns: int, *names: str) -> int:
        """Let none of these nodes run for so long, absent: none at all; the time at which it began.

        They go on in the order of their names here.
        """
        names = names or tuple(self.processes)
        begun = self.freeze(*names)
        self.go(ns)
        self.thaw(*names)
        return begun

    # time

    def go(self, ns: int) -> int:
        """Let time pass; the time then."""
        self.events.go_to(self.events.now + ns)
        return self.events.now

    def go_to(self, at: int) -> None:
        self.events.go_to(at)

    def until(self, holds: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
        return self.events.until(holds, within_s)

    # the operator

    def ask(self, verb: str, node: str = PLANT, **arguments: Any) -> dict[str, Any]:
        """The answer of a node to a request, which it gives as soon as it looks."""
        asked = self.post(verb, node, **arguments)
        found: dict[str, Any] = self.until(lambda: asked.reply is not None and (asked.reply,))[0]
        return found

    def post(self, verb: str, node: str = PLANT, **arguments: Any) -> Asked:
        """Ask a node and do not wait."""
        return self.processes[node].ask(verb, arguments)

    def order(self, verb: str) -> str:
        """Have the plant carry out a request; its lifecycle then."""
        found = self.ask(verb)
        assert found.get("done"), found
        return str(found["lifecycle"])

    # what is found

    def of(self, kind: type[M], after: int = 0, node: str | None = None) -> list[M]:
        """The messages of a kind since a time."""
        return [
            each for each in self.published if type(each) is kind and each.mono >= after and node in (None, each.node)
        ]

    def first(self, kind: type[M], holds: Callable[[M], Any], after: int = 0, within_s: float = WITHIN_S) -> M:
        """The first message of a kind since a time for which something holds, awaited."""
        at = [0]

        def found() -> tuple[M] | None:
            for number in range(at[0], len(self.published)):
                each = self.published[number]
                if type(each) is kind and each.mono >= after and holds(each):
                    return (each,)
            at[0] = len(self.published)
            return None

        message: M = self.until(found, within_s)[0]
        return message

    def status(self, lifecycle: str, after: int = 0, node: str = PLANT, within_s: float = WITHIN_S) -> Status:
        """The first status with this lifecycle since a time, awaited."""
        return self.first(Status, lambda each: (each.node, each.lifecycle) == (node, lifecycle), after, within_s)

    def until_active(self) -> int:
        """Wait until commands act; the time then."""
        self.until(lambda: self.plant.guard.lifecycle is Lifecycle.ACTIVE)
        return self.events.now

    @property
    def counts(self) -> dict[str, int]:
        """The plant's counters."""
        found: dict[str, int] = self.plant.all_counts()
        return found


class Puppet:
    """The test in the place of a controller. answer: gives what is published for a control state, commands or bytes."""

    def __init__(self, bus: VirtualBus) -> None:
        self._publisher = bus.publisher()
        self._inbox = bus.subscriber({PLANT: ["state", "status", "applied"]})
        self._events = bus.process.events
        self.src, self._seq = 4711, -1
        self.states: list[State] = []  # control states
        self.applied: list[Applied] = []
        self.answer: Callable[[State], Iterable[Command | bytes]] = lambda state: [self.good(state)]

    def work(self) -> float:
        """Answer what has come."""
        for _, message in self._inbox.receive():
            if isinstance(message, Applied):
                self.applied.append(message)
            elif isinstance(message, State) and message.control:
                self.states.append(message)
                self.publish(*self.answer(message))
        return 1.0

    def good(self, state: State, **changes: Any) -> Command:
        """A good answer to a state, all inputs zero, with changes."""
        self._seq += 1
        header = {"t": state.t, "seq": self._seq, "run": state.run, "k": state.k, "mono": self._events.now}
        values = {"node": CONTROLLER, "src": self.src, "re": state.seq, "target_seq": -1}
        return Command(**{**header, **values, "input": dict.fromkeys(state.input, 0.0), **changes})

    def publish(self, *answers: Command | bytes) -> None:
        """Publish commands; bytes go out as they are, in a command's place."""
        for each in answers:
            if isinstance(each, bytes):
                self._publisher.send((b"command", each))
            else:
                self._publisher.publish("command", each)

    def beat(self, state: State) -> None:
        """Publish a status, as a controller that is alive does."""
        self._seq += 1
        self._publisher.publish("status", Status(
            t=state.t, seq=self._seq, run=state.run, k=state.k, mono=self._events.now, node=CONTROLLER, src=self.src,
            lifecycle=Lifecycle.ACTIVE, counts={}, values={},
        ))  # fmt: skip
