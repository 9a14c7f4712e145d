"""Requests (arm, stop, parameters): each node serves them at its request socket, a client asks with a Requester.

Frames: tag, map. The reply carries the tag of its request, so that a late reply is never taken for that of the next
request. The tag also holds the time after which the client no longer waits: a node that was stalled does not carry out
what its client was told had failed.
"""

import itertools
import select
import socket
import struct
import time
from collections import Counter, deque
from pathlib import Path
from types import TracebackType
from typing import Any

from servonode.bus.codec import MessageError
from servonode.bus.interfaces import Identity
from servonode.bus.messages import MAX_PAYLOAD
from servonode.bus.request_codec import decode_map, encode_map
from servonode.bus.run_folder import endpoint
from servonode.bus.server import Server
from servonode.bus.waiter import Waiter
from servonode.bus.wire import MORE, Connection, frame
from servonode.bus.zmq_io import RECONNECT_MS, place_of

TAG = struct.Struct("<QQ")  # number of the request, monotonic ns after which it is void (all ones: never)
NEVER = 2**64 - 1
LARGEST = 4096  # bytes of a request
CLIENTS = 32  # connections at once
PIPELINED = 2  # requests of one connection that wait: one whose client gave up, and the next
FRAMES = 64  # that are read at once while waiting for an answer
KIND, PEERS = b"ROUTER", frozenset((b"DEALER", b"REQ", b"ROUTER"))
ANSWERERS = frozenset((KIND,))


class Requests:
    """The node's request socket; `counts` has the refused requests by reason.

    The next request of a client is read when the one before has been answered, so that a client that asks without end
    does not keep the others waiting.
    """

    def __init__(self, listening: socket.socket) -> None:
        self.server = Server(listening, KIND, PEERS, LARGEST, CLIENTS, self._receive, self._ended)
        self.counts: Counter[str] = Counter()
        self._waiter = Waiter()
        self._waiter.serve(self.server)
        self._waiting: deque[tuple[Connection, list[bytes]]] = deque()
        self._clients: dict[int, Connection] = {}  # clients that wait for an answer, by the request's number
        self._pending: Counter[Connection] = Counter()  # requests that are not answered yet
        self._numbers = itertools.count(1)

    def waiting(self) -> bool:
        """Whether a request has come."""
        return bool(self._waiting)

    def poll_request(self) -> tuple[Identity, dict[str, Any]] | None:
        """The client and content of the oldest valid request, or None; never blocks."""
        self._waiter.look(time.monotonic_ns())
        while self._waiting:
            connection, frames = self._waiting.popleft()
            if (content := self._read(frames)) is not None:
                number = next(self._numbers)
                self._clients[number] = connection
                return (number.to_bytes(8), frames[0]), content
            self._finish(connection)
        return None

    def reply(self, identity: Identity, content: dict[str, Any]) -> None:
        """Answer the request; never blocks; dropped if the client has disconnected."""
        connection = self._clients.pop(int.from_bytes(identity[0]), None)
        if connection is not None:
            self.server.send(connection, frame(identity[1], MORE) + frame(encode_map(content)))
            self._finish(connection)

    def _receive(self, connection: Connection, frames: list[bytes]) -> None:
        """Queue a message that has come if it may be a request, else count it as refused."""
        if len(frames) != 2 or len(frames[0]) != TAG.size:
            self.counts["frames"] += 1
        elif self._pending[connection] == PIPELINED or len(self._waiting) >= PIPELINED * CLIENTS:
            self.server.end(connection)
        else:
            self._pending[connection] += 1
            self._waiting.append((connection, frames))
            connection.wanted = True
            connection.spoken = 0
            self.server.pause(connection)

    def _ended(self, connection: Connection) -> None:
        """Drop the waiting requests of a connection that has ended, except those that never expire: stops."""
        del self._pending[connection]
        kept = [each for each in self._waiting if each[0] is not connection or TAG.unpack(each[1][0])[1] == NEVER]
        self._waiting = deque(kept)

    def _read(self, frames: list[bytes]) -> dict[str, Any] | None:
        """The content of a request; None, and counted, where it came too late or cannot be read."""
        if TAG.unpack(frames[0])[1] < time.monotonic_ns():
            self.counts["expired"] += 1
            return None
        try:
            return decode_map(frames[1])
        except MessageError as error:
            self.counts[error.reason] += 1
            return None

    def _finish(self, connection: Connection) -> None:
        """One request of this client is finished; its connection is read again once all are."""
        self._pending[connection] -= 1
        if self._pending[connection] <= 0:
            del self._pending[connection]
            connection.wanted = False
            self.server.pause(connection, paused=False)


