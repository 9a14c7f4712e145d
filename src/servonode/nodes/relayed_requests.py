"""The requests that a relay carries: from operators here to nodes of the other computer, and from there to nodes here.

Tickets and durations pass as they are (`bus/tickets.py`): the node that answers judges by its own clock alone.
"""

import secrets
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import zmq

from servonode.bus import Bus, MessageError
from servonode.bus.keys import OBSERVE, OPERATE, TrustedKey
from servonode.bus.request_codec import decode_map, encode_map
from servonode.bus.requests import HEADER, LARGEST, NEVER, NO_TICKET, WANTS_TICKET
from servonode.bus.topology import GET, NODES
from servonode.bus.zmq_io import MORE, NOBLOCK, Reader, Socket
from servonode.nodes.meeting import printable

MOST = 64  # requests that may be without an answer; the oldest is dropped
AT_ONCE = 16  # of one node, in one go
ORDER_NS = 100_000_000  # between two attempts to have an order carried out
ALONE = "the other computer of this run does not answer; check it and the network, or ask on that computer"
_NUMBER = struct.Struct("<Q")
_AFTER_NUMBER = _NUMBER.size

SendRequest = Callable[[str, bytes, bytes, bytes], None]  # node, number, header, payload
SendReply = Callable[[bytes, bytes], None]  # number, payload


class RelayedRequests:
    """Takes requests to the nodes of the other computer, and asks the nodes here what comes from there."""

    def __init__(self, bus: Bus, here: Sequence[str], there: Sequence[str]) -> None:
        """here, there: the nodes of this computer and of the other one."""
        self.counts: Counter[str] = Counter()
        self._there = {node: bus.requests_for(node) for node in there}
        self._here = {node: bus.requests_to(node) for node in here}
        self._asked: dict[bytes, tuple[Socket, Reader, bytes, bytes]] = {}  # by our number: who asked, and its number
        self._asking: dict[bytes, bytes] = {}  # by our number: that of the other computer
        self._orders: dict[bytes, tuple[str, str]] = {}  # by our number: node and verb
        self._order_ns = 0  # when to send them again
        self._number = secrets.randbits(62)  # a relay that replaces this one gets no answer that was meant for it

    def take(self, connected: bool, send: SendRequest) -> None:
        """Give `send` what has been asked here of nodes that run there; without a connection answer that."""
        for node, (opened, reader) in self._there.items():
            for _ in range(AT_ONCE):
                frames = reader.read()
                if frames is None:
                    break
                if len(frames) != 3 or len(frames[1]) != HEADER.size:
                    self.counts["refused_frames"] += 1
                elif not connected:
                    _reply(opened, reader, frames[0], frames[1][:_AFTER_NUMBER], encode_map({"error": ALONE}))
                else:
                    client, header, payload = frames
                    number = self._next()
                    self._asked[number] = opened, reader, client, header[:_AFTER_NUMBER]
                    _bounded(self._asked)
                    send(node, number, header, payload)

    def order(self, node: str, verb: str) -> None:
        """Have a node there asked on our own behalf, without a ticket, until it answers: for stops."""
        self._orders[self._next()] = node, verb
        _bounded(self._orders)
        self._order_ns = 0

    def send_orders(self, now: int, send: SendRequest) -> None:
        """Give `send` the orders that have no answer, again where they had none for ORDER_NS."""
        if not self._orders or now < self._order_ns:
            return
        self._order_ns = now + ORDER_NS
        for number, (node, verb) in self._orders.items():
            send(node, number, HEADER.pack(0, NO_TICKET, NEVER), encode_map({"ask": verb}))

    def answered(self, number: bytes, payload: bytes) -> str:
        """Pass on the answer of a node there to who has asked here; returns why an order was refused, or nothing."""
        if (asked := self._asked.pop(number, None)) is not None:
            _reply(*asked, payload)
        elif (order := self._orders.pop(number, None)) is not None:
            with suppress(MessageError):
                if error := decode_map(payload).get("error"):
                    return printable(f"{order[1]} is not carried out: {error}")
        return ""

    def ask(
        self, node: str, number: bytes, header: bytes, payload: bytes, key: TrustedKey | None, send: SendReply
    ) -> None:
        """Ask a node here what came from there with this key, or answer why not. key: None where there are no keys."""
        if node not in self._here or len(header) != HEADER.size or len(payload) > LARGEST:
            self.counts["refused_frames"] += 1
            return
        if refusal := self._refusal(node, header, payload, key):
            send(number, encode_map({"error": refusal}))
            return
        opened, reader = self._here[node]
        ours = self._next()
        self._asking[ours] = number
        _bounded(self._asking)
        try:
            opened.send(ours + header[_AFTER_NUMBER:], MORE)
            opened.send(payload, NOBLOCK)
        except zmq.Again:  # the node has not read for long
            self.counts["dropped_requests"] += 1
        reader.disturbed()

    def take_answers(self, send: SendReply) -> None:
        """Give `send` the answers of the nodes here to what came from there."""
        for _, reader in self._here.values():
            for _ in range(AT_ONCE):
                frames = reader.read()
                if frames is None:
                    break
                number = self._asking.pop(frames[0], None) if len(frames) == 2 else None
                if number is not None:
                    send(number, frames[1])

    def _refusal(self, node: str, header: bytes, payload: bytes, key: TrustedKey | None) -> str:
        """Why a request from the other computer is not passed on; empty: it is."""
        if HEADER.unpack(header)[2] == WANTS_TICKET:
            return ""
        try:
            verb = decode_map(payload).get("ask")
        except MessageError as error:
            self.counts[f"refused_{error.reason}"] += 1
            return f"the request cannot be read ({error})"
        if verb not in NODES[node].verbs:
            self.counts["refused_verb"] += 1
            return f"{str(verb)[:40]!r} cannot be asked from another computer; ask {', '.join(NODES[node].verbs)}"
        needed = (OPERATE, OBSERVE) if verb in ("status", GET) else (OPERATE,)
        if key is None or any(role in key.roles for role in needed):
            return ""
        self.counts[f"role_of_key_{key.name}"] += 1
        roles = " ".join(f"--role {role}" for role in (*key.roles, OPERATE))
        return (
            f"{verb} is refused: key {key.name!r} is not trusted as {OPERATE} on the computer of the {node}; there: "
            f"servonode keys trust {key.name}.key {roles}"
        )

    def _next(self) -> bytes:
        self._number += 1
        return _NUMBER.pack(self._number)


def _reply(opened: Socket, reader: Reader, client: bytes, number: bytes, payload: bytes) -> None:
    opened.send(client, MORE)  # a ROUTER drops what a client does not read
    opened.send(number, MORE)
    opened.send(payload, NOBLOCK)
    reader.disturbed()


def _bounded(kept: dict[bytes, Any]) -> None:
    """Drop the oldest of too many."""
    if len(kept) > MOST:
        del kept[next(iter(kept))]
