"""A publisher of libzmq, for readers outside the run's folder; it knows which topics are subscribed to.

And a bound on the connections to a tcp address: libzmq has none. Without it, connections would take the descriptors
that the process needs for its operator. To unbind would be no remedy: libzmq then ends the connections too that it has
accepted.
"""

import ctypes
import os
import resource
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Collection
from contextlib import suppress

import zmq

from servonode.bus.run_folder import BusError
from servonode.bus.zmq_io import HANDSHAKE_MS, MORE, NOBLOCK, Reader, Socket, prepare

LARGEST = 4096  # bytes of a frame that a subscriber may send: subscriptions, and the handshake with keys
LAST_MS = 500  # for which what was sent last may still go out
AT_ONCE = 32  # subscriptions that are taken in one look
CONNECTIONS = 128  # at once
BACKLOG = 64  # connections that wait to be accepted
PAUSE_NS = 1_500_000 * HANDSHAKE_MS  # in which libzmq closes connections without handshake
NONE_FREE = 2**31
# Linux: a filter of one instruction (return 0), which drops all that comes to the listening socket alone
ATTACH_FILTER, DETACH_FILTER = 26, 27
DROP_ALL = struct.pack("HBBI", 6, 0, 0, 0)


class ConnectionLimit:
    """Binds a socket of libzmq to a listening one, which takes no connection while there are too many.

    Who is connected already stays, and who is kept out is let in once others have left. On other systems than Linux,
    and where a system refuses the filter, nobody is kept out.
    """

    def __init__(self, opened: Socket, listening: socket.socket, counts: Counter[str]) -> None:
        """listening: is closed with this; counts: where `connections` is counted, once each time that it closes."""
        self._listening, self._counts = listening, counts
        self._is_shut = False
        self._next_ns = 0  # before that it does not change
        host, port = listening.getsockname()[:2]
        address = f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
        prepare(opened, address)
        opened.setsockopt(zmq.USE_FD, os.dup(listening.fileno()))
        opened.bind(address)
        free, limit = _lowest_free(), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        # the number of a descriptor that only too many connections can have
        self._most = free + (CONNECTIONS if limit < 0 else min(CONNECTIONS, (limit - free) // 2))

    def look(self) -> None:
        """Keep others out where too many are connected, for PAUSE_NS at least; let them in where there is room."""
        now = time.monotonic_ns()
        if now < self._next_ns:
            return
        full = _lowest_free() >= self._most
        if full:
            self._next_ns = now + PAUSE_NS
        if full != self._is_shut:
            self._is_shut = full
            self._counts["connections"] += full
            _shut(self._listening, full)

    def close(self) -> None:
        """Close the listening socket; libzmq's own copy is closed with its socket. A second call does nothing."""
        self._listening.close()


def listen(address: str) -> socket.socket:
    """A socket that listens at a tcp address, whose host is a number. BusError where that fails."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    far = "[" in host
    try:
        return socket.create_server(
            (host.strip("[]"), int(port)), family=socket.AF_INET6 if far else socket.AF_INET, backlog=BACKLOG,
            dualstack_ipv6=far and socket.has_dualstack_ipv6(),
        )  # fmt: skip
    except OSError as error:
        raise BusError(f"{address} cannot be bound ({os.strerror(error.errno or 0)})") from None


def _shut(listening: socket.socket, shut: bool) -> None:
    """Have the system drop all that asks for a connection, or no longer."""
    if sys.platform != "linux":
        return
    code = ctypes.create_string_buffer(DROP_ALL)
    number, value = (ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(code))) if shut else (DETACH_FILTER, bytes(4))
    with suppress(OSError):  # as in a container whose system has no filters
        listening.setsockopt(socket.SOL_SOCKET, number, value)


def _lowest_free() -> int:
    """The lowest number of a descriptor that is free: at least so many are taken."""
    try:
        free = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return NONE_FREE
    os.close(free)
    return free


class ZmqPublisher:
    """Publishes these topics at a bound XPUB socket, which it closes.

    A subscription that is not the beginning of one of the topics is not kept here. libzmq tells the first subscription
    to each and the end of the last; a subscriber that ends what it never began hides others from this account, but
    takes no message from them.
    """

    def __init__(self, opened: Socket, topics: Collection[str], limit: ConnectionLimit | None = None) -> None:
        """limit: of its connections, which is looked at here and closed with it."""
        self._socket, self._reader, self._limit = opened, Reader(opened), limit
        self._topics = [topic.encode() for topic in topics]
        self._held: set[bytes] = set()  # what is subscribed to: beginnings of topics

    def publish(self, word: bytes, payload: bytes) -> None:
        """Send to all that are subscribed; never blocks. Who does not read loses it."""
        self._socket.send(word, MORE)
        self._socket.send(payload, NOBLOCK)
        self._reader.disturbed()

    def look(self) -> None:
        """Take some of the subscriptions that have come."""
        if self._limit is not None:
            self._limit.look()
        for _ in range(AT_ONCE):
            said = self._reader.read()
            if said is None:
                return
            kind, word = said[0][:1], said[0][1:]
            if kind == b"\x00":
                self._held.discard(word)
            elif kind == b"\x01" and any(topic.startswith(word) for topic in self._topics):
                self._held.add(word)

    def is_subscribed(self) -> bool:
        """Whether there is any subscription."""
        self.look()
        return bool(self._held)

    def has_subscriber(self, topic: str) -> bool:
        """Whether there was a subscription to this topic, or to its beginning, at the last look."""
        return any(topic.encode().startswith(word) for word in self._held)

    def close(self) -> None:
        """Close the socket; what was sent last still goes out, as far as it is read. A second call does nothing."""
        self._socket.close(linger=LAST_MS)
        if self._limit is not None:
            self._limit.close()
