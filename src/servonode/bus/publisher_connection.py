"""The connection to a publisher, read in this thread, and made again whenever it ends.

Any process may have bound the address, so what comes is read within bounds of size, number and time.
"""

import errno
import select
import socket
import time
from collections.abc import Collection
from typing import Generic, TypeVar

from servonode.bus.interfaces import BOUND, HWM, IntakeFace
from servonode.bus.messages import MAX_PAYLOAD
from servonode.bus.wire import Connection, Refused, frame
from servonode.bus.zmq_io import DRAIN_NS, RECONNECT_MAX_MS, RECONNECT_MS, place_of

KIND, PEERS = b"SUB", frozenset((b"PUB", b"XPUB"))
PIECE = 65536  # bytes read at once
FRAMES = 64  # taken between two looks at the clock
REFUSED_NS = 100_000_000  # pause before another try at a peer that breaks the protocol
T = TypeVar("T")


class PublisherConnection(Generic[T]):
    """Receives the topics of its intake from the publisher at an address, ipc or tcp; connects again by itself.

    patient: whether it is read only now and then; the publisher then lets some thousand messages wait, not hundreds.
    `fd` is readable when something has come. Whoever sleeps on it may note in `readable` what it found: then a
    `receive` with nothing to read costs nothing.
    """

    def __init__(self, address: str, intake: IntakeFace[T], patient: bool = False) -> None:
        self._intake, self._patient = intake, patient
        self._family, self._place = place_of(address)
        self._wanted = frozenset(intake.words)  # topics
        self._epoll = select.epoll()
        self.fd = self._epoll.fileno()
        self._connecting: socket.socket | None = None  # a socket that is connecting
        self._connection: Connection | None = None
        self._subscribed = self._more = False
        self.readable: bool | None = None  # whether something waits; None: not known since the last read
        self.wake_ns = 0  # monotonic time at which to connect again, though nothing becomes readable; 0: none
        self._pause_ns = 0  # the pause before the last attempt to connect
        self._early: list[tuple[str, T]] = []  # what a `look` has received
        self._connect(time.monotonic_ns())

    def receive(self, bound: int = BOUND) -> list[tuple[str, T]]:
        """The messages that have come, oldest first, at most `bound` and as many as DRAIN_NS allow; never blocks."""
        taken: list[tuple[str, T]] = []
        self.receive_into(taken, bound)
        return taken

    def receive_into(self, taken: list[tuple[str, T]], bound: int) -> None:
        """As `receive`, but append to `taken`; what is in it already counts towards the bound."""
        if self._early:
            room = bound - len(taken)
            taken += self._early[:room]
            del self._early[:room]
        if len(taken) < bound:
            self._read(taken, bound)
        self.readable = self._more or bool(self._early) or None

    def subscribe(self, topics: Collection[bytes]) -> None:
        """Subscribe to these topics from now on, and to no others."""
        wanted, before = frozenset(topics), self._wanted
        self._wanted = wanted
        if self._connection is None or not self._subscribed or wanted == before:
            return
        words = [*(b"\x01" + word for word in wanted - before), *(b"\x00" + word for word in before - wanted)]
        try:
            self._connection.send(b"".join(map(frame, words)))
        except OSError:
            self._end(self._next_pause())

    def look(self) -> None:
        """Connect, shake hands, subscribe; messages that come meanwhile are kept for `receive`."""
        self._read(self._early, HWM)
        self.readable = self._more or bool(self._early) or None

    def has_room(self) -> bool:
        """Whether a `look` has room to keep more messages."""
        return len(self._early) < HWM

    def _read(self, taken: list[tuple[str, T]], bound: int) -> None:
        """Append to `taken` what has come, until it has `bound` messages and for DRAIN_NS."""
        now = time.monotonic_ns()
        connection, take = self._connection, self._intake.take
        self._more = False
        if connection is None:
            connection = self._connected(now)
            if connection is None:
                return
        try:
            while True:
                for frames in connection.read(FRAMES):
                    if len(frames) != 2:
                        self._intake.counts["frames"] += 1
                    elif (message := take(frames[0], frames[1])) is not None:
                        taken.append(message)
                        if len(taken) >= bound:
                            break
                self._more = not connection.exhausted and connection.has_more()
                if not self._subscribed and connection.shaken:
                    self._subscribed, self._pause_ns = True, 0
                    connection.send(b"".join(frame(b"\x01" + word) for word in self._wanted))
                if connection.drained and not self._more:
                    return
                if len(taken) >= bound or time.monotonic_ns() > now + DRAIN_NS:
                    return
        except Refused as error:
            self._intake.counts[error.reason] += 1
            self._end(REFUSED_NS)
        except OSError:
            self._end(self._next_pause())

    def is_connected(self) -> bool:
        """Whether a connection exists or is being made; after one has ended, the next read makes a new one."""
        return self._connection is not None or self._connecting is not None

    def due(self) -> int | None:
        """The monotonic time [ns] at which to look though nothing becomes readable, if any."""
        return 0 if self._more else self.wake_ns or None

    def renew(self) -> None:
        """Connect again, at once."""
        self._end(0)
        self._connect(time.monotonic_ns())

    def close(self) -> None:
        """Close the connection for good."""
        self._end(0)
        self._epoll.close()

    def _connected(self, now: int) -> Connection | None:
        """The connection, if it is made by now; where it is time for a new attempt, one begins."""
        if self._connecting is None:
            if now < self.wake_ns:
                return None
            self._connect(now)
        elif (problem := self._connecting.connect_ex(self._place)) in (0, errno.EISCONN):
            self._begin(self._connecting, now)
        elif problem not in (errno.EALREADY, errno.EINPROGRESS):
            self._end(self._next_pause())
        return self._connection

    def _connect(self, now: int) -> None:
        self.wake_ns = 0
        connecting = socket.socket(self._family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        problem = connecting.connect_ex(self._place)
        if problem == 0:
            self._epoll.register(connecting, select.EPOLLIN)
            self._begin(connecting, now)
        elif problem == errno.EINPROGRESS:
            self._connecting = connecting
            self._epoll.register(connecting, select.EPOLLOUT)
        else:
            connecting.close()
            self.wake_ns = now + self._next_pause()

    def _begin(self, opened: socket.socket, now: int) -> None:
        """Start the protocol on a socket that is connected now."""
        self._connecting, self._subscribed = None, False
        try:
            if self._family != socket.AF_UNIX:
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._epoll.modify(opened, select.EPOLLIN)
        except OSError:  # gone already
            opened.close()
            self.wake_ns = now + self._next_pause()
            return
        self._connection = Connection(opened, KIND, PEERS, MAX_PAYLOAD, PIECE, now, self._patient)

    def _end(self, pause_ns: int) -> None:
        """Close the connection; the next one is tried after a pause."""
        for opened in (self._connection, self._connecting):
            if opened is not None:
                opened.close()
        self._connection = self._connecting = None
        self._more = False
        self.wake_ns = time.monotonic_ns() + pause_ns

    def _next_pause(self) -> int:
        """The wait before the next attempt [ns]: twice the last one, within bounds."""
        self._pause_ns = min(max(2 * self._pause_ns, RECONNECT_MS * 1_000_000), RECONNECT_MAX_MS * 1_000_000)
        return self._pause_ns
