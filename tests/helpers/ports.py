"""Ports of this computer for tests: each is given once, below those that the system gives to whoever asks for any.

Between the test that asks and the process that is told to use a port nobody else can get it.
"""

import os
import random
import socket
from collections.abc import Iterator

FIRST, MANY, BLOCKS = 20_000, 2_000, 6  # a block of ports for each worker of pytest-xdist; Linux begins at 32768


def _block() -> Iterator[int]:
    """The ports of this worker, round and round from one at random."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    first, at = FIRST + MANY * (int(worker) % BLOCKS), random.randrange(MANY)
    while True:
        yield first + at
        at = (at + 1) % MANY


_ports = _block()


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port of 127.0.0.1, tcp or (SOCK_DGRAM) udp, that nobody uses."""
    for _, port in zip(range(MANY), _ports, strict=False):
        with socket.socket(socket.AF_INET, kind) as opened:
            try:
                opened.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"none of {MANY} ports from {FIRST} on is free")
