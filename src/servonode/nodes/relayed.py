"""What a relay carries between two computers: topics, requests, and at the end the summaries that nodes leave.

Tickets and durations pass as they are (`bus/requests.py`): the node that answers judges by its own clock alone.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any

import msgspec
import zmq
from msgspec import UNSET, Meta, UnsetType

from servonode.bus import Bus, DirectSubscriber, MessageError, Publisher, Wanted, decode, subscriptions_expected
from servonode.bus.codec import Intake, undecoded
from servonode.bus.envelope import Envelope, Reply, Request, Topic
from servonode.bus.keys import OBSERVE, OPERATE, ROLE_OF, TrustedKey
from servonode.bus.messages import LARGEST, MAX_ITEMS, MAX_PAYLOAD, MAX_TEXT, Count, Message, Text
from servonode.bus.requests import HEADER, NEVER, NO_TICKET, NUMBER, WANTS_TICKET, decode_map, encode_map
from servonode.bus.topology import GET, NODES, PLANT
from servonode.bus.zmq_io import Reader
from servonode.nodes.meeting import printable

MOST = 64  # requests that may be without an answer; the oldest is dropped
REQUESTS_AT_ONCE, MESSAGES_AT_ONCE = 16, 100  # of one node, in one go
ORDER_NS = 100_000_000  # between two attempts to have an order carried out
ALONE = "the other computer of this run does not answer; check it and the network, or ask on that computer"
MOST_FAULTS = 20  # of a node
SHORTER = (MOST_FAULTS, 5, 1, 0)  # faults of a node, until all fits one message

Send = Callable[[Envelope], None]  # to the other computer


class RelayedTopics:
    """Takes what nodes here publish, and publishes what nodes of the other computer have sent.

    Only topics are carried that somebody at the other end has subscribed to.
    """

    def __init__(
        self, bus: Bus, here: Sequence[str], there: Sequence[str], listeners: Sequence[Wanted], send: Send
    ) -> None:
        """here, there: the nodes of this computer and of the other one; listeners: the subscriptions of those here."""
        self.counts: Counter[str] = Counter()
        self._send = send
        self._wanted: set[str] = set()  # NODE/WORD that the other computer wants
        self._here: dict[str, DirectSubscriber] = {}
        for node in here:
            topics = NODES[node].publishes
            self._here[node] = bus.direct_subscriber({node: topics}, Intake(topics, undecoded))
        self._there = {node: bus.publisher_for(node, subscriptions_expected(node, listeners)) for node in there}

    @property
    def fds(self) -> list[int]:
        """Descriptors that become readable when somebody subscribes here to what comes from there."""
        return [publisher.fd for publisher in self._there.values()]

    def look(self) -> None:
        """Serve those who subscribe here to what comes from there."""
        for publisher in self._there.values():
            publisher.look()

    def ready(self) -> bool:
        """Whether all that is expected here to subscribe has subscribed."""
        return all(publisher.ready() for publisher in self._there.values())

    def wanted_here(self) -> list[str]:
        """The topics, NODE/WORD, of the other computer that somebody here has subscribed to."""
        return [
            f"{node}/{word}"
            for node, publisher in self._there.items()
            for word in NODES[node].publishes
            if publisher.has_subscriber(word)
        ]

    def want(self, topics: Iterable[str]) -> None:
        """Carry these topics from now on, and no others."""
        known = {f"{node}/{word}" for node in self._here for word in NODES[node].publishes}
        self._wanted = known.intersection(topics)

    def carry(self, connected: bool) -> Message | None:
        """Send what has come from the nodes here and is wanted there; without a connection it is lost.

        Returns a new status of a plant here, if there is one: it tells the time.
        """
        status: bytes | None = None
        for node, subscriber in self._here.items():
            taken: list[tuple[str, Any]] = list(subscriber.receive(MESSAGES_AT_ONCE))  # bytes, as the intake keeps them
            for word, payload in taken:
                if connected and f"{node}/{word}" in self._wanted:
                    self._send(Topic(node, word, payload))
                if word == "status" and node == PLANT:
                    status = payload
        return None if status is None else self._decoded("status", status)

    def publish(self, sent: Topic, key: TrustedKey | None) -> Message | None:
        """Publish here what a node there has sent, with this key; None if it is refused, which is counted."""
        node, word = sent.node, sent.word
        if key is not None and ROLE_OF.get(node, "") not in key.roles:
            self.counts[f"role_of_key_{key.name}"] += 1
            return None
        publisher: Publisher | None = self._there.get(node)
        if publisher is None or word not in NODES[node].publishes:
            self.counts["refused_topic"] += 1
            return None
        message = self._decoded(word, sent.payload)
        if message is None:
            return None
        if message.node != node:
            self.counts["refused_node"] += 1
            return None
        publisher.publish_frames(word.encode(), sent.payload)
        return message

    def _decoded(self, word: str, payload: bytes) -> Message | None:
        """The message; None if it is not valid, which is counted."""
        try:
            return decode(word.encode(), payload)
        except MessageError as error:
            self.counts[f"refused_{error.reason}"] += 1
            return None


class RelayedRequests:
    """Takes requests to the nodes of the other computer, and asks the nodes here what comes from there."""

    def __init__(self, bus: Bus, here: Sequence[str], there: Sequence[str], send: Send) -> None:
        """here, there: the nodes of this computer and of the other one."""
        self.counts: Counter[str] = Counter()
        self._send = send
        self._there = {node: bus.requests_for(node) for node in there}
        self._here = {node: bus.requests_to(node) for node in here}
        self._asked: dict[bytes, tuple[Reader, bytes, bytes]] = {}  # by our number: who asked, and its number
        self._orders: dict[bytes, tuple[str, str]] = {}  # by our number: node and verb
        self._order_ns = 0  # when to send them again
        self._number = secrets.randbits(62)  # a relay that replaces this one gets no answer that was meant for it

    def carry(self, now: int, connected: bool) -> None:
        """Send what has been asked here of nodes there, orders that are due, and what the nodes here have answered.

        What is asked without a connection is refused at once.
        """
        for node, reader in self._there.items():
            for frames in islice(iter(reader.read, None), REQUESTS_AT_ONCE):
                if len(frames) != 3 or len(frames[1]) != HEADER.size:
                    self.counts["refused_frames"] += 1
                    continue
                client, header, payload = frames
                asked, rest = header[: NUMBER.size], header[NUMBER.size :]
                if not connected:
                    reader.send(client, asked, encode_map({"error": ALONE}))
                else:
                    number = self._kept(self._asked, (reader, client, asked))
                    self._send(Request(node, number + rest, payload))
        if connected and self._orders and now >= self._order_ns:
            self._order_ns = now + ORDER_NS
            for number, (node, verb) in self._orders.items():
                header = HEADER.pack(*NUMBER.unpack(number), NO_TICKET, NEVER)
                self._send(Request(node, header, encode_map({"ask": verb})))
        for reader in self._here.values():
            for frames in islice(iter(reader.read, None), REQUESTS_AT_ONCE):
                if len(frames) == 2:
                    self._send(Reply(*frames))

    def order(self, node: str, verb: str) -> None:
        """Have a node there asked on our own behalf, without a ticket, until it answers: for stops."""
        self._kept(self._orders, (node, verb))
        self._order_ns = 0

    def answered(self, reply: Reply) -> str:
        """Pass on the answer of a node there to who has asked here; returns why an order was refused, or nothing."""
        if (asked := self._asked.pop(reply.number, None)) is not None:
            reader, client, number = asked
            reader.send(client, number, reply.payload)
        elif (order := self._orders.pop(reply.number, None)) is not None:
            with suppress(MessageError):
                if error := decode_map(reply.payload).get("error"):
                    return printable(f"{order[1]} is not carried out: {error}")
        return ""

    def ask(self, request: Request, key: TrustedKey | None) -> None:
        """Ask a node here what came from there with this key, or answer why not. key: None where there are no keys."""
        node, header, payload = request.node, request.header, request.payload
        if node not in self._here:
            self.counts["refused_frames"] += 1
        elif refusal := self._refusal(node, header, payload, key):
            self._send(Reply(header[: NUMBER.size], encode_map({"error": refusal})))
        else:
            try:
                self._here[node].send(header, payload)
            except zmq.Again:  # the node has not read for long
                self.counts["dropped_requests"] += 1

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

    def _kept(self, kept: dict[bytes, Any], what: Any) -> bytes:
        """The new number under which something is kept; the oldest of too many is dropped."""
        self._number += 1
        number = NUMBER.pack(self._number)
        kept[number] = what
        if len(kept) > MOST:
            del kept[next(iter(kept))]
        return number


Seconds = Annotated[float, Meta(ge=0, le=LARGEST)]


class LeftFault(msgspec.Struct):
    """A fault, as `Fault.as_dict` gives it."""

    name: Text
    text: Text
    t: Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
    node: Text


class Percentiles(msgspec.Struct):
    """Times, as `Durations.percentiles` gives them."""

    p50: Seconds
    p99: Seconds
    p999: Seconds
    max: Seconds


class Left(msgspec.Struct, omit_defaults=True):
    """What is sent of a node's summary: what the other computer shows, or decides by."""

    faults: Annotated[list[LeftFault], Meta(max_length=MOST_FAULTS)] = []
    counts: Annotated[dict[Text, Count], Meta(max_length=MAX_ITEMS)] = {}
    times: Annotated[dict[Text, Percentiles], Meta(max_length=MAX_ITEMS)] = {}
    k: Count | UnsetType = UNSET
    wall_s: Seconds | UnsetType = UNSET
    stopped_by: Text = ""


