"""Requests (arm, stop, parameters): how a node serves them, at a ROUTER socket, and how an operator asks.

Requests and replies are free msgpack maps, held to the limits of the messages. Frames of a request: header, map. The
header has the request's number, which the reply repeats, so that a late reply is never taken for that of the next
request; a ticket; and for how long the ticket is valid. With 0 the request only asks for a ticket, which is the reply.
Stops need none, and never expire.

A ticket makes a request worthless that is late, repeated, or meant for another start of the node. The node remembers
when it gave the ticket out, so its own clock alone judges, and no clock of another computer matters. A client counts
the time that is left from the arrival of the ticket, which is later: what it was told had failed is never carried out.
"""

import itertools
import secrets
import struct
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import zmq
from msgspec import Meta

from servonode.bus.codec import Identity, MessageError, pack
from servonode.bus.descriptors import ensure_client_room
from servonode.bus.messages import MAX_ITEMS, MAX_PAYLOAD, MOST_NUMBERS, Finite, Text
from servonode.bus.run_folder import endpoint, refusal_at
from servonode.bus.zmq_io import Context, Reader, Socket, connect, new_context, open_socket

NUMBER = struct.Struct("<Q")  # of a request
TICKET = struct.Struct("<QQ")  # the node's start, number
HEADER = struct.Struct(f"<Q{TICKET.size}sQ")  # number of the request, ticket, ns for which it is valid
NO_TICKET = bytes(TICKET.size)
WANTS_TICKET, NEVER = 0, 2**64 - 1  # in place of a time
STOPS = ("estop", "stop")  # the requests that need no ticket
LARGEST_REQUEST = 16_384  # bytes
QUEUE = 2  # messages of one client that wait here; libzmq takes one of each client in turn
AT_ONCE = 16  # messages that are looked at for one request

REFUSALS = {
    "other_run": "the node was started again meanwhile; ask again",
    "replayed": "this request was carried out, or refused, before; ask again with a new ticket",
    "expired": "the request came too late; ask again",
    "no_ticket": f"only {' and '.join(STOPS)} need no ticket; ask with one",
}
MOST = 1024  # tickets that may be unused; the oldest is dropped
MAX_DEPTH = 8  # nesting, the map itself included

_Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_SCALAR: Any = None | bool | _Integer | Finite | Text


def _map_of(inner: Any) -> Any:
    return Annotated[dict[Text, inner], Meta(max_length=MAX_ITEMS)]


def _nested(depth: int) -> Any:
    """The values that are allowed with `depth` levels left; the decoder refuses deeper ones and allocates nothing."""
    if depth == 1:
        return _SCALAR
    inner = _nested(depth - 1)
    return _SCALAR | Annotated[list[inner], Meta(max_length=MOST_NUMBERS)] | _map_of(inner)  # type: ignore[valid-type]


_read = msgspec.msgpack.Decoder(_map_of(_nested(MAX_DEPTH - 1))).decode


def encode_map(content: dict[str, Any]) -> bytes:
    """A request or a reply as one msgpack map; raises as `encode`."""
    payload = pack(content)
    if len(payload) > MAX_PAYLOAD:
        raise MessageError("length", f"{len(payload)} bytes, at most {MAX_PAYLOAD} can be sent")
    return payload


