"""The connection between the relays of a run on two computers: one tcp connection of libzmq, with keys.

One computer listens (ROUTER), the other connects (DEALER). Little waits in between: what a slow network does not take
in time is dropped, so that what arrives is recent.
"""

import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

import zmq

from servonode.bus.codec import BOUND, HWM, MessageError
from servonode.bus.curve import Authenticator
from servonode.bus.descriptors import ensure_room
from servonode.bus.envelope import LARGEST_ENVELOPE, Envelope, decode_envelope, encode_envelope
from servonode.bus.keys import TrustedKey
from servonode.bus.run_folder import BusError
from servonode.bus.zmq_io import DRAIN_NS, Context, Reader, Secure, Socket, connect, new_context, numeric, open_socket
from servonode.bus.zmq_publisher import ConnectionLimit, listen

QUEUE = 64  # messages that wait to be sent
SEND_BUFFER = 65536  # bytes that the system keeps of them
BEAT_MS, SILENT_MS = 250, 1000  # heartbeats; a peer that answers none for so long is connected to again
LAST_MS = 500  # for which what was sent last may still go out
RENEW_NS = 500_000_000  # from the end of a connection until it is made anew, where libzmq does not make it again

_BEGIN, _REFUSED = zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_HANDSHAKE_FAILED_AUTH

Peer = bytes  # whom to answer; b"" on the computer that connects
KEPT = 64  # exchanges of time stamps that count


