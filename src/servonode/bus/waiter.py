"""Exact waiting: the only sleep of a node, in which it waits for all its sockets."""

import select
import time
from collections.abc import Callable, Iterable
from typing import Any

from servonode.bus.publisher_connection import PublisherConnection
from servonode.bus.server import Server
from servonode.bus.zmq_io import Reader


class Waiter:
    """Sleeps until one of several sockets is readable, and serves what listens meanwhile.

    A ZeroMQ socket's file descriptor only tells, once, that something about it changed, hence the looks before each
    sleep; a wake-up may be for nothing. `select` sleeps to the microsecond where zmq's own poll rounds to milliseconds.
    """

    def __init__(self, *readers: Reader) -> None:
        self._readers = {reader.fd: reader for reader in readers}
        self._connections: list[PublisherConnection[Any]] = []
        self._servers: dict[int, Server] = {}
        self._waits: Callable[[], bool] = lambda: False

    def add(self, reader: Reader) -> None:
        """Watch this socket too."""
        self._readers[reader.fd] = reader

    def keep_connected(self, connection: PublisherConnection[Any]) -> None:
        """Watch the connection to a publisher, and make it again where it has ended."""
        self._connections.append(connection)

    def serve(self, server: Server, waits: Callable[[], bool] | None = None) -> None:
        """Look at this server when something comes; a wait ends where `waits` is true after that."""
        self._servers[server.fd] = server
        if waits is not None:
            self._waits = waits

    def look(self, now: int) -> None:
        """Look at the servers, as far as they have not had their share of the time."""
        for server in self._servers.values():
            if now >= server.due_ns:
                server.look(now)

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:
        """Whether a socket or one of `fds` is signalled before the monotonic deadline [ns]; None: no deadline.

        What is readable already returns at once, so drain all sockets between two waits.
        """
        readers, connections = self._readers, self._connections
        for reader in readers.values():
            if reader.readable or (reader.readable is None and reader.look()):
                return True
        watched = [*readers, *fds]
        for connection in connections:
            watched.append(connection.fd)
            if connection.readable:
                deadline_ns = 0  # it has more, and the sleep only looks for other arrivals
        while not self._waits():
            signalled = self._sleep(deadline_ns, watched)
            came = bool(signalled)
            for fd in signalled:
                if fd in readers:  # most likely a message; if not, the read finds none, and a look here is saved
                    readers[fd].readable = True
            for connection in connections:
                if connection.readable:
                    came = True
                else:
                    connection.readable = connection.fd in signalled
            if came:
                return True
            if deadline_ns is not None and time.monotonic_ns() >= deadline_ns:
                return self._waits()
        return True

    def wait_served(self, deadline_ns: int, fds: Iterable[int] = ()) -> None:
        """Sleep until the deadline, a request or one of `fds`; messages do not end the sleep.

        The sockets are looked at: a subscriber renews its subscription to a restarted publisher only in its own thread,
        and until then the publisher waits for it.
        """
        readers: dict[int, Reader | PublisherConnection[Any]] = {
            **self._readers,
            **{connection.fd: connection for connection in self._connections},
        }
        while not self._waits():
            watched = [fd for fd, reader in readers.items() if reader.has_room()]
            signalled = self._sleep(deadline_ns, [*watched, *fds])
            for fd in [fd for fd in signalled if fd in readers]:
                signalled.remove(fd)
                readers[fd].look()
            if signalled or time.monotonic_ns() >= deadline_ns:
                return

    def _sleep(self, deadline_ns: int | None, watched: list[int]) -> list[int]:
        """Which of the descriptors are signalled, after one sleep to the deadline at most; servers are looked at."""
        now, until = time.monotonic_ns(), deadline_ns
        servers = self._servers
        seen = watched.copy()
        for fd, server in servers.items():
            at = server.due_ns
            if now >= at:  # else it has used up its share of the time
                seen.append(fd)
                at = server.wake_ns
            if at and (until is None or at < until):
                until = at
        for connection in self._connections:
            if (at := connection.wake_ns) and now >= at:
                connection.look()
                at = connection.wake_ns
            if at and (until is None or at < until):
                until = at
        timeout = None if until is None else max((until - now) * 1e-9, 0.0)
        signalled = select.select(seen, (), (), timeout)[0]
        for fd, server in servers.items():
            if fd in signalled:
                signalled.remove(fd)
                server.look(time.monotonic_ns())
            elif server.wake_ns and server.wake_ns <= now:
                self.look(now)
        return signalled