class Requester:
    """Asks one node of the run in `folder`; a context manager that closes."""

    def __init__(self, folder: Path | str, node: str) -> None:
        self.node = node
        self._address = endpoint(Path(folder), node, "req")
        self._connection: Connection | None = None
        self._numbers = itertools.count(1)

    def ask(self, request: dict[str, Any], timeout_s: float, *, expires: bool = True) -> dict[str, Any]:
        """The node's reply.

        Raises TimeoutError after `timeout_s` [s] without one, MessageError if it, or the request, is not a map within
        the limits. With `expires=False` the node carries the request out however late it comes to it: for stops.
        """
        payload = encode_map(request)
        if len(payload) > LARGEST:
            raise MessageError("length", f"{len(payload)} bytes, a request has at most {LARGEST}")
        deadline = time.monotonic_ns() + round(timeout_s * 1e9)
        tag = TAG.pack(next(self._numbers), deadline if expires else NEVER)
        while (connection := self._connected(deadline)) is not None:
            try:
                # at once, with the greeting: the kernel keeps it until the node reads its socket
                connection.send(frame(tag, MORE) + frame(payload))
                return self._answer(connection, tag, deadline, timeout_s)
            except ConnectionError:
                self.close()
                # the node may have read it after the handshake, and a restarted node must not be armed by a second copy
                if (connection.shaken and expires) or time.monotonic_ns() > deadline:
                    raise self._no_answer(timeout_s) from None
                time.sleep(RECONNECT_MS / 1e3)
        raise TimeoutError(
            f"node {self.node!r} does not answer after {timeout_s:g} s (nothing listens at {self._address}); "
            "check that the run is in progress"
        )

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self, deadline: int) -> Connection | None:
        """A connection to the node; None if none can be made before the deadline [ns]."""
        if self._connection is not None:
            try:
                list(self._connection.read(FRAMES))  # answers that came too late
                return self._connection
            except OSError:  # the node has ended, or closed it to make room for others
                self.close()
        family, place = place_of(self._address)
        while self._connection is None:
            opened = socket.socket(family, socket.SOCK_STREAM)
            # connecting waits while the backlog is full
            opened.settimeout(max((deadline - time.monotonic_ns()) * 1e-9, 0.001))
            try:
                opened.connect(place)
                self._connection = Connection(opened, b"DEALER", ANSWERERS, MAX_PAYLOAD, MAX_PAYLOAD, 0)
            except OSError:
                opened.close()
                if time.monotonic_ns() > deadline:
                    return None
                time.sleep(RECONNECT_MS / 1e3)
        return self._connection

    def _answer(self, connection: Connection, tag: bytes, deadline: int, timeout_s: float) -> dict[str, Any]:
        """The reply to this request; TimeoutError, or ConnectionError where the node closes the connection."""
        while True:
            for frames in connection.read(FRAMES):
                if len(frames) == 2 and frames[0] == tag:
                    return decode_map(frames[1])
            left = deadline - time.monotonic_ns()
            if left <= 0:
                raise self._no_answer(timeout_s)
            if not connection.has_more():
                select.select([connection.fd], (), (), left * 1e-9)

    def _no_answer(self, timeout_s: float) -> TimeoutError:
        return TimeoutError(
            f"node {self.node!r} did not answer within {timeout_s:g} s; it is busy or stopped: "
            "ask again with more time, or stop the run"
        )

    def __enter__(self) -> "Requester":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
