"""ZeroMQ's wire protocol (ZMTP 3, without security) on a Unix socket that never blocks."""

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


def ready(kind: bytes) -> bytes:
    """The command that tells the peer the kind of our socket."""
    return frame(b"\x05READY" + _SOCKET_TYPE + struct.pack(">I", len(kind)) + kind, COMMAND)


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
    """

    def __init__(self, opened: socket.socket, kind: bytes, peers: frozenset[bytes], largest: int, piece: int) -> None:
        opened.setblocking(False)
        self.fd = opened.fileno()
        self.handshake_done = False  # whether the peer has told its kind
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
            self.send(GREETING + ready(kind))

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
        if (self.exhausted or not self.has_more()) and not self._read_piece():
            return
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
            if flags & COMMAND:
                if (message := self._command(came[begin:end])) is not None:
                    yield message
                continue
            if not self.handshake_done:
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
        came, at = self._came, self._at
        left = len(came) - at
        if not self._greeted or left < 2:
            return False
        size = 2 + came[at + 1] if not came[at] & LONG else 9 + _LENGTH.unpack_from(came, at + 1)[0] if left >= 9 else 9
        return left >= size

    def close(self) -> None:
        """Close it; what was sent still arrives, as far as the peer reads it."""
        with contextlib.suppress(OSError):
            self.flush()
        self._socket.close()

    def _read_piece(self) -> bool:
        """Whether a piece has come."""
        self.drained, size = True, max(self._piece, self._missing)
        try:
            data = self._recv(size)
        except BlockingIOError:
            return False
        self.drained = len(data) < size
        if not data:
            raise ConnectionResetError("hung up")
        self._came = self._came[self._at :] + data if self._at < len(self._came) else data
        self._at, self.exhausted = 0, False
        return True

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

    def _command(self, body: bytes) -> list[bytes] | None:
        """Carry out a command; a subscription comes out as the message that it was before ZMTP 3.1."""
        if not self.handshake_done:
            if kind_in(body) not in self._peers:
                raise Refused("type")
            self.handshake_done = True
        elif body[:5] == b"\x04PING":
            self.send(frame(b"\x04PONG" + body[7:23], COMMAND))
        elif body[:10] == b"\x09SUBSCRIBE":
            return [b"\x01" + body[10:]]
        elif body[:7] == b"\x06CANCEL":
            return [b"\x00" + body[7:]]
        return None
