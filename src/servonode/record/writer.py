"""The writer: a process that writes rows and messages to the spool during the run, and outlives all nodes.

No process waits for it. A few times a second it reads the shared memory of the nodes (`store.py`, `frame_store.py`). It
ends when the launcher and all nodes have ended: it holds the read end of a pipe, and they hold the write end. If the
launcher dies before it has made the files, the writer makes them.
"""

import gc
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from servonode.record.frame_store import FrameStore
from servonode.record.spool import about_block, append, frames_block, names_block, rows_block
from servonode.record.store import Store, shared

FLUSH_S = 0.2
SETTLE_S = 0.001  # after this time a row counted on another core is complete, however the processor reorders
MOST_ROWS = 1 << 15  # rows of one block
NICE = 5
_SIZE, _DELIVERED, _FAILED = range(3)  # words of the memory that launcher and writers share
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True)
class Files:
    """The output of a record: the descriptor of the spool, and its path if it has one."""

    descriptor: int
    spool: Path | None


class Spooler:
    """Writes rows from the stores to the spool; its position is in shared memory, for a writer that replaces it."""

    def __init__(self, files: Files, stores: Mapping[str, Store], frames: Mapping[str, FrameStore]) -> None:
        self.files = files
        self.stores = stores
        self.frames = frames
        self._words = memoryview(shared(24)).cast("q")
        self._named: set[str] = set()
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
        rows = all(store.written == store.count for store in self.stores.values())
        return rows and all(frames.ended or frames.written == frames.count for frames in self.frames.values())

    def spool(self, warn: Callable[[str], None]) -> None:
        """Write all that has come.

        Rows that do not fit stay in memory until the next call. Messages are too many for that: their recording ends.
        """
        counts = {node: store.count for node, store in self.stores.items()}
        sizes = {node: frames.count for node, frames in self.frames.items()}
        time.sleep(SETTLE_S)
        try:
            for node, size in sizes.items():
                self._spool_frames(node, size)
            for node, count in counts.items():
                self._spool(node, count)
            self._words[_FAILED] = 0
        except OSError as error:
            self._words[_FAILED] = 1
            for frames in self.frames.values():
                frames.end()
            if not self._warned:
                self._warned = True
                warn(f"{self.files.spool or 'the spool'}: cannot be written ({error.strerror}); {self._left}")

    @property
    def _left(self) -> str:
        """What happens to the record where nothing can be written, in words."""
        if self.frames:
            return "the recording ends here; the run continues, and rows stay in memory until they can be written"
        return "the record stays in memory until it can be"

    def _spool_frames(self, node: str, size: int) -> None:
        frames = self.frames[node]
        if (first := frames.written) < size and not frames.ended:
            self._append(frames_block(node, first, frames.taken(first, size)))
            frames.written = size

    def _spool(self, node: str, count: int) -> None:
        store = self.stores[node]
        if node not in self._named and count:
            self._append(names_block(node, store.columns))
            self._named.add(node)
        while (first := store.written) < count:
            life, following = store.life_of(first)
            last = min(count, following, first + MOST_ROWS)
            self._append(rows_block(node, life, first, store.rows(first, last)))
            store.free(first, last)  # before `written` lets the node use the places again
            store.written = last

    def _append(self, data: bytes) -> None:
        self._words[_SIZE] = append(self.files.descriptor, self.size, data)


def write(spooler: Spooler, lifeline: int, make_files: Callable[[], None]) -> int:
    """Run the writer in this process; returns the exit code. lifeline: ends when launcher and nodes have ended."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)  # a stop of all processes of the run must not lose the record
    gc.disable()  # inherited objects are the launcher's and must not be closed here
    with suppress(OSError):
        os.nice(NICE)
    _close_all_but(lifeline, spooler.files.descriptor)
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
