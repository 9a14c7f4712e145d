"""An inbox for the undecoded messages of a run, which the reader polls in its own thread."""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from servonode.bus.interfaces import RawIntake, Wanted
from servonode.bus.publisher_connection import PublisherConnection
from servonode.bus.run_folder import endpoint
from servonode.bus.topology import NODES
from servonode.bus.waiter import Waiter
from servonode.operator.find_runs import Found

DRAINS = 4  # drains of one connection in one `receive`; what is left comes with the next


class Raw(NamedTuple):
    """An undecoded message. payload: one msgpack map, not checked."""

    node: str
    topic: str
    payload: bytes


class RawInbox:
    """Connections to the nodes of one run, whose messages are not decoded.

    poll_s: how long `wait` sleeps, so that not each message wakes the reader; 0: until something comes. Nodes count
    their subscribers before they are started together, also at a restart; so only `join` makes an ended connection
    again, after that.
    """

    def __init__(self, wanted: Wanted, poll_s: float) -> None:
        self._poll_s = poll_s
        self._connections: dict[str, PublisherConnection[bytes]] = {}
        self._waiter = Waiter()
        self.want(wanted)

    def want(self, wanted: Wanted) -> None:
        """Subscribe to these topics from now on, and to no others; `join` connects to nodes that are new here."""
        self._wanted = {node: [word.encode() for word in topics] for node, topics in wanted.items() if topics}
        for node in self._connections.keys() - self._wanted.keys():
            self._leave(node)
        for node, connection in self._connections.items():
            connection.subscribe(self._wanted[node])

    def join(self, found: Found) -> None:
        """Connect to the nodes that are wanted and have been started."""
        missing = self.missing()
        if not missing or not found.registry.get("open"):
            return
        for node in missing:
            process = found.process(node)
            if process is not None and process.lives(found.owner):
                intake = RawIntake(NODES[node].publishes)
                connection = PublisherConnection(endpoint(found.path, node, "pub"), intake, patient=True)
                connection.subscribe(self._wanted[node])
                self._connections[node] = connection
        self._waiter = _waiter(self._connections.values())

    def missing(self) -> list[str]:
        """The wanted nodes without a connection."""
        return [node for node in self._wanted if node not in self._connections]

    def receive(self) -> list[Raw]:
        """The messages that have come, oldest first for each node, at most a bounded batch; never blocks."""
        taken: list[Raw] = []
        for node, connection in list(self._connections.items()):
            for _ in range(DRAINS):
                taken += [Raw(node, topic, payload) for topic, payload in connection.receive()]
                if not connection.readable:
                    break
            if not connection.is_connected():
                self._leave(node)
        return taken

    def wait(self, deadline_ns: int) -> bool:
        """Sleep until the next poll; returns False if the monotonic deadline [ns] comes first."""
        if not self._poll_s:
            return self._waiter.wait(deadline_ns)
        until = min(deadline_ns, time.monotonic_ns() + round(self._poll_s * 1e9))
        time.sleep(max(until - time.monotonic_ns(), 0) * 1e-9)
        return until < deadline_ns

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        for node in list(self._connections):
            self._leave(node)

    def _leave(self, node: str) -> None:
        self._connections.pop(node).close()
        self._waiter = _waiter(self._connections.values())


def _waiter(connections: Iterable[PublisherConnection[Any]]) -> Waiter:
    waiter = Waiter()
    for connection in connections:
        waiter.keep_connected(connection)
    return waiter
