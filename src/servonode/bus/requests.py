"""Requests (arm, stop, parameters), as a node serves them: at a ROUTER socket, read in the wait of its loop.

Frames of a request: header, map. The header has the request's number, which the reply repeats, so that a late reply is
never taken for that of the next request; a ticket (`bus/tickets.py`); and for how long the ticket is valid. With 0 the
request only asks for a ticket, which is the reply. Stops need none, and never expire.
"""

import struct
from collections import Counter
from typing import Any

from servonode.bus.codec import MessageError
from servonode.bus.interfaces import Identity
from servonode.bus.request_codec import decode_map, encode_map
from servonode.bus.tickets import TICKET, Tickets
from servonode.bus.zmq_io import MORE, NOBLOCK, Reader, Socket

HEADER = struct.Struct(f"<Q{TICKET.size}sQ")  # number of the request, ticket, ns for which it is valid
NO_TICKET = bytes(TICKET.size)
WANTS_TICKET, NEVER = 0, 2**64 - 1  # in place of a time
STOPS = ("estop", "stop")  # the requests that need no ticket
LARGEST = 4096  # bytes of a request
QUEUE = 2  # messages of one client that wait here; libzmq takes one of each client in turn
AT_ONCE = 16  # messages that are looked at for one request

REFUSALS = {
    "other_run": "the node was started again meanwhile; ask again",
    "replayed": "this request was carried out, or refused, before; ask again with a new ticket",
    "expired": "the request came too late; ask again",
    "no_ticket": f"only {' and '.join(STOPS)} need no ticket; ask with one",
}


class Requests:
    """The node's request socket; `counts` has the refused requests by reason."""

    def __init__(self, opened: Socket) -> None:
        """opened: a bound ROUTER socket."""
        self.reader = Reader(opened)
        self.counts: Counter[str] = Counter()
        self._socket = opened
        self._tickets = Tickets()

    def waiting(self) -> bool:
        """Whether a request has come."""
        return self.reader.waits()

    def poll_request(self) -> tuple[Identity, dict[str, Any]] | None:
        """The client and content of the oldest valid request, or None; never blocks."""
        for _ in range(AT_ONCE):
            frames = self.reader.read()
            if frames is None:
                return None
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
        client, number, _ = identity
        self._send(client, number, encode_map(content))

    def _read(self, client: bytes, header: bytes, payload: bytes) -> tuple[Identity, dict[str, Any]] | None:
        """A request; None where it was answered here: with a ticket, or because it is refused, which is counted."""
        _, ticket, valid_ns = HEADER.unpack(header)
        number = header[:8]
        if valid_ns == WANTS_TICKET:
            self._send(client, number, self._tickets.give())
            return None
        try:
            content = decode_map(payload)
        except MessageError as error:
            self.counts[error.reason] += 1
            return None
        refusal, until = self._judge(ticket, valid_ns, content)
        if not refusal:
            return (client, number, until), content
        self.counts[refusal] += 1
        self._send(client, number, encode_map({"error": REFUSALS[refusal]}))
        return None

    def _judge(self, ticket: bytes, valid_ns: int, content: dict[str, Any]) -> tuple[str, int]:
        """Why a request is refused, empty where it is valid, and until when it is that [monotonic ns]."""
        if valid_ns != NEVER:
            return self._tickets.spend(ticket, valid_ns)
        return "" if content.get("ask") in STOPS else "no_ticket", NEVER

    def _send(self, client: bytes, number: bytes, payload: bytes) -> None:
        self._socket.send(client, MORE)  # a ROUTER drops what a client does not read
        self._socket.send(number, MORE)
        self._socket.send(payload, NOBLOCK)
        self.reader.disturbed()
