"""An unknown process on the same computer that sends, or does not send, to a socket of a run.

    python strangers.py WHAT PLACE SECONDS      PLACE: a Unix socket's path or a port of 127.0.0.1

It uses nothing but sockets, so that no library keeps it from anything, and connects again where its connection is
closed.
"""

import contextlib
import itertools
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
NEVER = 2**64 - 1
STATUS = b"\x81\xa3ask\xa6status"
CROWD = 1100  # connections


def frame(body: bytes, flags: int = 0) -> bytes:
    """One frame of ZMTP 3; flags: 1 more, 4 command."""
    if len(body) > 255:
        return bytes([flags | 2]) + struct.pack(">Q", len(body)) + body
    return bytes([flags, len(body)]) + body


def opening(kind: bytes) -> bytes:
    """Greeting and handshake of a socket of this kind."""
    return GREETING + frame(b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind, 4)


def asking(payload: bytes = STATUS) -> bytes:
    """A request that never expires: number, no ticket."""
    return frame(struct.pack("<Q16xQ", 1, NEVER), 1) + frame(payload)


def legacy(body: bytes, flags: int = 0) -> bytes:
    """One frame of ZMTP 1: its length counts the flags."""
    return bytes([len(body) + 1, flags]) + body


def subscriptions(count: int) -> Iterator[bytes]:
    """Distinct subscriptions, a thousand at a time."""
    for begin in range(0, count, 1000):
        yield b"".join(frame(b"\x01%050d" % number) for number in range(begin, begin + 1000))


Pieces = Callable[[], Iterator[bytes]]


def on_and_on(first: bytes, then: bytes) -> Pieces:
    """Something, and then the other without end."""
    return lambda: itertools.chain([first], itertools.repeat(then))


SUBSCRIBER, CLIENT = opening(b"SUB"), opening(b"DEALER")
SAYS: dict[str, tuple[int, Pieces]] = {  # at how many connections, and what on each, after which it stays
    "silent": (CROWD, lambda: iter(())),
    "idle": (CROWD, lambda: iter([CLIENT])),
    "many subscriptions": (1, lambda: itertools.chain([SUBSCRIBER], subscriptions(100_000))),
    "subscriptions come and go": (4, on_and_on(SUBSCRIBER, (frame(b"\x01state") + frame(b"\x00state")) * 500)),
    "requests": (16, on_and_on(CLIENT, asking() * 100)),
    "stream": (1, on_and_on(opening(b"XSUB"), frame(b"x" * 65000))),
}
PUBLISHER = opening(b"PUB")
PUBLISHES: dict[str, Pieces] = {  # in the place of a machine, to who connects
    "stream of messages": lambda: itertools.repeat((frame(b"state", 1) + frame(b"x" * 65000)) * 8),
    "endless message": lambda: itertools.repeat((frame(b"state", 1)) * 4000),
    "large parts without end": lambda: itertools.repeat(frame(b"x" * 65000, 1) * 8),
    "damaged states": lambda: itertools.repeat((frame(b"state", 1) + frame(b"\x8f" + b"\xa1t\x01" * 20)) * 400),
    "nothing, and hangs up": lambda: iter(()),
    "empty frames out": lambda: itertools.repeat(frame(b"") * 8000),
}


def connected(place: str) -> socket.socket:
    """A connection to a path, or to a port of this computer; OSError where nobody takes it at once."""
    opened = socket.socket(socket.AF_INET if place.isdecimal() else socket.AF_UNIX, socket.SOCK_STREAM)
    opened.settimeout(0.05)
    try:
        opened.connect(("127.0.0.1", int(place)) if place.isdecimal() else place)
    except OSError:
        opened.close()
        raise
    opened.setblocking(False)
    return opened


class Voice:
    """One connection that sends its pieces as fast as they are read, and connects again when it is closed."""

    def __init__(self, place: str, pieces: Pieces) -> None:
        self._place, self._pieces = place, pieces
        self._socket: socket.socket | None = None

    def speaks(self) -> None:
        """Say what is taken now."""
        if self._socket is None:
            try:
                self._socket, self._says, self._left = connected(self._place), self._pieces(), b""
            except OSError:
                return
        try:
            with contextlib.suppress(BlockingIOError):
                while self._socket.recv(65536):
                    pass
                raise ConnectionResetError
            while self._left or (left := next(self._says, b"")):
                self._left = self._left or left
                self._left = self._left[self._socket.send(self._left) :]
        except BlockingIOError:
            pass
        except OSError:
            self._socket.close()
            self._socket = None


def publish(what: str, place: str, seconds: float) -> None:
    """Publish for so long to one after the other that connects."""
    with socket.socket(socket.AF_INET if place.isdecimal() else socket.AF_UNIX, socket.SOCK_STREAM) as opened:
        opened.bind(("127.0.0.1", int(place)) if place.isdecimal() else place)
        opened.listen()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            peer, _ = opened.accept()
            with peer, contextlib.suppress(OSError):
                peer.sendall(PUBLISHER)
                peer.recv(65536)
                for piece in PUBLISHES[what]():
                    peer.sendall(piece)


def main(what: str, place: str, seconds: float) -> None:
    """Speak for so long."""
    os.nice(19)  # what is tried is the sockets, not how a computer shares out its cores
    if what in PUBLISHES:
        publish(what, place, seconds)
        return
    count, pieces = SAYS[what]
    voices = [Voice(place, pieces) for _ in range(count)]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for voice in voices:
            voice.speaks()
        time.sleep(0.0002)


@contextmanager
def stranger(what: str, place: str | int, seconds: float = 60.0) -> Iterator[int]:
    """A process that does this; its id."""
    popen = subprocess.Popen([sys.executable, "-S", __file__, what, str(place), str(seconds)])
    try:
        yield popen.pid
    finally:
        popen.send_signal(signal.SIGKILL)
        popen.wait()


def raw_garbage(place: str | int, rng: random.Random) -> None:
    """Bytes that are not even ZeroMQ's, to a Unix socket or a tcp port of this computer."""
    kind = socket.AF_UNIX if isinstance(place, str) else socket.AF_INET
    greeting = bytes.fromhex("ff00000000000000017f03014e554c4c") + bytes(48)  # ZeroMQ's own, then anything
    with socket.socket(kind, socket.SOCK_STREAM) as opened, contextlib.suppress(OSError):
        opened.settimeout(1.0)
        opened.connect(place if isinstance(place, str) else ("127.0.0.1", place))
        opened.sendall((greeting if rng.random() < 0.5 else b"") + rng.randbytes(rng.randrange(1, 5000)))


def framed_garbage(place: str | int, rng: random.Random) -> None:
    """Well-framed ZeroMQ messages whose content is not a message, from every kind of socket."""
    import zmq  # which the processes that speak do not load

    address = f"ipc://{place}" if isinstance(place, str) else f"tcp://127.0.0.1:{place}"
    with zmq.Context() as context:
        for kind in (zmq.DEALER, zmq.XSUB, zmq.PUSH, zmq.REQ):
            opened = context.socket(kind)
            opened.setsockopt(zmq.LINGER, 50)
            opened.setsockopt(zmq.SNDTIMEO, 50)
            opened.connect(address)
            with contextlib.suppress(zmq.ZMQError):
                for _ in range(20):
                    frames = [rng.randbytes(rng.randrange(0, 300)) for _ in range(rng.randrange(1, 5))]
                    if rng.random() < 0.3:
                        frames = [b"\x01" + frames[0]] if rng.random() < 0.5 else [bytes(32), *frames]
                    opened.send_multipart(frames)
            opened.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
