"""The writer: a process that writes rows and messages to the spool during the run, and outlives all nodes.

No process waits for it. A few times a second it reads the shared memory of the nodes (`shared_memory.py`). It
ends when the launcher and all nodes have ended: it holds the read end of a pipe, and they hold the write end. If the
launcher dies before it has made the files, the writer makes them.
"""

import errno
import gc
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from servonode.record.shared_memory import Ring, shared
from servonode.record.spool import MESSAGES, about_block, append, block

FLUSH_S = 0.2
SETTLE_S = 0.001  # after this time an entry counted on another core is complete, however the processor reorders
NICE = 5
_SIZE, _DELIVERED, _FAILED = range(3)  # words of the memory that launcher and writers share
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Spooler:
    """Writes what the nodes' rings hold to the spool; its position is in shared memory, for a writer that replaces it.

    rings: by kind of block. file: the spool's path, if it has one.
    """

    def __init__(self, descriptor: int, file: Path | None, rings: Mapping[int, Ring]) -> None:
        self.descriptor, self.file = descriptor, file
        self.rings = rings
        self._messages = [ring for kind, ring in rings.items() if kind in MESSAGES.values()]
        self._words = memoryview(shared(24)).cast("q")
        self._warned = False

    @property
    def size(self) -> int:
        """The size of the spool's complete blocks [bytes]."""
        return self._words[_SIZE]

    @property
    def delivered(self) -> bool:
        """Whether the launcher has made the files, or has reported why not; then the writer makes none."""
        return bool(self._words[_DELIVERED])

    @delivered.setter
    def delivered(self, delivered: bool) -> None:
        self._words[_DELIVERED] = int(delivered)

    @property
    def failed(self) -> bool:
        """Whether the last attempt to write to the spool failed."""
        return bool(self._words[_FAILED])

    def begin(self, about: dict[str, object]) -> None:
        """Write the first block. Raises OSError where that fails."""
        self._append(about_block(about))

    def all_written(self) -> bool:
        """Whether every row, and every message up to the end of the recording, is in the spool."""
        return all(ring.ended or ring.written == ring.count for ring in self.rings.values())

    def spool(self, warn: Callable[[str], None]) -> None:
        """Write all that has come.

        Rows that do not fit stay in memory until the next call. Messages are too many for that: their recording ends.
        """
        counts = {kind: ring.count for kind, ring in self.rings.items()}
        time.sleep(SETTLE_S)
        try:
            for kind, count in counts.items():
                self._write(kind, count)
            self._words[_FAILED] = 0
        except OSError as error:
            self._words[_FAILED] = 1
            for ring in self._messages:
                ring.end(ring.ended or error.errno or errno.EIO)
            if not self._warned:
                self._warned = True
                warn(f"{self.file or 'the spool'}: cannot be written ({error.strerror}); {self._left}")

    @property
    def _left(self) -> str:
        """What happens to the record where nothing can be written, in words."""
        if self._messages:
            return "the recording ends here; the run continues, and rows stay in memory until they can be written"
        return "the record stays in memory until it can be"

    def _write(self, kind: int, count: int) -> None:
        ring = self.rings[kind]
        while (first := ring.written) < count and not ring.ended:
            last = ring.next_end(count)
            self._append(block(kind, first, ring.content(first, last)))
            ring.release(last)

    def _append(self, data: bytes) -> None:
        self._words[_SIZE] = append(self.descriptor, self.size, data)


def write(spooler: Spooler, lifeline: int, make_files: Callable[[], None]) -> int:
    """Run the writer in this process; returns the exit code. lifeline: ends when launcher and nodes have ended."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)  # a stop of all processes of the run must not lose the record
    gc.disable()  # inherited objects are the launcher's and must not be closed here
    with suppress(OSError):
        os.nice(NICE)
    _close_all_but(lifeline, spooler.descriptor)
    while not _ended(lifeline):
        spooler.spool(_warn)
    spooler.spool(_warn)
    if not spooler.delivered:
        make_files()
    return 0


def _ended(lifeline: int) -> bool:
    """Sleep until it is time to write, or the launcher asks for it; returns whether launcher and nodes have ended."""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    return bool(poll.poll(FLUSH_S * 1e3)) and not os.read(lifeline, 4096)


def _close_all_but(*kept: int) -> None:
    """Close inherited descriptors: sockets, and copies of the terminal, for whose end another process may wait."""
    begin = 3
    for descriptor in sorted(kept):
        os.closerange(begin, descriptor)
        begin = descriptor + 1
    os.closerange(begin, os.sysconf("SC_OPEN_MAX"))


def _warn(text: str) -> None:
    with suppress(OSError):  # nobody reads any more
        os.write(2, f"{text}\n".encode())
