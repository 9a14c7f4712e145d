"""Requests (arm, stop, parameters): a door at each node, a Requester for whoever asks.

Frames: tag, map. The asker's tag comes back with the reply, so that a late reply
is never taken for the next one's. It also carries the time after which the asker no longer waits: a node that
was stalled does not carry out what its asker was told had failed.
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
ASKERS = 32  # connections at once
PIPELINED = 2  # requests of one connection that wait: one that came too late, and the next
FRAMES = 64  # of an answer that are taken at once
KIND, PEERS = b"ROUTER", frozenset((b"DEALER", b"REQ", b"ROUTER"))
ANSWERERS = frozenset((KIND,))


class Requests:
    """The node's door; `counts` has the requests that were refused, by reason.

    An asker's next request is read when the one before has been answered, so that nobody who asks without end keeps
    others from being heard.
    """

    def __init__(self, listening: socket.socket) -> None:
        self.server = Server(listening, KIND, PEERS, LARGEST, ASKERS, self._heard, self._gone)
        self.counts: Counter[str] = Counter()
        self._waiter = Waiter()
        self._waiter.serve(self.server)
        self._waiting: deque[tuple[Connection, list[bytes]]] = deque()
        self._askers: dict[int, Connection] = {}  # who waits for an answer, by a number
        self._pending: Counter[Connection] = Counter()  # requests that are not answered yet
        self._numbers = itertools.count(1)

    def waiting(self) -> bool:
        """Whether a request has come."""
        return bool(self._waiting)

    def poll_request(self) -> tuple[Identity, dict[str, Any]] | None:
        """The oldest good request and whom to reply to, or None; never blocks."""
        self._waiter.look(time.monotonic_ns())
        while self._waiting:
            connection, frames = self._waiting.popleft()
            if (content := self._read(frames)) is not None:
                number = next(self._numbers)
                self._askers[number] = connection
                return (number.to_bytes(8), frames[0]), content
            self._let_go(connection)
        return None

    def reply(self, identity: Identity, content: dict[str, Any]) -> None:
        """Answer the request; never blocks, and is dropped if the asker has gone."""
        connection = self._askers.pop(int.from_bytes(identity[0]), None)
        if connection is not None:
            self.server.send(connection, frame(identity[1], MORE) + frame(encode_map(content)))
            self._let_go(connection)

    def _heard(self, connection: Connection, frames: list[bytes]) -> None:
        """A request, or what is none, has come."""
        if len(frames) != 2 or len(frames[0]) != TAG.size:
            self.counts["frames"] += 1
        elif self._pending[connection] == PIPELINED or len(self._waiting) >= PIPELINED * ASKERS:
            self.server.end(connection)
        else:
            self._pending[connection] += 1
            self._waiting.append((connection, frames))
            connection.wanted = True
            connection.spoken = 0
            self.server.pause(connection)

    def _gone(self, connection: Connection) -> None:
        """Nobody waits for these answers any more; stops are carried out all the same."""
        del self._pending[connection]
        kept = [each for each in self._waiting if each[0] is not connection or TAG.unpack(each[1][0])[1] == NEVER]
        self._waiting = deque(kept)

    def _read(self, frames: list[bytes]) -> dict[str, Any] | None:
        """What is asked; None, and counted, where it is too late or cannot be read."""
        if TAG.unpack(frames[0])[1] < time.monotonic_ns():
            self.counts["expired"] += 1
            return None
        try:
            return decode_map(frames[1])
        except MessageError as error:
            self.counts[error.reason] += 1
            return None

    def _let_go(self, connection: Connection) -> None:
        """One request of this asker is done with; read on once all are."""
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

        Raises TimeoutError after `timeout_s` [s] without one, MessageError if it, or the request, is no map within the
        limits. With `expires=False` the node carries the request out however late it comes to it: for stops.
        """
        payload = encode_map(request)
        if len(payload) > LARGEST:
            raise MessageError("length", f"{len(payload)} bytes, a request has at most {LARGEST}")
        deadline = time.monotonic_ns() + round(timeout_s * 1e9)
        tag = TAG.pack(next(self._numbers), deadline if expires else NEVER)
        while (connection := self._connected(deadline)) is not None:
            try:
                # with the greeting, at once: it lies at the node's door also while the node does not come by
                connection.send(frame(tag, MORE) + frame(payload))
                return self._answer(connection, tag, deadline, timeout_s)
            except ConnectionError:
                self.close()
                # the node may have heard it once it took us in, and one that was started again must not be armed by it
                if (connection.shaken and expires) or time.monotonic_ns() > deadline:
                    raise self._silent(timeout_s) from None
                time.sleep(RECONNECT_MS / 1e3)
        raise TimeoutError(
            f"node {self.node!r} is not there after {timeout_s:g} s (nobody serves {self._address}); "
            "is the run going on?"
        )

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self, deadline: int) -> Connection | None:
        """A connection to the node, as soon as there is one; None if there is none before the deadline [ns]."""
        if self._connection is not None:
            try:
                list(self._connection.read(FRAMES))  # answers that came too late
                return self._connection
            except OSError:  # a node that has ended, or has made room for others
                self.close()
        family, place = place_of(self._address)
        while self._connection is None:
            opened = socket.socket(family, socket.SOCK_STREAM)
            opened.settimeout(max((deadline - time.monotonic_ns()) * 1e-9, 0.001))  # where a crowd waits, in its turn
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
        """The reply to this request; TimeoutError, or ConnectionError where the node hangs up."""
        while True:
            for frames in connection.read(FRAMES):
                if len(frames) == 2 and frames[0] == tag:
                    return decode_map(frames[1])
            left = deadline - time.monotonic_ns()
            if left <= 0:
                raise self._silent(timeout_s)
            if not connection.has_more():
                select.select([connection.fd], (), (), left * 1e-9)

    def _silent(self, timeout_s: float) -> TimeoutError:
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
