"""Exact waiting: the only sleep of a node, in which it waits for all its sockets."""

import select
import time
from collections.abc import Iterable

from servonode.bus.ipc.connection import PublisherConnection
from servonode.bus.ipc.publisher import Publisher
from servonode.bus.zmq_io import Reader


class Waiter:
    """Sleeps until one of several sockets is readable, and serves the publisher's subscribers meanwhile.

    A ZeroMQ socket's file descriptor only tells, once, that something about it changed, hence the looks before each
    sleep; a wake-up may be for nothing. `select` sleeps to the microsecond where zmq's own poll rounds to milliseconds.
    """

    def __init__(self) -> None:
        self._readers: dict[int, Reader] = {}
        self._connections: list[PublisherConnection] = []
        self._publisher: Publisher | None = None

    def add(self, reader: Reader) -> None:
        """Watch this socket of libzmq too."""
        self._readers[reader.fd] = reader

    def keep_connected(self, connection: PublisherConnection) -> None:
        """Watch the connection to a publisher, and make it again where it has ended."""
        self._connections.append(connection)

    def serve(self, publisher: Publisher) -> None:
        """Look at this publisher's subscribers when something comes from them."""
        self._publisher = publisher

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
        while True:
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
                return False

    def wait_for_request(self, deadline_ns: int, fds: Iterable[int] = ()) -> None:
        """Sleep until the deadline, a message to a socket of libzmq, or one of `fds`; other nodes' messages are kept.

        Their connections are looked at: a subscriber renews its subscription to a restarted publisher only in its own
        thread, and until then the publisher waits for it.
        """
        connections = {connection.fd: connection for connection in self._connections}
        while not any(reader.readable or reader.look() for reader in self._readers.values()):
            watched = [fd for fd, connection in connections.items() if connection.has_room()]
            signalled = self._sleep(deadline_ns, [*self._readers, *watched, *fds])
            for fd in signalled:
                if fd in connections:
                    connections[fd].look()
                elif fd not in self._readers:
                    return
            if time.monotonic_ns() >= deadline_ns:
                return

    def _sleep(self, deadline_ns: int | None, watched: list[int]) -> list[int]:
        """Which of the descriptors are signalled, after one sleep to the deadline at most."""
        now, until, publisher = time.monotonic_ns(), deadline_ns, self._publisher
        for connection in self._connections:
            if (at := connection.wake_ns) and now >= at:
                connection.look()
                at = connection.wake_ns
            if at and (until is None or at < until):
                until = at
        timeout = None if until is None else max((until - now) * 1e-9, 0.0)
        if publisher is None:
            return select.select(watched, (), (), timeout)[0]
        signalled = select.select([*watched, publisher.fd], (), (), timeout)[0]
        if publisher.fd in signalled:
            signalled.remove(publisher.fd)
            publisher.look()
        return signalled