def decode_map(payload: bytes) -> dict[str, Any]:
    """The request or reply in `payload`, with the limits of the messages; MessageError for anything else."""
    if len(payload) > MAX_PAYLOAD:
        raise MessageError("length", f"{len(payload)} bytes")
    try:
        content: dict[str, Any] = _read(payload)
    except msgspec.ValidationError as error:
        raise MessageError(_reason(str(error)), str(error)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise MessageError("malformed", str(error)) from None
    return content


def _reason(text: str) -> str:
    """The reason to count for a text of the decoder; tests compare these texts."""
    if "got `" in text:
        return "type"
    return "non_finite" if text.startswith("Expected `float` ") else "limits"


class Tickets:
    """The tickets that a node has given out since its start and that are unused."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._start = secrets.randbits(64)
        self._number = 0
        self._given: dict[int, int] = {}  # when, by number, oldest first

    def give(self) -> bytes:
        """A new ticket."""
        self._number += 1
        self._given[self._number] = self._clock()
        if len(self._given) > MOST:
            del self._given[next(iter(self._given))]
        return TICKET.pack(self._start, self._number)

    def spend(self, ticket: bytes, valid_ns: int) -> tuple[str, int]:
        """Why a request with this ticket is refused: other_run, replayed or expired; empty: it is valid, once.

        And until when it is valid, as `has_passed` takes it.
        """
        start, number = TICKET.unpack(ticket)
        if start != self._start:
            return "other_run", 0
        given = self._given.pop(number, None)
        if given is None:
            return "replayed", 0
        until = given + valid_ns
        return "expired" if self.has_passed(until) else "", until

    def has_passed(self, until_ns: int) -> bool:
        """Whether it is later than that."""
        return self._clock() > until_ns


class Requests:
    """The node's request socket; `counts` has the refused requests by reason."""

    def __init__(self, reader: Reader) -> None:
        """reader: of a bound ROUTER socket, which drops what a client does not read."""
        self.counts: Counter[str] = Counter()
        self._reader = reader
        self._tickets = Tickets()

    def waiting(self) -> bool:
        """Whether a request has come."""
        return self._reader.waits()

    def poll_request(self) -> tuple[Identity, dict[str, Any]] | None:
        """The client and content of the oldest valid request, or None; never blocks."""
        for frames in itertools.islice(iter(self._reader.read, None), AT_ONCE):
            if len(frames) != 3 or len(frames[1]) != HEADER.size:
                self.counts["frames"] += 1
            elif (request := self._read(*frames)) is not None:
                return request
        return None

    def has_expired(self, identity: Identity) -> bool:
        """Whether a polled request has waited for too long since; it is then counted and answered here."""
        if not self._tickets.has_passed(identity[2]):
            return False
        self.counts["expired"] += 1
        self.reply(identity, {"error": REFUSALS["expired"]})
        return True

    def reply(self, identity: Identity, content: dict[str, Any]) -> None:
        """Answer the request; never blocks; dropped if the client has disconnected."""
        self._reader.send(*identity[:2], encode_map(content))

    def _read(self, client: bytes, header: bytes, payload: bytes) -> tuple[Identity, dict[str, Any]] | None:
        """A request; None where it was answered here: with a ticket, or because it is refused, which is counted."""
        _, ticket, valid_ns = HEADER.unpack(header)
        number = header[: NUMBER.size]
        if valid_ns == WANTS_TICKET:
            self._reader.send(client, number, self._tickets.give())
            return None
        try:
            content = decode_map(payload)
        except MessageError as error:
            self.counts[error.reason] += 1
            return None
        if valid_ns != NEVER:
            refusal, until = self._tickets.spend(ticket, valid_ns)
        else:
            refusal, until = "" if content.get("ask") in STOPS else "no_ticket", NEVER
        if not refusal:
            return (client, number, until), content
        self.counts[refusal] += 1
        self._reader.send(client, number, encode_map({"error": REFUSALS[refusal]}))
        return None


class Requester:
    """The operator's end: asks one node of the run in `folder`. A context manager that closes; `clock` gives ns."""

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
        if len(payload) > LARGEST_REQUEST:
            text = f"{len(payload)} bytes, a request has at most {LARGEST_REQUEST}"
            raise MessageError("length", text)
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
                if len(frames) == 2 and frames[0] == header[: NUMBER.size]:
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
        if refusal_at(Path(self._address.removeprefix("ipc://"))) is None:
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

    def __exit__(self, *_: object) -> None:
        self.close()
