"""A serial line with a baud rate between two pseudo-terminals, which have none: bytes take their time, buffers fill.

What the line has not sent yet waits in its buffer of `room` bytes, as in a UART's; then the writer must wait, for a
terminal that nobody reads takes no more. The line is a process of its own, so that a test that computes delays no byte.
"""

import os
import pty
import select
import subprocess
import sys
import time
import tty
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Self

if __name__ != "__main__":
    from tests.helpers.host import as_hardware

BITS = 10  # of a byte, with its start and stop bit
LONGEST_S = 0.001  # between two looks at bytes on their way
IDLE_S = 1.0


class Line:
    """A line from the terminal `board` to a new one, to which `port` links. A context manager that ends it."""

    def __init__(self, board: Path, port: Path, baud: float, room: int = 64) -> None:
        command = [sys.executable, "-IS", __file__, *map(str, (board, port, baud, room))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        as_hardware(self._process.pid)
        self.plug()

    def plug(self) -> None:
        """Connect both ends."""
        self._order("plug")

    def pull(self) -> None:
        """Pull the cable; `plug` puts it back."""
        self._order("pull")

    def traffic(self) -> list[int]:
        """The bytes that have passed: to the board, to the host."""
        return self._order("traffic")

    def _order(self, word: str) -> list[int]:
        """Have the line carry out a word; the bytes that have passed by then."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        assert answer, f"the line has ended with {self._process.wait()}"
        return list(map(int, answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


class Direction:
    """One direction of a line: the bytes on their way, and how many have passed."""

    def __init__(self, source: int, sink: int, baud: float, room: int) -> None:
        self.source = source
        self.passed = 0
        self._sink, self._room, self._byte_s = sink, room, BITS / baud
        self._look_s = min(room / 2 * self._byte_s, LONGEST_S)
        self._waiting: deque[int] = deque()
        self._free = 0.0  # when the byte before the first waiting one has passed

    @property
    def has_room(self) -> bool:
        """Whether its buffer takes more."""
        return len(self._waiting) < self._room

    def take(self) -> None:
        """Read what has been written, as far as there is room."""
        with suppress(OSError):
            data = os.read(self.source, self._room - len(self._waiting))
            if not self._waiting:
                self._free = max(self._free, time.monotonic())
            self._waiting.extend(data)

    def pass_on(self) -> None:
        """Let the bytes arrive whose time has come."""
        count = min(int((time.monotonic() - self._free) / self._byte_s), len(self._waiting))
        if count > 0:
            self._free += count * self._byte_s
            self.passed += count
            with suppress(OSError):
                os.write(self._sink, bytes(self._waiting.popleft() for _ in range(count)))

    def wait_s(self) -> float:
        """How long until something arrives."""
        return max(self._free + self._look_s - time.monotonic(), 0.0) if self._waiting else IDLE_S


class Wire:
    """Both directions between the terminal `board` and a new one, to which `port` links."""

    def __init__(self, board: str, port: str, baud: float, room: int) -> None:
        self._board, self._port, self._baud, self._room = board, Path(port), baud, room
        self._before = [0, 0]  # bytes that had passed when the cable was last pulled: to the board, to the host
        self._directions: list[Direction] = []
        self._open: tuple[int, ...] = ()

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
        self._open = (device, host, other)
        ends = ((host, device), (device, host))
        self._directions = [Direction(*each, self._baud, self._room) for each in ends]

    def pull(self) -> None:
        """Disconnect them."""
        self._before, self._directions = self.passed(), []
        for each in self._open:
            os.close(each)
        self._port.unlink(missing_ok=True)

    def passed(self) -> list[int]:
        """The bytes that have passed: to the board, to the host."""
        now = [each.passed for each in self._directions] or [0, 0]
        return [sum(both) for both in zip(self._before, now, strict=True)]

    def serve(self) -> None:
        """Carry bytes, and do what standard input says, until that ends."""
        while True:
            for each in self._directions:
                each.pass_on()
            ends = [each.source for each in self._directions if each.has_room]
            wait_s = min((each.wait_s() for each in self._directions), default=IDLE_S)
            ready = select.select([0, *ends], [], [], wait_s)[0]
            for each in self._directions:
                if each.source in ready:
                    each.take()
            if 0 in ready and not self._obey(sys.stdin.readline().strip()):
                return

    def _obey(self, word: str) -> bool:
        """Carry out a word of `Line` and answer it; False at the end of input."""
        if word in ("plug", "pull"):
            getattr(self, word)()
        if word:
            print(*self.passed(), flush=True)
        return bool(word)


if __name__ == "__main__":
    Wire(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])).serve()
