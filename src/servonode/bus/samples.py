"""Numbers from a foreign publisher: one field of each message of a topic, whatever else the message holds."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import zmq

from servonode.bus.descriptors import ensure_room
from servonode.bus.messages import MAX_PAYLOAD
from servonode.bus.zmq_io import new_context, open_socket
from servonode.bus.zmq_subscriber import Subscriber


class FieldIntake:
    """Takes the number at a path such as `state.x` or `pose.0` out of msgpack maps; counts the others, by reason."""

    def __init__(self, topic: str, path: str) -> None:
        self.words: Mapping[bytes, str] = {topic.encode(): topic}
        self.counts: Counter[str] = Counter()
        self._path = path.split(".")

    def take(self, topic: bytes, payload: bytes) -> tuple[str, float] | None:
        """The number with its topic, or None after counting why not."""
        word = self.words.get(topic)
        if word is None:
            self.counts["topic"] += 1
            return None
        if len(payload) > MAX_PAYLOAD:
            self.counts["length"] += 1
            return None
        try:
            value: Any = msgspec.msgpack.decode(payload)
            for key in self._path:
                value = value[int(key)] if isinstance(value, list) else value[key]
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            self.counts["malformed"] += 1
            return None
        except (KeyError, IndexError, ValueError, TypeError):
            self.counts["missing"] += 1
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.counts["type"] += 1
            return None
        return word, float(value)


class Samples:
    """The numbers of one field that a publisher at a Unix socket sends; no call blocks."""

    def __init__(self, address: str, topic: str, path: str) -> None:
        self._intake = FieldIntake(topic, path)
        ensure_room()
        self._context = new_context()
        self._subscriber = Subscriber(open_socket(self._context, zmq.SUB), self._intake, address, persistent=True)

    @property
    def counts(self) -> Counter[str]:
        """The number of refused messages, by reason."""
        return self._intake.counts

    def newest(self) -> float | None:
        """The newest number of those that have come since the last call; None: none has."""
        found = self._subscriber.receive()
        return found[-1][1] if found else None

    def close(self) -> None:
        """Free everything."""
        self._subscriber.close()
        self._context.term()
