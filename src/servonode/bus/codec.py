"""Messages to bytes and back; invalid bytes of any kind raise a MessageError, whose reason is one word for counting.

A message is one msgpack map with string keys, its values numbers, texts, flags, and lists or maps of them, so
that viewers such as PlotJuggler read it as it is. Typed decoding checks shape, limits and finiteness in C. What a
subscriber makes of the frames that it gets is its intake.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from servonode.bus import messages as wire
from servonode.bus.messages import MAX_ITEMS, MAX_PAYLOAD, TOPICS, Message, topic_named
from servonode.errors import ServonodeError

REASONS = ("topic", "frames", "length", "malformed", "missing", "type", "non_finite", "limits")

_FIXMAP_END = b"\x8f"  # first byte of a map with 15 keys; larger maps carry their size in the bytes after
_FLOAT_BOUND = "Expected `float` "  # "... <= 1.0"; for a wrong type: "Expected `float`, got `str`"
_OTHER_BOUNDS = ("Expected `int` ", *(f"Expected `{kind}` of length" for kind in ("str", "array", "object")))
_WIDER = {kind: about.wide for kind, about in wire.KINDS.items() if about.wide is not None}
HWM = 1000  # messages a queue holds; at 1 kHz a reader may stall for a second and lose nothing
BOUND = 1000  # messages taken in one drain, so that a flooding peer cannot pin the loop

Identity = tuple[Any, ...]  # the client to reply to; opaque
Wanted = Mapping[str, Sequence[str]]  # publisher node -> topic words
T = TypeVar("T")


class MessageError(ServonodeError, ValueError):
    """Bytes that are not a valid message; `reason` is one of REASONS, for counting."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"message refused ({reason}): {detail}" if detail else f"message refused ({reason})")
        self.reason = reason


def _to_plain(value: Any) -> Any:
    """Numpy scalars and arrays as numbers and lists; called only for what the encoder does not know."""
    try:
        return value.tolist()
    except AttributeError:
        raise TypeError(f"{type(value).__name__} cannot be sent; send numbers, lists, texts or maps") from None


pack = msgspec.msgpack.Encoder(enc_hook=_to_plain).encode


def encode(message: Message) -> bytes:
    """The message as one msgpack map.

    Values are not checked: the receiver refuses what is not finite. Raises TypeError for a value that msgpack cannot
    encode, MessageError ("length") beyond 64 KiB.
    """
    payload = pack(message)
    if len(payload) > MAX_PAYLOAD:
        raise _too_long(payload)
    return payload


def _too_long(payload: bytes) -> MessageError:
    return MessageError("length", f"{len(payload)} bytes, at most {MAX_PAYLOAD} travel")


_ROUTES = {word: (word.encode(), kind) for word, kind in TOPICS.items()}


def encode_frames(topic: str, message: Message) -> tuple[bytes, bytes]:
    """The two frames (topic, payload); ValueError for an unknown topic or a message of another topic."""
    frame, kind = _ROUTES.get(topic) or (b"", None)
    if type(message) is not kind:
        kind = topic_named(topic)
        raise ValueError(f"topic {topic!r} carries {kind.__name__}, not {type(message).__name__}")
    payload = pack(message)
    if len(payload) > MAX_PAYLOAD:
        raise _too_long(payload)
    return frame, payload


