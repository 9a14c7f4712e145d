"""ZeroMQ's wire protocol (ZMTP 3, without security) on a socket that never blocks, for peers that are not trusted.

Nodes serve their addresses with this instead of libzmq, also that for an external plant. libzmq sets no bound to what a
peer makes it do: it works off all subscriptions that wait in the thread that publishes (45 to 220 ms for a flood, with
frames of at most 64 bytes, XPUB_MANUAL and a short queue too) and keeps them all, collects a message of any number of
parts in memory, accepts the protocol of 2010 from any peer, and ends the process when it gets no descriptor.
"""

import contextlib
import socket
import struct
from collections.abc import Iterator

MORE, LONG, COMMAND = 1, 2, 4  # flags of a frame
LARGEST_COMMAND = 512  # bytes
MOST_PARTS = 16  # of one message; ours have two
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_LENGTH = struct.Struct(">Q")
_SOCKET_TYPE = b"\x0bSocket-Type"
# A property without value: the peer reads only now and then, and asks that more messages wait for it.
_PATIENT = b"\x09X-Patient" + bytes(4)


class Refused(ConnectionError):
    """Data of a peer that ends the connection; `reason` is one of the codec's REASONS, for counting."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"connection ended ({reason})")
        self.reason = reason


def frame(body: bytes, flags: int = 0) -> bytes:
    """One frame as it is sent."""
    if len(body) < 256:
        return bytes((flags, len(body))) + body
    return bytes((flags | LONG,)) + _LENGTH.pack(len(body)) + body


def ready(kind: bytes, patient: bool = False) -> bytes:
    """The command that tells the peer the kind of our socket, and whether it is patient."""
    body = b"\x05READY" + _SOCKET_TYPE + struct.pack(">I", len(kind)) + kind
    return frame(body + _PATIENT if patient else body, COMMAND)


def kind_in(body: bytes) -> bytes:
    """The kind of socket that a READY command names; Refused ("malformed") if it names none."""
    if body[:6] != b"\x05READY":
        raise Refused("malformed")
    at = 6
    while at < len(body):
        value = at + 1 + body[at] + 4
        end = value + int.from_bytes(body[value - 4 : value])
        if body[at : value - 4].lower() == _SOCKET_TYPE.lower():
            return body[value:end]
        at = end
    raise Refused("malformed")


class Connection:
    """A connection to one peer. The greeting is sent at once; frames are read in pieces, and frames that the peer does
    not read are dropped.

    kind: of our end; peers: the kinds of socket that the peer may have; largest: bytes of a frame that it may send.
    patient: whether we read only now and then, so that the peer is asked to let more wait.
    """

    def __init__(
        self,
        opened: socket.socket,
        kind: bytes,
        peers: frozenset[bytes],
        largest: int,
        piece: int,
        now: int,
        patient: bool = False,
    ) -> None:
        opened.setblocking(False)
        self.fd = opened.fileno()
        self.since = self.used = now  # monotonic ns: when it was made, and when it last brought a message
        self.pid = 0  # the process at the other end, where the system tells
        self.shaken = False  # whether the handshake is complete: the peer has told its kind
        self.patient = False  # whether the peer reads only now and then
        self.wanted = False  # whether it is in use: it is not closed to make room for another
        self.spoken = 0  # frames that have come
        self.paused = False  # whether what it sends stays unread
        self.rest = b""  # the end of what was sent last that is still to go out
        self.drained = True  # the last read took all that the socket had
        self.exhausted = False  # and left no whole frame in `_came`; False: not known
        self._socket = opened
        self._recv, self._send = opened.recv, opened.send
        self._peers, self._largest, self._piece = peers, largest, piece
        self._came, self._at = b"", 0  # what was read, and how far it has been taken apart
        self._missing = 0  # bytes of the frame that has begun
        self._greeted = False
        self._parts: list[bytes] = []
        with contextlib.suppress(OSError):  # a peer that has closed already may have left something to read
            self.send(GREETING + ready(kind, patient))

    def send(self, data: bytes) -> None:
        """Send whole frames, or nothing where the peer does not read. Never blocks; OSError: it has closed."""
        if self.rest and not self.flush():
            return
        try:
            sent = self._send(data)
        except BlockingIOError:
            return
        if sent < len(data):
            self.rest = data[sent:]

    def flush(self) -> bool:
        """Send the rest of what was begun; whether all of it is sent."""
        with contextlib.suppress(BlockingIOError):
            self.rest = self.rest[self._send(self.rest) :] if self.rest else b""
        return not self.rest

    def read(self, most: int) -> Iterator[list[bytes]]:
        """Read one piece unless a whole frame waits; yields the messages that the first `most` frames complete.

        Raises Refused for what is not ZMTP 3, too large, or too many parts, and ConnectionError where it has closed.
        """
        if self.exhausted or not self.has_more():
            self.drained, size = True, max(self._piece, self._missing)
            try:
                data = self._recv(size)
            except BlockingIOError:
                return
            self.drained = len(data) < size
            if not data:
                raise ConnectionResetError("hung up")
            self._came = self._came[self._at :] + data if self._at < len(self._came) else data
            self._at, self.exhausted = 0, False
        if not self._greeted and not self._greet():
            return
        came, length = self._came, len(self._came)
        for _ in range(most):
            at = self._at
            if length - at < 2:
                self.exhausted = True
                return
            flags, size, begin = came[at], came[at + 1], at + 2
            if flags & LONG:
                if length - at < 9:
                    self.exhausted = True
                    return
                size, begin = _LENGTH.unpack_from(came, at + 1)[0], at + 9
            if flags > 7 or flags & (MORE | COMMAND) == MORE | COMMAND:
                raise Refused("malformed")
            if size > (LARGEST_COMMAND if flags & COMMAND else self._largest):
                raise Refused("length")
            end = begin + size
            if end > length:
                self._missing, self.exhausted = end - length, True
                return
            self._at, self._missing = end, 0
            self.spoken += 1
            if flags & COMMAND:
                if (message := self._command(came[begin:end])) is not None:
                    yield message
                continue
            if not self.shaken:
                raise Refused("malformed")
            parts = self._parts
            parts.append(came[begin:end])
            if len(parts) > MOST_PARTS:
                raise Refused("frames")
            if not flags & MORE:
                self._parts = []
                yield parts

    def has_more(self) -> bool:
        """Whether a whole frame has been read but not returned: the socket gives no signal of it."""
        return self._greeted and self._is_whole()

    def has_unread(self) -> bool:
        """Whether something waits that has not been read."""
        try:
            return bool(self._recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def keep_unread(self, size: int) -> None:
        """Have the system keep this many bytes that the peer has not read yet, as far as it allows."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def close(self) -> None:
        """Close it; unsent data is lost."""
        self._socket.close()

    def close_after_sending(self) -> None:
        """Close it so that what was sent still arrives, as far as the peer reads."""
        with contextlib.suppress(OSError):
            self.flush()
            self._socket.shutdown(socket.SHUT_WR)
            self._recv(65536)  # with something unread, tcp would discard what is in transit
        self._socket.close()

    def _greet(self) -> bool:
        """Whether the peer's greeting is here, of the protocol that we speak; Refused for any other."""
        came = self._came
        signature = came[:10]
        if (signature and signature[0] != 0xFF) or (len(signature) == 10 and not signature[9] & 1):
            raise Refused("malformed")  # the protocol of 2010, or not ZMTP at all
        if (len(came) > 10 and came[10] < 3) or (len(came) >= 32 and came[12:32] != GREETING[12:32]):
            raise Refused("malformed")
        if len(came) < len(GREETING):
            return False
        self._at, self._greeted = len(GREETING), True
        return True

    def _is_whole(self) -> bool:
        """Whether a whole frame has been read."""
        came, at = self._came, self._at
        left = len(came) - at
        if left < 2:
            return False
        size = 2 + came[at + 1] if not came[at] & LONG else 9 + _LENGTH.unpack_from(came, at + 1)[0] if left >= 9 else 9
        return left >= size

    def _command(self, body: bytes) -> list[bytes] | None:
        """Carry out a command; a subscription comes out as the message that it was before ZMTP 3.1."""
        if not self.shaken:
            if kind_in(body) not in self._peers:
                raise Refused("type")
            self.shaken, self.patient = True, _PATIENT in body
        elif body[:5] == b"\x04PING":
            self.send(frame(b"\x04PONG" + body[7:23], COMMAND))
        elif body[:10] == b"\x09SUBSCRIBE":
            return [b"\x01" + body[10:]]
        elif body[:7] == b"\x06CANCEL":
            return [b"\x00" + body[7:]]
        return None
