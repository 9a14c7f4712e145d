"""What all sockets of servonode use: limits, safe binding, bounded reading, exact waiting."""

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import zmq

from servonode.bus.interfaces import HWM
from servonode.bus.messages import MAX_PAYLOAD
from servonode.bus.run_folder import BusError
from servonode.bus.server import Server

RECONNECT_MS = 2  # a peer that starts or restarts is found within milliseconds
RECONNECT_MAX_MS = 20  # and one that stays away costs little
CONNECT_S = 1.0  # s, to learn whether an endpoint is alive
BACKLOG = 512  # connections that wait to be accepted
DRAIN_NS = 500_000  # of one drain: a peer that floods cannot pin the loop
PARTS_AT_ONCE = 64  # frames of one message that are read, and thrown away, in one go

# Plain integers: arithmetic on zmq's enumerations costs more than the send itself.
EVENTS, NOBLOCK = int(zmq.EVENTS), int(zmq.NOBLOCK)
POLLIN, MORE = int(zmq.POLLIN), int(zmq.SNDMORE | zmq.NOBLOCK)

Socket = zmq.Socket[bytes]


def open_socket(context: "zmq.Context[Socket]", kind: zmq.SocketType) -> Socket:
    """A socket with the limits that all of servonode's have."""
    opened = context.socket(kind)
    opened.setsockopt(zmq.LINGER, 0)  # else ending the context waits for peers that never read
    opened.setsockopt(zmq.MAXMSGSIZE, MAX_PAYLOAD)
    opened.setsockopt(zmq.SNDHWM, HWM)
    opened.setsockopt(zmq.RCVHWM, HWM)
    opened.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    opened.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
    return opened


def place_of(address: str) -> tuple[socket.AddressFamily, Any]:
    """Family and place of ipc:///PATH or tcp://HOST:PORT, as `socket` takes them."""
    if address.startswith("ipc://"):
        return socket.AF_UNIX, address.removeprefix("ipc://")
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    return family, (host.strip("[]").replace("localhost", "127.0.0.1"), int(port))


def listen(address: str) -> tuple[socket.socket, Path | None]:
    """A socket that listens at an address, and its path if it has one. BusError where that fails."""
    family, place = place_of(address)
    path = Path(place) if family == socket.AF_UNIX else None
    if path is not None:
        clear_path(address, path)
    opened = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        if path is None:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a run before may linger
        opened.bind(place)
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        remedy = "; does its folder exist?" if path else ""
        raise BusError(f"{address} cannot be bound ({error.strerror}){remedy}") from None
    return opened, path


