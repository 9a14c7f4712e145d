"""The envelopes that the relays of two computers send each other: all of them, in one table and with one codec.

An envelope is one frame: a msgpack array of the name of its kind and its fields, whose types bound them. What it
carries of the bus stays as it is, byte for byte. A field, or a kind, is added here; `nodes/relay_node.py` takes it.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from servonode.bus.codec import MessageError
from servonode.bus.messages import MAX_PAYLOAD, Nanoseconds
from servonode.bus.requests import HEADER, LARGEST_REQUEST, NUMBER

LARGEST_ENVELOPE = MAX_PAYLOAD + 1024  # bytes of one, with the largest that it carries
MAX_WHY = 4000  # characters

Payload = Annotated[bytes, Meta(max_length=MAX_PAYLOAD)]
Why = Annotated[str, Meta(max_length=MAX_WHY)]
Name = Annotated[str, Meta(max_length=64)]


class Envelope(Struct, array_like=True, tag=True):
    """What relays send: one of the kinds below."""


# before they have met


class Hello(Envelope):
    """Who a computer is. start: of its part of the run; nodes: those that it runs. The answer is one, too."""

    start: Nanoseconds
    nodes: Annotated[tuple[Name, ...], Meta(max_length=8)]
    manifest: dict[str, str]


class Refused(Envelope):
    """The computer that listens does not take this one."""

    why: Why


class Busy(Envelope):
    """Another computer is connected to this run."""

    why: Why


class Stranger(Envelope):
    """Whoever receives this was not met."""


# what is carried


class Topic(Envelope):
    """What a node has published, as it stands on the bus."""

    node: Name
    word: Name
    payload: Payload


class Request(Envelope):
    """What is asked of a node, as `bus/requests.py` has it, with a number of the relay's own in the header."""

    node: Name
    header: Annotated[bytes, Meta(min_length=HEADER.size, max_length=HEADER.size)]
    payload: Annotated[bytes, Meta(max_length=LARGEST_REQUEST)]


class Reply(Envelope):
    """What a node has answered to the request of this number."""

    number: Annotated[bytes, Meta(min_length=NUMBER.size, max_length=NUMBER.size)]
    payload: Payload


# what relays tell each other


class Want(Envelope):
    """Whether all is connected at that end, and the topics, NODE/WORD, that somebody there has subscribed to."""

    ready: bool
    topics: Annotated[list[Name], Meta(max_length=64)]


class Clock(Envelope):
    """The time of sending, to be returned."""

    sent: Nanoseconds


class Echo(Envelope):
    """A time that came, with when it came and was returned, on the other clock."""

    sent: Nanoseconds
    came: Nanoseconds
    answered: Nanoseconds


class End(Envelope):
    """The run is over there, and its nodes have left these summaries."""

    summaries: Payload


class Ended(Envelope):
    """An end has arrived."""


_read: Any = msgspec.msgpack.Decoder(
    Hello | Refused | Busy | Stranger | Topic | Request | Reply | Want | Clock | Echo | End | Ended
).decode
encode_envelope = msgspec.msgpack.Encoder().encode


def decode_envelope(frames: list[bytes]) -> Envelope:
    """The envelope in what has come; MessageError for anything else, whatever the bytes."""
    if len(frames) != 1:
        raise MessageError("malformed", f"{len(frames)} frames")
    try:
        found: Envelope = _read(frames[0])
    except (ValueError, RecursionError, MemoryError) as error:
        raise MessageError("malformed", str(error)) from None
    return found
