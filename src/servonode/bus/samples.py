"""Numbers from a foreign publisher: one field of each message of a topic, whatever else the message holds.

A message is a map of msgpack or JSON. It may say when it was sent: `sent_ns`, the monotonic clock of this computer.
"""

import sys
import time
from collections import Counter
from typing import Any

import msgspec
import zmq

from servonode.bus.codec import MessageError
from servonode.bus.descriptors import ensure_room
from servonode.bus.interfaces import Intake
from servonode.bus.messages import MAX_PAYLOAD
from servonode.bus.zmq_io import new_context, open_socket
from servonode.bus.zmq_subscriber import Subscriber


class FieldReader:
    """Reads the number at a path such as `state.x` or `pose.0` in a map.

    timeout: the age [s] from which a message that says when it was sent is late.
    """

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path.split(".")
        self._timeout_ns = round(timeout * 1e9)
        self._sent_ns = -1  # of the newest message that says so

    def __call__(self, topic: bytes, payload: bytes) -> float:  # noqa: ARG002  (as an intake calls it)
        """The number in a payload. MessageError where there is no number, or the message came too late."""
        if len(payload) > MAX_PAYLOAD:
            raise MessageError("length")
        try:
            found: Any = (msgspec.json if payload[:1] == b"{" else msgspec.msgpack).decode(payload)
            value = found
            for key in self._path:
                value = value[int(key)] if isinstance(value, list) else value[key]
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            raise MessageError("malformed") from None
        except (KeyError, IndexError, ValueError, TypeError):
            raise MessageError("missing") from None
        largest = sys.float_info.max  # which neither NaN nor an integer of any length passes
        if isinstance(value, bool) or not isinstance(value, int | float) or not -largest <= value <= largest:
            raise MessageError("type")
        if isinstance(found, dict) and (reason := self._untimely(found.get("sent_ns"))):
            raise MessageError(reason)
        return float(value)

    def _untimely(self, sent_ns: Any) -> str:
        """Why the time at which a message was sent refuses it; empty where it does not, or was not given."""
        if sent_ns is None:
            return ""
        if isinstance(sent_ns, bool) or not isinstance(sent_ns, int):
            return "type"
        now = time.monotonic_ns()
        if not now - self._timeout_ns <= sent_ns <= now:
            return "late"
        if sent_ns <= self._sent_ns:
            return "replayed"
        self._sent_ns = sent_ns
        return ""


class Samples:
    """The numbers of one field that a publisher at a Unix socket sends; no call blocks."""

    def __init__(self, address: str, topic: str, path: str, timeout: float) -> None:
        self._intake = Intake([topic], FieldReader(path, timeout))
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