def clear_path(address: str, path: Path) -> None:
    """Remove what a killed process left at the path; BusError if another process listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_S)
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            pass
        except OSError as error:
            raise BusError(f"{address} cannot be used ({error}); remove that file") from None
        else:
            raise BusError(f"{address} is served already, by another node of this name; stop it or rename this one")
    path.unlink(missing_ok=True)


class Reader:
    """Reads one socket without blocking, and remembers what is known of it.

    Asking for EVENTS costs as much as a receive, so it is asked only when the answer may have changed. Once
    they say that nothing waits, the next arrival makes the file descriptor `fd` readable.
    """

    def __init__(self, opened: Socket) -> None:
        self._socket = opened
        self.fd = int(opened.get(zmq.FD))
        self.readable: bool | None = None  # as of the last look; None: something was done since
        self._endless = False  # in the middle of a message of too many frames

    def disturbed(self) -> None:
        """Note that the socket was used otherwise: a send may consume the signal of an arrival."""
        self.readable = None

    def look(self) -> bool:
        """Whether a message waits."""
        self.readable = bool(int(self._socket.get(EVENTS)) & POLLIN)
        return self.readable

    def read(self) -> list[bytes] | None:
        """The frames of the message that waits, at most four of them kept, or None."""
        if not (self.readable or self.look()):
            return None
        self.readable = None
        if self._endless and not self._skip():
            return None
        recv = self._socket.recv
        try:
            # copy=False, because the frame knows whether more follow, where the socket must be asked
            frame = recv(NOBLOCK, copy=False)
            frames = [frame.bytes]
            while frame.more:
                frame = recv(NOBLOCK, copy=False)
                frames.append(frame.bytes)
                if len(frames) == 4 and frame.more:
                    self._endless = True
                    self._skip()
                    break
        except zmq.Again:  # its sender went away meanwhile
            return None
        return frames

    def _skip(self) -> bool:
        """Throw away some of what is left of a message of too many frames; whether it is over."""
        recv = self._socket.recv
        with contextlib.suppress(zmq.Again):
            for _ in range(PARTS_AT_ONCE):
                if not recv(NOBLOCK, copy=False).more:
                    self._endless = False
                    break
        return not self._endless


class Waiter:
    """Sleeps until one of several sockets is readable, and serves the listening ones meanwhile.

    A ZeroMQ socket's file descriptor only tells, once, that something about it changed, hence the looks before each
    sleep; a wake-up may be for nothing. `select` sleeps to the microsecond where zmq's own poll rounds to milliseconds.
    """

    def __init__(self, *readers: Reader) -> None:
        self._readers = {reader.fd: reader for reader in readers}
        self._servers: dict[int, Server] = {}
        self._waits: Callable[[], bool] = lambda: False

    def add(self, reader: Reader) -> None:
        """Watch this socket too."""
        self._readers[reader.fd] = reader

    def serve(self, server: Server, waits: Callable[[], bool] | None = None) -> None:
        """Serve this server while waiting; a wait ends as soon as `waits()` is true."""
        self._servers[server.fd] = server
        if waits is not None:
            self._waits = waits

    def look(self, now: int) -> None:
        """Serve the servers, except those that have used their share of the time."""
        for server in self._servers.values():
            if now >= server.due_ns:
                server.look(now)

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:
        """Whether a socket or one of `fds` is signalled before the monotonic deadline [ns]; None: no deadline.

        What is readable already returns at once, so drain all sockets between two waits.
        """
        readers = self._readers
        for reader in readers.values():
            if reader.readable or (reader.readable is None and reader.look()):
                return True
        if self._waits():
            return True
        watched = [*readers, *fds]
        while True:
            signalled = self._sleep(deadline_ns, watched)
            for fd in signalled:
                if fd in readers:  # most likely a message; if not, the read finds none, and a look here is saved
                    readers[fd].readable = True
            if signalled or self._waits():
                return True
            if deadline_ns is not None and time.monotonic_ns() >= deadline_ns:
                return False

    def wait_served(self, deadline_ns: int, fds: Iterable[int] = ()) -> None:
        """Sleep to the deadline, a request or one of `fds`, whatever else arrives.

        The sockets are read meanwhile: libzmq subscribes at a restarted publisher only when this thread uses the
        socket, and the publisher waits for it.
        """
        readers = self._readers
        watched = [*readers, *fds]
        while not self._waits():
            signalled = self._sleep(deadline_ns, watched)
            for fd in [fd for fd in signalled if fd in readers]:
                signalled.remove(fd)
                readers[fd].look()
            if signalled or time.monotonic_ns() >= deadline_ns:
                return

    def _sleep(self, deadline_ns: int | None, watched: list[int]) -> list[int]:
        """Which of the descriptors are signalled, after one sleep to the deadline at most; servers are looked at."""
        now, until = time.monotonic_ns(), deadline_ns
        servers = self._servers
        watched = watched.copy()
        for fd, server in servers.items():
            at = server.due_ns
            if now >= at:  # else it has used its share of the time
                watched.append(fd)
                at = server.wake_ns
            if at and (until is None or at < until):
                until = at
        timeout = None if until is None else max((until - now) * 1e-9, 0.0)
        signalled = select.select(watched, (), (), timeout)[0]
        for fd, server in servers.items():
            if fd in signalled:
                signalled.remove(fd)
                server.look(time.monotonic_ns())
            elif server.wake_ns and server.wake_ns <= now:
                self.look(now)
        return signalled
