"""Subscriber to an external plant: connects to its publisher, and again whenever that connection ends.

Any process may have bound the address, so what comes is read within bounds of size, number and time.
"""

import errno
import select
import socket
import time

from servonode.bus.interfaces import BOUND, Intake
from servonode.bus.messages import MAX_PAYLOAD, Message
from servonode.bus.wire import Connection, Refused, frame
from servonode.bus.zmq_io import DRAIN_NS, RECONNECT_MAX_MS, RECONNECT_MS, place_of

KIND, PEERS = b"SUB", frozenset((b"PUB", b"XPUB"))
PIECE = 65536  # bytes read at once
FRAMES = 64  # taken between two looks at the clock
REFUSED_NS = 100_000_000  # before another try at a peer that breaks the protocol


class DeviceSubscriber:
    """The messages of the intake's topics from the publisher at an address, ipc or tcp.

    `fd` is readable when something has come.
    """

    def __init__(self, address: str, intake: Intake) -> None:
        self._intake = intake
        self._family, self._place = place_of(address)
        self._subscribes = b"".join(frame(b"\x01" + word) for word in intake.words)
        self._epoll = select.epoll()
        self.fd = self._epoll.fileno()
        self._connecting: socket.socket | None = None  # a socket that is connecting
        self._connection: Connection | None = None
        self._subscribed = self._more = False
        self._retry_ns, self._pause_ns = 0, 0  # when to connect again, and how long the last pause was
        self._connect(time.monotonic_ns())

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """What has come, oldest first, at most `bound` messages and as many as DRAIN_NS allow; never blocks."""
        now = time.monotonic_ns()
        taken: list[tuple[str, Message]] = []
        self._more = False
        if self._connection is None and not self._is_connected(now):
            return taken
        try:
            self._drain(taken, bound, now + DRAIN_NS)
        except Refused as error:
            self._intake.counts[error.reason] += 1
            self._end(REFUSED_NS)
        except OSError:
            self._end(self._next_pause())
        return taken

    def due(self) -> int | None:
        """The monotonic time [ns] at which to call `receive` although `fd` is not readable; None: there is none."""
        if self._more:
            return 0
        return self._retry_ns if self._connection is None and self._connecting is None else None

    def renew(self) -> None:
        """Connect anew, at once."""
        self._end(0)
        self._connect(time.monotonic_ns())

    def close(self) -> None:
        """Close the connection; none is made again."""
        self._end(0)
        self._epoll.close()

    def _drain(self, taken: list[tuple[str, Message]], bound: int, limit: int) -> None:
        """Append to `taken` what has come, up to the bounds."""
        connection = self._connection
        assert connection is not None
        while True:
            for frames in connection.read(FRAMES):
                if len(frames) != 2:
                    self._intake.counts["frames"] += 1
                elif (message := self._intake.take(frames[0], frames[1])) is not None:
                    taken.append(message)
                    if len(taken) >= bound:
                        break
            self._more = connection.has_more()
            if connection.shaken and not self._subscribed:
                self._subscribed, self._pause_ns = True, 0
                connection.send(self._subscribes)
            if len(taken) >= bound or time.monotonic_ns() > limit or (connection.drained and not self._more):
                return

    def _is_connected(self, now: int) -> bool:
        """Whether there is a connection now; starts a new attempt when the pause is over."""
        if self._connecting is None:
            if now < self._retry_ns:
                return False
            self._connect(now)
        elif (problem := self._connecting.connect_ex(self._place)) in (0, errno.EISCONN):
            self._begin(self._connecting, now)
        elif problem not in (errno.EALREADY, errno.EINPROGRESS):
            self._end(self._next_pause())
        return self._connection is not None

    def _connect(self, now: int) -> None:
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
            self._retry_ns = now + self._next_pause()

    def _begin(self, opened: socket.socket, now: int) -> None:
        """Start the protocol on a socket that is connected now."""
        self._connecting, self._subscribed = None, False
        try:
            if self._family != socket.AF_UNIX:
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._epoll.modify(opened, select.EPOLLIN)
        except OSError:  # gone already
            opened.close()
            self._retry_ns = now + self._next_pause()
            return
        self._connection = Connection(opened, KIND, PEERS, MAX_PAYLOAD, PIECE, now)

    def _end(self, pause_ns: int) -> None:
        """Close the connection; the next one is tried after a pause."""
        for opened in (self._connection, self._connecting):
            if opened is not None:
                opened.close()
        self._connection = self._connecting = None
        self._more = False
        self._retry_ns = time.monotonic_ns() + pause_ns

    def _next_pause(self) -> int:
        """How long to wait before the next attempt [ns]: twice the pause before, within bounds."""
        self._pause_ns = min(max(2 * self._pause_ns, RECONNECT_MS * 1_000_000), RECONNECT_MAX_MS * 1_000_000)
        return self._pause_ns