def _wide_twin(kind: type[Message]) -> type[msgspec.Struct]:
    """A struct with the same fields that takes a number as bounded integer or as any finite float, and tells which."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for f in msgspec.structs.fields(kind):
        plain = wire.plain(f.type)
        wide = _WIDER.get(plain, plain)
        fields.append((f.name, wide) if f.required else (f.name, wide, f.default))
    return msgspec.defstruct(kind.__name__, fields, kw_only=True, frozen=True)


def _as_floats(value: Any) -> Any:
    """The same number, list or map with floats only."""
    if isinstance(value, dict):
        return {name: _as_floats(item) for name, item in value.items()}
    if value is msgspec.UNSET:
        return value
    if isinstance(value, list):
        return [float(item) for item in value]
    return float(value)


_KINDS = {word.encode(): kind for word, kind in TOPICS.items()}
_FAST = {word: msgspec.msgpack.Decoder(kind).decode for word, kind in _KINDS.items()}
_WIDE = {word: msgspec.msgpack.Decoder(_wide_twin(kind)).decode for word, kind in _KINDS.items()}
_NUMERIC = {
    kind: {f.name for f in msgspec.structs.fields(kind) if wire.plain(f.type) in _WIDER} for kind in _KINDS.values()
}


def decode(topic: bytes, payload: bytes) -> Message:
    """The message in `payload`; MessageError for anything else, whatever the bytes.

    Integers where floats are expected become floats; beyond 2^53, where that would lose digits, they are
    refused ("limits").
    """
    read = _FAST.get(topic)
    if read is None:
        raise MessageError("topic", repr(topic[:40]))
    if len(payload) > MAX_PAYLOAD:
        raise MessageError("length", f"{len(payload)} bytes")
    if payload[:1] > _FIXMAP_END:
        _check_large_map(payload)
    try:
        return read(payload)
    except (ValueError, RecursionError, MemoryError) as error:
        if not str(error).startswith(_FLOAT_BOUND):
            raise _refusal(error) from None
    kind = _KINDS[topic]
    try:  # a number of 2^53 and more, or not a number: the wide types tell which
        values = msgspec.structs.asdict(_WIDE[topic](payload))
        return kind(**{name: _as_floats(v) if name in _NUMERIC[kind] else v for name, v in values.items()})
    except (ValueError, RecursionError, MemoryError) as error:
        raise _refusal(error) from None


def _check_large_map(payload: bytes) -> None:
    """MessageError unless the payload opens with a map header of at most MAX_ITEMS keys."""
    if payload[0] not in (0xDE, 0xDF):
        raise MessageError("type", "not a map")
    size = int.from_bytes(payload[1:3] if payload[0] == 0xDE else payload[1:5])
    if size > MAX_ITEMS:
        raise MessageError("limits", f"{size} keys")


def _refusal(error: Exception) -> MessageError:
    """The MessageError for an error of the decoder, told by the decoder's texts, which tests compare."""
    text = str(error)
    if isinstance(error, (RecursionError, MemoryError)):
        return MessageError("limits", "nested too deep or too large")
    if not isinstance(error, msgspec.ValidationError):
        return MessageError("malformed", text)
    if text.startswith("Object missing required field"):
        return MessageError("missing", text)
    if text.startswith(_FLOAT_BOUND):
        return MessageError("non_finite", text)
    if text.startswith(_OTHER_BOUNDS):
        return MessageError("limits", text)
    return MessageError("type", text)


class Intake(Generic[T]):
    """What one subscriber makes of the frames that it gets; those that are refused are counted by reason.

    topics: all that may come. read: the content of a topic's payload, or a MessageError. subscribed: the topics to
    subscribe to at first, by their bytes on the wire (`words`); absent: all. problems: what was wrong last, by reason.
    """

    def __init__(
        self, topics: Iterable[str], read: Callable[[bytes, bytes], T], subscribed: Collection[str] | None = None
    ) -> None:
        self._topics = {word.encode(): word for word in topics}
        self._read = read
        self.words = {bits: word for bits, word in self._topics.items() if subscribed is None or word in subscribed}
        self.counts: Counter[str] = Counter()
        self.problems: dict[str, str] = {}

    def take(self, topic: bytes, payload: bytes) -> tuple[str, T] | None:
        """The content with its topic word, or None after counting why not."""
        # ZeroMQ matches by prefix: a subscription to "state" also lets "state2" through.
        word = self._topics.get(topic)
        if word is None:
            self.counts["topic"] += 1
            self.problems["topic"] = f"{topic[:20].decode(errors='replace')}: no topic of a machine"
            return None
        try:
            return word, self._read(topic, payload)
        except MessageError as error:
            self.counts[error.reason] += 1
            self.problems[error.reason] = f"{word}: {error}"
            return None


def message_intake(wanted: Wanted) -> Intake[Message]:
    """The intake of typed messages; ValueError for an unknown topic."""
    words = sorted({word for asked in wanted.values() for word in asked})
    for word in words:
        topic_named(word)
    return Intake(words, decode)


def undecoded(topic: bytes, payload: bytes) -> bytes:  # noqa: ARG001  (as an intake calls it)
    """The payload as it came."""
    return payload


def subscriptions_expected(node: str, subscribers: Iterable[Wanted]) -> int:
    """The number of subscriptions that the publisher of `node` will get from these subscribers.

    A subscriber's socket sends all its topic words to every node it connects to, so each counts with all of
    its words at each of its nodes.
    """
    return sum(len(message_intake(wanted).words) for wanted in subscribers if node in wanted)
