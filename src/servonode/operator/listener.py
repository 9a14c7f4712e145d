"""A listener to a run in progress: finds it, connects, receives, and disconnects when it has ended.

No node waits for it: messages that it does not read in time are dropped by the nodes' sockets.
"""

import contextlib
import os
import select
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import zmq

from servonode.bus import Bus, BusError, Message, Wanted
from servonode.bus.codec import Intake, undecoded
from servonode.bus.descriptors import ensure_room
from servonode.bus.processes import Named
from servonode.bus.run_folder import endpoint
from servonode.bus.topology import NODES, publishers
from servonode.bus.zmq_io import Context, new_context, open_socket
from servonode.bus.zmq_subscriber import Subscriber
from servonode.operator.find_runs import Found, find_run

T = TypeVar("T")
LOOK_S = 0.2  # how often the registry is read
START_S = 0.05  # the same before the nodes have been started
POLLS = 30  # a second: at 2000 messages a second a quarter of the system's buffer fills between two polls
NICE, BACK = 19, 5  # steps by which processes go second that may, and must not, starve
LAST_S = 0.05  # for which a thread of libzmq may still receive what a process sent before its death
NEVER_MS = 10**8  # not -1, with which libzmq drops what has come but was not read
DRAINS = 4  # drains of one connection in one `receive`; what is left comes with the next


class Raw(NamedTuple):
    """An undecoded message. payload: one msgpack map, not checked."""

    node: str
    topic: str
    payload: bytes