_decode = msgspec.json.Decoder(Annotated[dict[Text, Left], Meta(max_length=8)]).decode


def encode_summaries(summaries: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The summaries by node, in one message: with fewer faults, and no counts and times, where they are too long."""
    for most in SHORTER:
        payload = msgspec.json.encode({node: _sent(each, most) for node, each in summaries.items() if each})
        if len(payload) <= MAX_PAYLOAD:
            break
    return payload


def _sent(summary: Mapping[str, Any], most: int) -> Left:
    whole = most == MOST_FAULTS
    faults = [
        LeftFault(fault["name"], fault["text"][:MAX_TEXT], fault["t"], fault["node"])
        for fault in summary.get("faults", [])[:most]
    ]
    return Left(
        faults,
        summary.get("counts", {}) if whole else {},
        {name: Percentiles(**each) for name, each in summary.get("times", {}).items() if each} if whole else {},
        summary.get("k", UNSET),
        summary.get("wall_s", UNSET),
        summary.get("stopped_by", "")[:MAX_TEXT],
    )


def decode_summaries(payload: bytes) -> dict[str, dict[str, Any]]:
    """The summaries by node; ValueError for anything else, whatever the bytes. Their texts may stand in a terminal."""
    try:
        found = _decode(payload)
    except RecursionError:
        raise ValueError("nested too deep") from None
    for node, left in found.items():
        if node == PLANT and left.k is UNSET:
            raise ValueError("the plant's summary has no step")
        left.stopped_by = printable(left.stopped_by)
        for fault in left.faults:
            fault.name, fault.text, fault.node = map(printable, (fault.name, fault.text, fault.node))
        left.counts = {printable(name): number for name, number in left.counts.items()}
    return {node: msgspec.to_builtins(left) for node, left in found.items()}
