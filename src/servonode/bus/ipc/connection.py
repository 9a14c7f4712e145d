"""The connection to a node's publisher, read in this thread, and made again whenever it ends."""

import select
import socket
import time
from typing import Any

from servonode.bus.codec import HWM, Intake
from servonode.bus.ipc.wire import Connection, Refused, frame
from servonode.bus.messages import MAX_PAYLOAD, Message
from servonode.bus.zmq_io import DRAIN_NS, RECONNECT_MAX_MS, RECONNECT_MS

KIND, PEERS = b"SUB", frozenset((b"PUB", b"XPUB"))
PIECE = 65536  # bytes read at once
FRAMES = 64  # taken between two looks at the clock
REFUSED_NS = 100_000_000  # pause before another try at a peer that breaks the protocol


class PublisherConnection:
    """Receives the topics of its intake from the publisher at an ipc address; connects again by itself.

    `fd` is readable when something has come. Whoever sleeps on it may note in `readable` what it found: then a
    `receive_into` with nothing to read costs nothing.
    """

    def __init__(self, address: str, intake: Intake[Any]) -> None:
        self._intake, self._path = intake, address.removeprefix("ipc://")
        self._subscriptions = b"".join(frame(b"\x01" + word) for word in intake.words)
        self._epoll = select.epoll()
        self.fd = self._epoll.fileno()
        self._connection: Connection | None = None
        self._subscribed = self._more = False
        self.readable: bool | None = None  # whether something waits; None: not known since the last read
        self.wake_ns = 0  # monotonic time at which to connect again, though nothing becomes readable; 0: none
        self._pause_ns = 0  # the pause before the last attempt to connect
        self._early: list[tuple[str, Message]] = []  # what a `look` has received
        self._connect(time.monotonic_ns())

    def receive_into(self, taken: list[tuple[str, Message]], bound: int) -> None:
        """Append what has come, oldest first, until `taken` has `bound` messages, or for DRAIN_NS; never blocks."""
        if self._early:
            room = bound - len(taken)
            taken += self._early[:room]
            del self._early[:room]
        if len(taken) < bound:
            self._read(taken, bound)
        self.readable = self._more or bool(self._early) or None

    def look(self) -> None:
        """Connect, shake hands, subscribe; messages that come meanwhile are kept for `receive_into`."""
        self._read(self._early, HWM)
        self.readable = self._more or bool(self._early) or None

    def has_room(self) -> bool:
        """Whether a `look` has room to keep more messages."""
        return len(self._early) < HWM

    def close(self) -> None:
        """Close the connection for good."""
        self._end(0)
        self._epoll.close()

    def _read(self, taken: list[tuple[str, Message]], bound: int) -> None:
        """Append to `taken` what has come, until it has `bound` messages and for DRAIN_NS."""
        now = time.monotonic_ns()
        self._more = False
        if self._connection is None and now >= self.wake_ns:
            self._connect(now)
        connection, take = self._connection, self._intake.take
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
                if not self._subscribed and connection.handshake_done:
                    self._subscribed, self._pause_ns = True, 0
                    connection.send(self._subscriptions)
                if connection.drained and not self._more:
                    return
                if len(taken) >= bound or time.monotonic_ns() > now + DRAIN_NS:
                    return
        except Refused as error:
            self._intake.counts[error.reason] += 1
            self._end(REFUSED_NS)
        except OSError:
            self._end(self._next_pause())

    def _connect(self, now: int) -> None:
        self.wake_ns = 0
        opened = _connected(self._path)
        if opened is None:
            self.wake_ns = now + self._next_pause()
            return
        self._epoll.register(opened, select.EPOLLIN)
        self._connection, self._subscribed = Connection(opened, KIND, PEERS, MAX_PAYLOAD, PIECE), False

    def _end(self, pause_ns: int) -> None:
        """Close the connection; the next one is tried after a pause."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._more = None, False
        self.wake_ns = time.monotonic_ns() + pause_ns

    def _next_pause(self) -> int:
        """The wait before the next attempt [ns]: twice the last one, within bounds."""
        self._pause_ns = min(max(2 * self._pause_ns, RECONNECT_MS * 1_000_000), RECONNECT_MAX_MS * 1_000_000)
        return self._pause_ns


def _connected(path: str) -> socket.socket | None:
    """A socket that is connected to a path; None: nobody listens there, too many wait, or no descriptor is free."""
    try:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    except OSError:
        return None
    if opened.connect_ex(path):
        opened.close()
        return None
    return opened
