"""A subscriber of libzmq, whose thread receives meanwhile; it is read in the caller's thread, within bounds.

And numbers from a foreign publisher: one field of each message of a topic, whatever else the message holds. A message
is a map of msgpack or JSON. It may say when it was sent: `sent_ns`, the monotonic clock of this computer.
"""

import select
import sys
import time
from collections import Counter
from typing import Any, Generic

import msgspec
import zmq

from servonode.bus.codec import BOUND, Intake, MessageError, T
from servonode.bus.descriptors import ensure_room
from servonode.bus.messages import MAX_PAYLOAD
from servonode.bus.zmq_io import DRAIN_NS, Reader, Socket, connect, new_context, open_socket

LOOKS = 16  # messages of a drain between two readings of the clock
RENEW_NS = 100_000_000  # between two connections to a publisher that breaks the protocol


class Subscriber(Generic[T]):
    """Receives the topics of its intake from some addresses, before or after these are bound.

    One socket serves all, so a topic asked of one publisher is taken from any of them. When a publisher restarts, the
    connection and the subscription come back by themselves.
    """

    def __init__(self, opened: Socket, intake: Intake[T], *addresses: str, persistent: bool = False) -> None:
        """opened: a SUB socket that this closes.

        persistent: connect again to one that broke the protocol too, which libzmq alone never does.
        """
        self.reader = Reader(opened)
        self.counts = intake.counts  # refused messages by reason
        self._socket, self._intake = opened, intake
        self._monitor = opened.get_monitor_socket(zmq.EVENT_DISCONNECTED) if persistent else None
        self._disconnected = Reader(self._monitor) if self._monitor is not None else None
        self._is_broken, self._renew_ns = False, 0  # whether a connection has ended, and when it may be made again
        for word in intake.words:
            opened.setsockopt(zmq.SUBSCRIBE, word)
        self._addresses = [connect(opened, address) for address in addresses]

    @property
    def fd(self) -> int:
        """A descriptor that becomes readable when something may have come, unless `due` says 0."""
        return self.reader.fd

    def receive(self, bound: int = BOUND) -> list[tuple[str, T]]:
        """The waiting messages, oldest first, at most `bound`; never blocks. A topic's last is its newest.

        It ends after DRAIN_NS, so that a flooding peer delays no other work; what is left comes with the next call.
        """
        if self._disconnected is not None:
            self._mend(self._disconnected)
        taken: list[tuple[str, T]] = []
        read, take = self.reader.read, self._intake.take
        limit = 0
        for number in range(bound):
            if number % LOOKS == LOOKS - 1:
                now = time.monotonic_ns()
                limit = limit or now + DRAIN_NS
                if now > limit:
                    break
            frames = read()
            if frames is None:
                break
            if len(frames) != 2:
                self.counts["frames"] += 1
                text = f"a message has {len(frames)} frames; send the topic and one msgpack map"
                self._intake.problems["frames"] = text
            elif (message := take(frames[0], frames[1])) is not None:
                taken.append(message)
        return taken

    def wait(self, deadline_ns: int | None) -> bool:
        """Whether something came before the monotonic deadline [ns]; None waits for ever."""
        while not self.reader.waits():
            left = None if deadline_ns is None else (deadline_ns - time.monotonic_ns()) * 1e-9
            if left is not None and left <= 0:
                return False
            select.select([self.fd], (), (), left)
            self.reader.disturbed()
        return True

    def due(self) -> int | None:
        """0 where a drain ended early, for what waits gives no signal; else the time to connect again at, or None."""
        if self.reader.waits():
            return 0
        return self._renew_ns if self._is_broken else None

    def subscribe(self, word: bytes, wanted: bool = True) -> None:
        """Subscribe to a topic from now on, or no longer."""
        self._socket.setsockopt(zmq.SUBSCRIBE if wanted else zmq.UNSUBSCRIBE, word)
        self.reader.disturbed()

    def renew(self) -> None:
        """Connect again, at once."""
        for address in self._addresses:
            self._socket.disconnect(address)
            self._socket.connect(address)
        self.reader.disturbed()

    def _mend(self, disconnected: Reader) -> None:
        """Connect again where a connection has ended, RENEW_NS after the last time at the earliest.

        All that is told of it is read: libzmq's thread stops where too much of it waits.
        """
        for _ in range(BOUND):
            if disconnected.read() is None:
                break
            self._is_broken = True
        if self._is_broken and (now := time.monotonic_ns()) >= self._renew_ns:
            self._is_broken, self._renew_ns = False, now + RENEW_NS
            self.renew()

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        if self._monitor is not None and not self._socket.closed:
            self._socket.disable_monitor()
            self._monitor.close(linger=0)
        self._socket.close(linger=0)


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
