"""An unknown process that speaks CURVE to an address of a run: with keys that may not enter, or half of a handshake.

python key_strangers.py WHAT PORT SECONDS SERVER_KEY PUBLIC SECRET      keys: as Z85; SERVER_KEY is the run's
"""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import zmq

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32)
HELLO = b"\x04\xc8\x05HELLO\x01\x00" + bytes(192)  # of the right size, with a box that nobody can open
CLIENTS, HALVES = 40, 300  # at once


def subscribers(port: int, keys: list[bytes]) -> Iterator[None]:
    """Subscribers with these keys, which connect again as fast as libzmq does."""
    server, public, secret = keys
    with zmq.Context() as context:
        for _ in range(CLIENTS):
            opened = context.socket(zmq.SUB)
            opened.setsockopt(zmq.LINGER, 0)
            opened.setsockopt(zmq.RECONNECT_IVL, 1)
            opened.curve_serverkey, opened.curve_publickey, opened.curve_secretkey = server, public, secret
            opened.subscribe(b"")
            opened.connect(f"tcp://127.0.0.1:{port}")
        while True:
            yield


def false_server(port: int, keys: list[bytes]) -> Iterator[None]:
    """Subscribers that take the run for somebody else."""
    return subscribers(port, [zmq.curve_keypair()[0], *keys[1:]])


def unknown(port: int, keys: list[bytes]) -> Iterator[None]:
    """Subscribers that know the run's key and have one of their own that nobody trusts."""
    return subscribers(port, [keys[0], *zmq.curve_keypair()])


def halves(port: int, _: list[bytes]) -> Iterator[None]:
    """Connections that stay in the middle of a handshake, after a greeting or a false HELLO."""
    held: list[socket.socket] = []
    for number in itertools.count():
        with contextlib.suppress(OSError):
            held.append(connected(port, GREETING if number % 2 else GREETING + HELLO))
        if len(held) > HALVES:
            held.pop(0).close()
        yield


def storm(port: int, _: list[bytes]) -> Iterator[None]:
    """Connections that are closed as soon as they are made."""
    while True:
        with contextlib.suppress(OSError):
            connected(port, GREETING).close()
        yield


def connected(port: int, says: bytes) -> socket.socket:
    """A connection on which this was said; OSError where nobody takes it at once."""
    opened = socket.socket()
    opened.settimeout(0.05)
    try:
        opened.connect(("127.0.0.1", port))
        opened.send(says)
    except OSError:
        opened.close()
        raise
    return opened


# "false role" has a pair that the run trusts for another role than that of its machine
WHAT: dict[str, Callable[[int, list[bytes]], Iterator[None]]] = {
    "false server": false_server,
    "unknown": unknown,
    "false role": subscribers,
    "halves": halves,
    "storm": storm,
}


def main(what: str, port: str, seconds: str, *keys: str) -> None:
    """Speak for so long."""
    os.nice(19)  # what is tried is the sockets, not how a computer shares out its cores
    end = time.monotonic() + float(seconds)
    for _ in WHAT[what](int(port), [key.encode() for key in keys]):
        time.sleep(0.0005)
        if time.monotonic() > end:
            os._exit(0)


@contextmanager
def key_stranger(what: str, port: int, keys: tuple[bytes, bytes, bytes], seconds: float = 60.0) -> Iterator[int]:
    """A process that does this; its id. keys: of the run, then the stranger's own pair."""
    words = [what, str(port), str(seconds), *(key.decode() for key in keys)]
    popen = subprocess.Popen([sys.executable, __file__, *words])
    try:
        yield popen.pid
    finally:
        popen.send_signal(signal.SIGKILL)
        popen.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
