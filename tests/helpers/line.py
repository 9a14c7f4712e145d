"""A serial line with a baud rate between two pseudo-terminals, which have none: bytes take their time, buffers fill.

What the line has not sent yet waits in its buffer of `room` bytes, as in a UART's; then the writer must wait, for a
terminal that nobody reads takes no more.
"""

import os
import pty
import select
import threading
import time
import tty
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Self

BITS = 10  # of a byte, with its start and stop bit


class Direction:
    """One direction of a line: the bytes on their way, and how many have passed."""

    def __init__(self, source: int, sink: int, baud: float, room: int) -> None:
        self.source, self.sink = source, sink
        self.passed = 0
        self._byte_s, self._room = BITS / baud, room
        self._waiting: deque[bytes] = deque()
        self._queued, self._free = 0, 0.0

    @property
    def listens(self) -> bool:
        """Whether its buffer has room."""
        return self._queued < self._room

    def take(self) -> None:
        """Read what has been written, as far as there is room."""
        with suppress(OSError):
            data = os.read(self.source, self._room - self._queued)
            if not self._waiting:
                self._free = max(self._free, time.monotonic())
            self._waiting.extend(data[i : i + 1] for i in range(len(data)))
            self._queued += len(data)

    def pass_on(self) -> None:
        """Let the bytes arrive whose time has come."""
        due = []
        while self._waiting and self._free + self._byte_s <= time.monotonic():
            due.append(self._waiting.popleft())
            self._free += self._byte_s
        self._queued -= len(due)
        self.passed += len(due)
        if due:
            with suppress(OSError):
                os.write(self.sink, b"".join(due))

    def wait_s(self) -> float:
        """How long until something arrives."""
        return max(self._free + 8 * self._byte_s - time.monotonic(), 0.0) if self._waiting else 0.05


class Line:
    """A line from the terminal `board` to a new one, to which `port` links, in a thread. A context manager."""

    def __init__(self, board: Path, port: Path, baud: float, room: int = 64) -> None:
        self._board, self._port, self._baud, self._room = board, port, baud, room
        self._lock = threading.Lock()
        self.bytes = [0, 0]  # that have passed: to the board, to the host
        self._ended = False
        self.plug()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def plug(self) -> None:
        """Connect both ends."""
        device = os.open(self._board, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        tty.setraw(device)
        host, other = pty.openpty()
        tty.setraw(other)
        os.set_blocking(host, False)
        new = self._port.with_suffix(".new")
        new.symlink_to(os.ttyname(other))
        new.replace(self._port)
        with self._lock:
            self._open = (device, host, other)
            ends = ((host, device), (device, host))
            self._ways = [Direction(*each, self._baud, self._room) for each in ends]

    def pull(self) -> None:
        """Pull the cable; `plug` puts it back."""
        with self._lock:
            self.bytes = [before + way.passed for before, way in zip(self.bytes, self._ways, strict=True)]
            self._ways = []
            for each in self._open:
                os.close(each)
            self._port.unlink(missing_ok=True)

    def traffic(self) -> list[int]:
        """The bytes that have passed: to the board, to the host."""
        with self._lock:
            return [n + way.passed for n, way in zip(self.bytes, self._ways or [_NOTHING] * 2, strict=True)]

    def _serve(self) -> None:
        while not self._ended:
            with self._lock:
                for way in self._ways:
                    way.pass_on()
                ears = [way.source for way in self._ways if way.listens]
                ready = select.select(ears, [], [], 0)[0] if ears else []
                for way in self._ways:
                    if way.source in ready:
                        way.take()
                wait_s = min((way.wait_s() for way in self._ways), default=0.01)
            if not ready:
                select.select(ears, [], [], min(wait_s, 0.01))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()
        if self._ways:
            self.pull()


class _Nothing:
    passed = 0


_NOTHING = _Nothing()