class ClockOffset:
    """The offset of another computer's monotonic clock, and the delay of the link, of the newest exchanges, as in NTP.

    No decision rests on the offset: it is shown, and joins recordings. The exchange with the least delay bounds its
    error: the true offset differs by at most half of that delay.
    """

    def __init__(self) -> None:
        self._exchanges: deque[tuple[int, int]] = deque(maxlen=KEPT)  # delay there and back, offset [ns]

    def add(self, sent: int, came: int, answered: int, received: int) -> None:
        """Take one exchange: `sent` and `received` on our clock, `came` and `answered` on the other one [ns].

        An exchange whose times are not in order is ignored: the peer's clock went backwards.
        """
        delay = (received - sent) - (answered - came)
        if answered >= came and delay >= 0:
            self._exchanges.append((delay, ((came - sent) + (answered - received)) // 2))

    def forget(self) -> None:
        """Forget all exchanges: the other computer has started anew."""
        self._exchanges.clear()

    def values(self) -> dict[str, float]:
        """The offset, its largest error, and the median and the largest delay there and back [s]; empty: not known."""
        if not self._exchanges:
            return {}
        delays = sorted(delay for delay, _ in self._exchanges)
        return {
            "offset_s": min(self._exchanges)[1] / 1e9,  # of the exchange with the least delay
            "offset_error_s": delays[0] / 2e9,
            "delay_s": delays[len(delays) // 2] / 1e9,
            "delay_max_s": delays[-1] / 1e9,
        }


class Tunnel:
    """Sends and receives envelopes; no call blocks.

    keys, secure: say which keys may connect, or which one the other computer must have; None: a tunnel without keys.
    server: where this computer connects, the name under which the other's key is trusted.
    BusError where the address cannot be bound, or its host is not known.
    """

    def __init__(
        self,
        address: str,
        listens: bool,
        keys: Authenticator | None = None,
        secure: Secure | None = None,
        server: str = "",
    ) -> None:
        ensure_room()
        self.counts: Counter[str] = Counter()
        self._keys, self._listens, self._server = keys, listens, server
        self._public = key.public if keys is not None and (key := keys.store.trusted_as(server)) else b""
        self.key_refused = False  # whether the computer that listens has refused our key, as far as it has said so
        self._context: Context = new_context()
        if keys is not None:
            keys.counts = self.counts
        kind = zmq.ROUTER if self._listens else zmq.DEALER
        self._socket = open_socket(self._context, kind, secure, LARGEST_ENVELOPE, QUEUE)
        # a full queue of what has come, and then a dead connection, can end the process (libzmq issue 4841)
        self._socket.setsockopt(zmq.RCVHWM, HWM)
        self._socket.setsockopt(zmq.SNDBUF, SEND_BUFFER)
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, BEAT_MS)
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, SILENT_MS)
        self._limit: ConnectionLimit | None = None
        self._monitor: Socket | None = None
        self._renew_ns = 0  # when to connect again; 0: never
        try:
            self._address = numeric(address)
            self._open(self._address)
        except BusError:
            self.close()
            raise
        self._reader = Reader(self._socket, keyed=keys is not None and listens)

    def _open(self, address: str) -> None:
        if self._listens:
            self._limit = ConnectionLimit(self._socket, listen(address), self.counts)
        else:
            self._socket.setsockopt(zmq.IMMEDIATE, 1)  # nothing waits for a connection, to come late
            self._monitor = self._socket.get_monitor_socket(_BEGIN | _REFUSED | zmq.EVENT_DISCONNECTED)
            self._events = Reader(self._monitor)
            connect(self._socket, address)

    @property
    def own_key(self) -> str:
        """The name of our own key; empty: the tunnel has none."""
        return self._keys.own_key if self._keys is not None else ""

    def _mend(self, now: int) -> None:
        """Connect again where libzmq does not: after an end that the other computer has given a reason for."""
        for told in islice(iter(self._events.read, None), QUEUE):
            event = int.from_bytes(told[0][:2], sys.byteorder)
            self.key_refused = event == _REFUSED or (self.key_refused and event != _BEGIN)
            self.counts["key_refused"] += event == _REFUSED
            self._renew_ns = 0 if event == _BEGIN else now + RENEW_NS
        if self._renew_ns and now >= self._renew_ns:
            self._renew_ns = 0
            self._socket.disconnect(self._address)
            self._socket.connect(self._address)
            self._reader.disturbed()

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable when something may have come, or somebody wants to connect."""
        return (self._reader.fd,) if self._keys is None or not self._listens else (self._reader.fd, self._keys.fd)

    def waits(self) -> bool:
        """Whether something has come that no descriptor tells of any more."""
        return self._reader.waits()

    def look(self, now: int) -> int:
        """Answer for keys, keep too many connections out; when to look again [monotonic ns], 0: when a fd tells."""
        if self._limit is not None:
            self._limit.look()
        if self._monitor is not None:
            self._mend(now)
        if self._keys is None or not self._listens:
            return 0
        if now >= self._keys.due_ns:
            self._keys.look(now)
        return self._keys.wake_ns

    def receive(self, take: Callable[[Peer, TrustedKey | None, Envelope], None], bound: int = BOUND) -> None:
        """Give `take` what has come, for DRAIN_NS: from whom, with which key (None: without keys), the envelope."""
        limit = time.monotonic_ns() + DRAIN_NS
        for frames in islice(iter(self._reader.read, None), bound):
            peer = frames.pop(0) if self._listens else b""
            key = self._key()
            if key is None and self._keys is not None:
                self.counts["revoked_key"] += 1
            else:
                try:
                    envelope = decode_envelope(frames)
                except MessageError:
                    self.counts["refused_frames"] += 1
                else:
                    take(peer, key, envelope)
            if time.monotonic_ns() > limit:
                return

    def _key(self) -> TrustedKey | None:
        """The key of the message read last, as it is trusted now."""
        if self._keys is None:
            return None
        if self._listens:
            return self._keys.key_of(self._reader.user)
        key = self._keys.store.trusted_as(self._server)
        return key if key is not None and key.public == self._public else None  # else another one has that name now

    def send(self, peer: Peer, envelope: Envelope) -> None:
        """Send it; it is dropped where the network does not take it, and counted where that is known."""
        frame = encode_envelope(envelope)
        try:
            self._reader.send(*((peer, frame) if self._listens else (frame,)))
        except zmq.Again:
            self.counts["dropped"] += 1

    def close(self) -> None:
        """Send what waits, for LAST_MS at most, and close; a second call does nothing."""
        if self._limit is not None:
            self._limit.close()
        if self._monitor is not None and not self._socket.closed:
            self._socket.disable_monitor()
            self._monitor.close(linger=0)
        if not self._socket.closed:
            self._socket.close(linger=LAST_MS)
            if self._keys is not None:
                self._keys.close()
            with suppress(zmq.ZMQError):
                self._context.term()