class _Link:
    """The connection to one process of a node: it is never made again, for the next process counts its subscribers."""

    def __init__(self, context: Context, address: str, node: str, process: Named, owner: int) -> None:
        opened = open_socket(context, zmq.SUB)
        opened.setsockopt(zmq.RECONNECT_IVL, NEVER_MS)
        opened.setsockopt(zmq.RECONNECT_IVL_MAX, 0)
        self.subscriber = Subscriber(opened, Intake(NODES[node].publishes, undecoded, ()), address)
        self._process, self._owner = process, owner
        self._words: set[str] = set()
        self._dead_since = 0.0  # monotonic s; 0: it lives

    def want(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics from now on, and to no others."""
        wanted = set(topics)
        for word in wanted ^ self._words:
            self.subscriber.subscribe(word.encode(), word in wanted)
        self._words = wanted

    def has_ended(self) -> bool:
        """Whether the process at the other end has been dead for LAST_S: what it sent last has come by then."""
        if self._process.lives(self._owner):
            return False
        self._dead_since = self._dead_since or time.monotonic()
        return time.monotonic() - self._dead_since > LAST_S


class RawInbox:
    """Connections to the nodes of one run, whose messages are not decoded.

    poll_s: how long `wait` sleeps, so that not each message wakes the reader; 0: until something comes. Nodes count
    their subscribers before they are started together, also at a restart; so only `join` connects to a process, after
    that.
    """

    def __init__(self, wanted: Wanted, poll_s: float) -> None:
        self._poll_s = poll_s
        self._links: dict[str, _Link] = {}
        self._context: Context | None = None
        self.want(wanted)

    def want(self, wanted: Wanted) -> None:
        """Subscribe to these topics from now on, and to no others; `join` connects to nodes that are new here."""
        self._wanted = {node: topics for node, topics in wanted.items() if topics}
        for node in self._links.keys() - self._wanted.keys():
            self._leave(node)
        for node, link in self._links.items():
            link.want(self._wanted[node])

    def join(self, found: Found) -> None:
        """Connect to the nodes that are wanted and have been started."""
        missing = self.missing()
        if not missing or not found.registry.get("open"):
            return
        for node in missing:
            process = found.process(node)
            if process is not None and process.lives(found.owner):
                if self._context is None:
                    ensure_room()
                    self._context = new_context()
                link = _Link(self._context, endpoint(found.path, node, "pub"), node, process, found.owner)
                link.want(self._wanted[node])
                self._links[node] = link

    def missing(self) -> list[str]:
        """The wanted nodes without a connection."""
        return [node for node in self._wanted if node not in self._links]

    def receive(self) -> list[Raw]:
        """The messages that have come, oldest first for each node, at most a bounded batch; never blocks."""
        taken: list[Raw] = []
        for node, link in list(self._links.items()):
            ended = link.has_ended()
            for _ in range(DRAINS):
                taken += [Raw(node, topic, payload) for topic, payload in link.subscriber.receive()]
                if not link.subscriber.reader.waits():
                    break
            else:
                continue
            if ended:
                self._leave(node)
        return taken

    def wait(self, deadline_ns: int) -> bool:
        """Sleep until the next poll; returns False if the monotonic deadline [ns] comes first."""
        until = min(deadline_ns, time.monotonic_ns() + round(self._poll_s * 1e9)) if self._poll_s else deadline_ns
        subscribers = () if self._poll_s else [link.subscriber for link in self._links.values()]
        if any(subscriber.reader.waits() for subscriber in subscribers):
            return True
        left = max(until - time.monotonic_ns(), 0) * 1e-9
        signalled = select.select([each.fd for each in subscribers], (), (), left)[0]
        for each in subscribers:
            each.reader.disturbed()
        return bool(signalled) or until < deadline_ns

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        for node in list(self._links):
            self._leave(node)
        if self._context is not None:
            self._context.term()
            self._context = None

    def _leave(self, node: str) -> None:
        self._links.pop(node).subscriber.close()


class NoSuchTopic(BusError):
    """A topic that no node of the run publishes; the text names the choices."""


class Inbox(Protocol[T]):
    """The connection of a listener to a run."""

    def join(self, found: Found) -> None:
        """Connect to nodes that have been restarted."""

    def receive(self) -> list[T]:
        """The messages that have come, at most a bounded batch; never blocks."""

    def wait(self, deadline_ns: int) -> bool:
        """Whether it is time to receive before the monotonic deadline [ns]."""

    def close(self) -> None:
        """Close the sockets."""


class RunListener(ABC, Generic[T]):
    """Receives from the run of a name or in a folder, then from the next run there. A context manager.

    wanted: the subscriptions for a run with these nodes. It connects only after the nodes have been started together,
    because they count their subscribers.
    """

    def __init__(self, run: str, wanted: Callable[[Collection[str]], Wanted]) -> None:
        self.run, self.wanted = run, wanted
        self.registry: dict[str, Any] = {}  # registry of the run that was found last
        self.alive = False  # whether that run is in progress
        self._look_due = 0.0
        self._inbox: Inbox[T] | None = None

    @abstractmethod
    def _connected(self, found: Found, wanted: Wanted) -> Inbox[T]:
        """The inbox of a run that has just been found."""

    def look(self, now: float) -> bool:
        """Look for the run if that is due at `now` [monotonic s]; True if another run than before was found."""
        if now < self._look_due:
            return False
        self._look_due = now + LOOK_S
        try:
            found = self.found()
            registry = found.described()
        except BusError:
            self.alive = False
            return False
        if not registry.get("open"):
            return False
        if registry["started_ns"] == self.registry.get("started_ns"):
            if self._inbox is not None:
                self._inbox.join(found)
            return False
        self.prepare(registry)
        wanted = self.wanted(registry["nodes"])
        self.leave()
        self.registry, self.alive = registry, True
        self._inbox = self._connected(found, wanted)
        return True

    def found(self) -> Found:
        """The run; BusError if it is not in progress."""
        return find_run(self.run)

    def prepare(self, registry: dict[str, Any]) -> None:
        """Called with the registry of a run before the connection; does nothing here."""

    def wait_open(self, until: Callable[[], bool] | None = None) -> bool:
        """Wait until the run's nodes have been started; BusError if it is not in progress.

        until: wait for a run that is not yet in progress too; returns False once this holds.
        """
        while not self.look(time.monotonic()):
            if until is None:
                find_run(self.run).described()
            elif until():
                return False
            time.sleep(START_S)
        return True

    def receive(self) -> list[T]:
        """The messages that have arrived, at most a bounded batch."""
        if self._inbox is None:
            return []
        messages = self._inbox.receive()
        if not messages and not self.alive:  # all is received; else the sockets would try to connect for ever
            self.leave()
        return messages

    def messages(self) -> Iterator[T]:
        """All messages of the run that was found, until it has ended."""
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[T]]:
        """As `messages`, in batches; a batch is empty where nothing has come for a while."""
        while self._came() or self.alive:
            yield self.receive()
            if self.look(time.monotonic()):  # another run has this name now
                return

    def _came(self) -> bool:
        """Whether something arrives before the next look for the run is due."""
        return self._inbox is not None and self._inbox.wait(time.monotonic_ns() + round(LOOK_S * 1e9))

    def leave(self) -> None:
        """Close the sockets; a second call does nothing."""
        if self._inbox is not None:
            self._inbox.close()
        self._inbox = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


class Listener(RunListener[tuple[str, Message]]):
    """Receives messages, each with its topic; a thread of its sockets reads meanwhile. who: its name on the bus."""

    def __init__(self, run: str, wanted: Callable[[Collection[str]], Wanted], who: str = "listener") -> None:
        super().__init__(run, wanted)
        self.who = who

    def _connected(self, found: Found, wanted: Wanted) -> "_BusInbox":
        return _BusInbox(Bus(found.path, self.who), wanted)


class _BusInbox:
    """A subscriber with its own bus; it reconnects to restarted nodes by itself."""

    def __init__(self, bus: Bus, wanted: Wanted) -> None:
        self._bus, self._inbox = bus, bus.subscriber(wanted)
        self.receive, self.wait, self.close = self._inbox.receive, self._inbox.wait, bus.close

    def join(self, found: Found) -> None:
        """Do nothing: the sockets reconnect."""


class RawListener(RunListener[Raw]):
    """Receives undecoded payloads, every `poll_s` seconds; with 0 whenever one comes."""

    def __init__(self, run: str, wanted: Callable[[Collection[str]], Wanted], poll_s: float = 1 / POLLS) -> None:
        super().__init__(run, wanted)
        self.poll_s = poll_s

    def _connected(self, found: Found, wanted: Wanted) -> RawInbox:
        inbox = RawInbox(wanted, self.poll_s)
        inbox.join(found)
        return inbox


def named(word: str, nodes: Collection[str]) -> Wanted:
    """The subscriptions for TOPIC, or NODE/TOPIC, in a run of these nodes.

    Raises:
        NoSuchTopic: none of them publishes it.
    """
    node, slash, topic = word.rpartition("/")
    wanted = publishers([topic], [each for each in nodes if not slash or each == node])
    if not wanted:
        full = [f"{each}/{topic}" for each in nodes for topic in NODES[each].publishes]
        short = sorted({each.partition("/")[2] for each in full})
        text = (
            f"topic {word!r} is not published in this run; choose {', '.join(short)}, or one node's: {', '.join(full)}"
        )
        raise NoSuchTopic(text)
    return wanted


def give_way() -> None:
    """Lower the priority, so that other processes go first, above all the control loop."""
    with contextlib.suppress(OSError):
        if hasattr(os, "SCHED_IDLE"):  # Linux: only idle processor time
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        else:
            os.nice(NICE)


def step_back() -> None:
    """Never take a processor from the loop at once, and little of it when it is scarce.

    But get some: a process of the lowest class waits seconds on a computer that is busy, and an emergency stop that
    comes through it would wait with it.
    """
    with contextlib.suppress(OSError):
        if hasattr(os, "SCHED_BATCH"):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.nice(BACK)
