"""Unknown processes that know a tcp address with keys, and all that is public of it.

    python curve_strangers.py WHAT PORT SERVER_KEY SECONDS [OWN.key_secret]

They try again and again, with a few connections at a time.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import zmq
from zmq.auth import load_certificate

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
HELLO = b"\x04\xc8\x05HELLO\x01\x00" + bytes(72)  # as its receiver checks it before any key
AT_ONCE = 12  # connections
CROWD = 300  # of them: more than a run takes
Pair = tuple[bytes, bytes]  # a public and a secret key


class Clients:
    """Sockets of libzmq with these keys, each closed after some tries."""

    def __init__(self, port: int, server: bytes, own: Pair | None) -> None:
        self._context, self._address = zmq.Context(), f"tcp://127.0.0.1:{port}"
        self._server, self._own = server, own
        self._opened: deque[zmq.Socket[bytes]] = deque()

    def open_another(self) -> None:
        """Open one more, close the oldest."""
        opened = self._context.socket(zmq.SUB)
        opened.linger = 0
        opened.reconnect_ivl = 1
        opened.curve_serverkey = self._server
        opened.curve_publickey, opened.curve_secretkey = self._own or zmq.curve_keypair()
        opened.subscribe(b"")
        opened.connect(self._address)
        self._opened.append(opened)
        if len(self._opened) > AT_ONCE:
            self._opened.popleft().close()


class Connections:
    """Connections of which each says this, and stays until it is the oldest."""

    def __init__(self, port: int, said: Callable[[], bytes], at_once: int = AT_ONCE) -> None:
        self._place, self._said, self._at_once = ("127.0.0.1", port), said, at_once
        self._opened: deque[socket.socket] = deque()

    def open_another(self) -> None:
        """Open one more, close the oldest."""
        with contextlib.suppress(OSError):
            opened = socket.create_connection(self._place, 0.05)
            self._opened.append(opened)
            opened.send(self._said())
        while len(self._opened) > self._at_once:
            self._opened.popleft().close()


KINDS: dict[str, Callable[[int, bytes, Pair | None], Clients | Connections]] = {
    "unknown key": lambda port, server, _: Clients(port, server, None),
    "wrong server key": lambda port, _server, _: Clients(port, zmq.curve_keypair()[0], None),
    "wrong role": Clients,
    "half a handshake": lambda port, _server, _: Connections(port, lambda: GREETING + HELLO),
    "false handshake": lambda port, _server, _: Connections(port, lambda: GREETING + HELLO + os.urandom(120)),
    "reconnections": lambda port, _server, _: Connections(port, lambda: b"", 0),
    "crowd": lambda port, _server, _: Connections(port, lambda: GREETING + HELLO, CROWD),
}


@contextmanager
def curve_stranger(what: str, port: int, server: bytes, own: Path | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that does this; own: the secret key file that it has, if any."""
    words = [what, str(port), server.decode(), "60", *([str(own)] if own else [])]
    popen = subprocess.Popen([sys.executable, __file__, *words])
    try:
        yield popen
    finally:
        popen.send_signal(signal.SIGKILL)
        popen.wait()


def main(what: str, port: str, server: str, seconds: str, own: str = "") -> None:
    """Do this for so long."""
    os.nice(19)  # what is tried is the sockets, not how a computer shares out its cores
    public, secret = load_certificate(own) if own else (b"", None)
    strangers = KINDS[what](int(port), server.encode(), (public, secret) if secret else None)
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        strangers.open_another()
        time.sleep(0.002)


if __name__ == "__main__":
    main(*sys.argv[1:])
