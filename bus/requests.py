"""Requests (arm, stop, parameters): a ROUTER at each node, a Requester for whoever asks.

Frames: identity (the ROUTER's own), tag, map. The asker's tag comes back with the reply, so that a late reply
is never taken for the next one's. It also carries the time after which the asker no longer waits: a node that
was stalled does not carry out what its asker was told had failed.
"""

import itertools
import struct
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any

import zmq

from servonode.bus.codec import MessageError
from servonode.bus.faces import BOUND, Identity
from servonode.bus.folder import endpoint
from servonode.bus.maps import decode_map, encode_map
from servonode.bus.plumbing import NOBLOCK, Reader, Socket, Waiter, open_socket

TAG = struct.Struct("<QQ")  # number of the request, monotonic ns after which it is void (all ones: never)
NEVER = 2**64 - 1


class Requests:
    """The node's door; `counts` has the requests that were refused, by reason."""

    def __init__(self, opened: Socket, reader: Reader) -> None:
        self._socket = opened
        self._reader = reader
        self.counts: Counter[str] = Counter()

    @property
    def readable(self) -> bool:
        """Whether a request waited at the last look, or may: a reply was sent since."""
        return self._reader.readable is not False

    def waiter(self) -> Waiter:
        """What sleeps until a request comes, and for nothing else."""
        return Waiter(self._reader)

    def poll_request(self) -> tuple[Identity, dict[str, Any]] | None:
        """The oldest good request and whom to reply to, or None; never blocks."""
        for _ in range(BOUND):
            frames = self._reader.read()
            if frames is None:
                return None
            if len(frames) != 3 or len(frames[1]) != TAG.size:
                self.counts["frames"] += 1
            elif TAG.unpack(frames[1])[1] < time.monotonic_ns():
                self.counts["expired"] += 1
            else:
                try:
                    return (frames[0], frames[1]), decode_map(frames[2])
                except MessageError as error:
                    self.counts[error.reason] += 1
        return None

    def reply(self, identity: Identity, content: dict[str, Any]) -> None:
        """Answer the request; never blocks, and is dropped if the asker has gone."""
        self._socket.send_multipart([*identity, encode_map(content)], NOBLOCK)
        self._reader.disturbed()


class Requester:
    """Asks one node of the run in `folder`; a context manager that closes."""

    def __init__(self, folder: Path | str, node: str) -> None:
        self.node = node
        self._address = endpoint(Path(folder), node, "req")
        self._context: zmq.Context[Socket] = zmq.Context(io_threads=1)
        self._socket = open_socket(self._context, zmq.DEALER)
        # Queue only for a node that is there: a request must not wait for one that starts later.
        self._socket.setsockopt(zmq.IMMEDIATE, 1)
        self._socket.connect(self._address)
        self._reader = Reader(self._socket)
        self._waiter = Waiter(self._reader)
        self._numbers = itertools.count(1)

    def ask(self, request: dict[str, Any], timeout_s: float, *, expires: bool = True) -> dict[str, Any]:
        """The node's reply.

        Raises TimeoutError after `timeout_s` [s] without one, MessageError if it is no map within the limits.
        With `expires=False` the node carries the request out however late it comes to it: for stops.
        """
        payload = encode_map(request)
        deadline = time.monotonic_ns() + round(timeout_s * 1e9)
        tag = TAG.pack(next(self._numbers), deadline if expires else NEVER)
        try:
            self._socket.poll(max(round(timeout_s * 1e3), 1), zmq.POLLOUT)
            self._socket.send_multipart([tag, payload], NOBLOCK)
        except zmq.Again:
            raise TimeoutError(
                f"node {self.node!r} is not there after {timeout_s:g} s (nobody serves {self._address}); "
                "is the run going on?"
            ) from None
        self._reader.disturbed()
        while self._waiter.wait(deadline):
            for _ in range(BOUND):
                frames = self._reader.read()
                if frames is None:
                    break
                if len(frames) == 2 and frames[0] == tag:
                    return decode_map(frames[1])
        raise TimeoutError(
            f"node {self.node!r} did not answer within {timeout_s:g} s; it is busy or stopped: "
            "ask again with more time, or stop the run"
        )

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        self._socket.close(linger=0)
        self._context.term()

    def __enter__(self) -> "Requester":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
