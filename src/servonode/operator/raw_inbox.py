"""An inbox for the undecoded messages of a run, which the reader polls in its own thread."""

import select
import time
from collections.abc import Iterable
from typing import NamedTuple

import zmq

from servonode.bus.descriptors import ensure_room
from servonode.bus.interfaces import Intake, Wanted, undecoded
from servonode.bus.processes import Named
from servonode.bus.run_folder import endpoint
from servonode.bus.topology import NODES
from servonode.bus.zmq_io import Context, new_context, open_socket
from servonode.bus.zmq_subscriber import Subscriber
from servonode.operator.find_runs import Found

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
