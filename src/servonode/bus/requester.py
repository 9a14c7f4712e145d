"""The operator's end of requests: asks one node, and never has it do later what was reported as failed."""

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import zmq

from servonode.bus.codec import MessageError
from servonode.bus.descriptors import ensure_client_room
from servonode.bus.request_codec import decode_map, encode_map
from servonode.bus.requests import HEADER, LARGEST, NEVER, NO_TICKET, WANTS_TICKET
from servonode.bus.run_folder import endpoint
from servonode.bus.tickets import TICKET
from servonode.bus.unix_paths import is_served
from servonode.bus.zmq_io import Context, Socket, connect, new_context, open_socket


class Requester:
    """Asks one node of the run in `folder`; a context manager that closes. `clock` gives nanoseconds."""

    def __init__(self, folder: Path | str, node: str, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.node = node
        self._clock = clock
        self._address = endpoint(Path(folder), node, "req")
        self._numbers = itertools.count(1)
        self._context: Context | None = None
        self._socket: Socket | None = None

    def ask(self, request: dict[str, Any], timeout_s: float, *, expires: bool = True) -> dict[str, Any]:
        """The node's reply.

        Raises TimeoutError after `timeout_s` [s] without one, MessageError if it, or the request, is not a map within
        the limits. With `expires=False` the node carries the request out however late it comes to it: for stops.
        """
        payload = encode_map(request)
        if len(payload) > LARGEST:
            raise MessageError("length", f"{len(payload)} bytes, a request has at most {LARGEST}")
        deadline = self._clock() + round(timeout_s * 1e9)
        ticket, valid_ns = NO_TICKET, NEVER
        if expires:
            ticket = self._exchange(NO_TICKET, WANTS_TICKET, b"", deadline, timeout_s)
            if len(ticket) != TICKET.size:
                return decode_map(ticket)  # the reason, where it gives no ticket
            valid_ns = max(deadline - self._clock(), 1)
        return decode_map(self._exchange(ticket, valid_ns, payload, deadline, timeout_s))

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        if self._socket is not None and self._context is not None:
            self._socket.close(linger=0)
            self._context.term()
            self._socket = self._context = None

    def _exchange(self, ticket: bytes, valid_ns: int, payload: bytes, deadline: int, timeout_s: float) -> bytes:
        """The payload of the reply to one message. Raises TimeoutError after the deadline [ns]."""
        opened = self._connected()
        header = HEADER.pack(next(self._numbers), ticket, valid_ns)
        opened.send_multipart([header, payload])
        while (left := deadline - self._clock()) > 0:
            if opened.poll(max(left // 1_000_000, 1)):
                frames = opened.recv_multipart()
                if len(frames) == 2 and frames[0] == header[:8]:
                    return frames[1]
        raise self._no_answer(timeout_s)

    def _connected(self) -> Socket:
        if self._socket is None:
            ensure_client_room()
            self._context = new_context()
            self._socket = open_socket(self._context, zmq.DEALER)
            connect(self._socket, self._address)
        return self._socket

    def _no_answer(self, timeout_s: float) -> TimeoutError:
        if is_served(Path(self._address.removeprefix("ipc://"))):
            return TimeoutError(
                f"node {self.node!r} did not answer within {timeout_s:g} s; it is busy or stopped: "
                "ask again with more time, or stop the run"
            )
        return TimeoutError(
            f"node {self.node!r} does not answer after {timeout_s:g} s (nothing listens at {self._address}); "
            "check that the run is in progress"
        )

    def __enter__(self) -> "Requester":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
