"""Server at one address: accepts, reads and closes connections within bounds of number, bytes and time.

All work is done in `look`, in the node's own thread: it stops after BUDGET_NS, and the next call waits REST times
as long as this one took, so that unknown processes never get more than a fifth of that thread.
"""

import select
import socket
import struct
import time
from collections.abc import Callable

from servonode.bus.descriptors import share
from servonode.bus.wire import Connection, Refused

BUDGET_NS = 100_000  # of one call of `look`; a connection that it has begun to serve is finished
REST = 4  # how long `look` pauses, in times of what the last call took
AT_ONCE, ACCEPTED = 8, 64  # connections that are served, and that are accepted, in one call
TALK, TALK_NS = 256, 20_000_000  # frames that a peer may send at first, and the time that allows one more
HANDSHAKE_NS = 1_000_000_000  # a connection without handshake by then is closed
USED_NS = 20_000_000  # a connection used within this time is not closed to make room: refusing is faster than accepting
PIECE = 256  # bytes read from a connection in one call, or what is missing of a frame: some 100 frames at most
FULL_NS = 100_000_000  # how long no connection is accepted after the descriptors ran out
UNREAD = 1 << 20  # bytes that wait in the system for a peer that reads now and then, where it allows so much

_IN, _OUT, _END = select.EPOLLIN, select.EPOLLOUT, select.EPOLLHUP | select.EPOLLERR
_UCRED = struct.Struct("3i")


class Server:
    """Serves peers of the kinds `peers`; calls `receive` with each message, `ended` when a connection ends.

    kind: of our end; largest: bytes of a frame that a peer may send; most: connections at once, of which one process
    may hold a quarter.
    """

    def __init__(
        self,
        listening: socket.socket,
        kind: bytes,
        peers: frozenset[bytes],
        largest: int,
        most: int,
        receive: Callable[[Connection, list[bytes]], None],
        ended: Callable[[Connection], None],
    ) -> None:
        self.due_ns = 0  # the time from which `look` may be called
        self.wake_ns = 0  # the time at which `look` is to be called although `fd` is not readable; 0: never
        self._listening, self._listening_fd = listening, listening.fileno()
        self._kind, self._peers, self._largest = kind, peers, largest
        self._most = share(most)
        self._receive, self._ended = receive, ended
        self._connections: dict[int, Connection] = {}
        self._fresh: dict[int, Connection] = {}  # without handshake yet, oldest first
        self._full_ns = 0  # the time until which no connection is accepted; 0: all are
        self._epoll = select.epoll()
        self._epoll.register(self._listening_fd, _IN)
        self.fd = self._epoll.fileno()  # readable when there is something to do

    def look(self, now: int) -> None:
        """Accept, read, end; for about BUDGET_NS at most."""
        if self._fresh:
            self._end_silent(now)
        if self._full_ns and now > self._full_ns:
            self._full_ns = 0
            self._epoll.modify(self._listening_fd, _IN)
        clock, served = now, 0
        # one by one: epoll then puts each behind the others, so that the next call begins with the next one
        while served < AT_ONCE and clock - now < BUDGET_NS and (ready := self._epoll.poll(0, 1)):
            fd, event = ready[0]
            if fd == self._listening_fd:
                self._accept(now)
            elif (connection := self._connections.get(fd)) is not None:
                self._serve(connection, event, now)
            clock = time.monotonic_ns()
            served += 1
        self.due_ns = clock + REST * (clock - now)
        oldest = next(iter(self._fresh.values()), None)
        self.wake_ns = self._full_ns or (oldest.since + HANDSHAKE_NS if oldest is not None else 0)

    def pause(self, connection: Connection, *, paused: bool = True) -> None:
        """Stop reading a connection, or read it again."""
        connection.paused = paused
        self._watch(connection)

    def send(self, connection: Connection, data: bytes) -> None:
        """Send whole frames to a connection, or nothing of them where the peer does not read or has disconnected."""
        try:
            connection.send(data)
        except OSError:
            self.end(connection)
        else:
            if connection.rest:
                self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        """Have epoll signal what this connection waits for."""
        if self._connections.get(connection.fd) is connection:
            self._epoll.modify(connection.fd, (0 if connection.paused else _IN) | (_OUT if connection.rest else 0))

    def end(self, connection: Connection) -> None:
        """Close a connection; a second call does nothing."""
        if self._connections.get(connection.fd) is connection:
            del self._connections[connection.fd]
            self._fresh.pop(connection.fd, None)
            connection.close()  # epoll forgets it by itself
            self._ended(connection)

    def close(self) -> None:
        """Stop listening; sent data still arrives, as far as peers read it. A second call does nothing."""
        self._listening.close()
        for connection in self._connections.values():
            connection.close_after_sending()
        self._connections.clear()
        self._epoll.close()

    def forget(self) -> None:
        """In a forked child: close its copies of the descriptors; the parent's connections continue."""
        self._listening.close()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _accept(self, now: int) -> None:
        """Accept a few of the connections that wait."""
        for _ in range(ACCEPTED):
            try:
                opened, _address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptor is free, or the peer has gone already
                self._full_ns = now + FULL_NS
                self._epoll.modify(self._listening_fd, 0)
                return
            self._add(opened, now)
            if time.monotonic_ns() - now > BUDGET_NS:
                return

    def _add(self, opened: socket.socket, now: int) -> None:
        pid = self._process(opened)
        if not self._has_room(pid, now):
            opened.close()
            return
        connection = Connection(opened, self._kind, self._peers, self._largest, PIECE, now)
        connection.pid = pid
        self._connections[connection.fd] = self._fresh[connection.fd] = connection
        self._epoll.register(connection.fd, _IN)
        self._serve(connection, _IN, now)  # a request may have come with the greeting

    def _process(self, opened: socket.socket) -> int:
        """The process at the other end of a Unix socket; 0: not known."""
        if opened.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return 0
        return int(_UCRED.unpack(opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[0])

    def _has_room(self, pid: int, now: int) -> bool:
        """Whether one more connection fits; an idle one is closed to make room for it."""
        held = self._connections.values()
        if pid and (own := [each for each in held if each.pid == pid]) and len(own) >= max(self._most // 4, 2):
            return self._end_least(own, now)
        return len(held) < self._most or self._end_least(list(held), now)

    def _end_least(self, held: list[Connection], now: int) -> bool:
        """Close the connection that has been idle for the longest; False: every one is in use."""
        for connection in sorted(held, key=lambda each: each.used):
            if now - connection.used < USED_NS:
                break
            if not connection.wanted and not connection.has_unread():
                self.end(connection)
                return True
        return False

    def _end_silent(self, now: int) -> None:
        """Close the connections whose handshake did not come in time."""
        for connection in list(self._fresh.values()):
            if now - connection.since < HANDSHAKE_NS:
                break
            self.end(connection)

    def _serve(self, connection: Connection, event: int, now: int) -> None:
        """Send what is left to send, and read one piece of what has come."""
        try:
            if event & _OUT and connection.flush():
                self._watch(connection)
            if event & _IN:
                for frames in connection.read(PIECE):
                    connection.used = now
                    self._receive(connection, frames)
                if connection.spoken > TALK + (now - connection.since) // TALK_NS:
                    raise Refused("limits")
            elif event & _END:
                raise ConnectionResetError("closed by the peer")
        except OSError:
            self.end(connection)
        else:
            if connection.shaken and connection.fd in self._fresh:
                del self._fresh[connection.fd]
                if connection.patient:
                    connection.keep_unread(UNREAD)
