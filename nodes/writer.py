"""The writer: a process that takes rows and messages to the spool during the run, and outlives all nodes.

Nobody waits for it. It reads what the nodes have put into shared memory (`store.py`, `frame_store.py`), a few times a
second, and ends when the launcher and all nodes have: it holds the reading end of a pipe whose writing end all of them
hold. Where the launcher died before it had made the files, the writer makes them.
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

from servonode.nodes.frame_store import FrameStore
from servonode.nodes.spool import about_block, append, frames_block, names_block, rows_block
from servonode.nodes.store import Store, shared

FLUSH_S = 0.2
SETTLE_S = 0.001  # a row that was counted on another core is whole by then, whatever the processor reorders
MOST_ROWS = 1 << 15  # of one block
NICE = 5
_SIZE, _DELIVERED, _FAILED = range(3)  # words that launcher and writers share
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True)
class Files:
    """Where a record goes: the spool, open, and its name if it has one."""

    descriptor: int
    spool: Path | None


class Spooler:
    """Takes rows from the stores to the spool; where it left off stands in shared memory, for a writer after it."""

    def __init__(self, files: Files, stores: Mapping[str, Store], frames: Mapping[str, FrameStore]) -> None:
        self.files = files
        self.stores = stores
        self.frames = frames
        self._words = memoryview(shared(24)).cast("q")
        self._named: set[str] = set()
        self._warned = False

    @property
    def size(self) -> int:
        """How many bytes of the spool are whole blocks."""
        return self._words[_SIZE]

    @property
    def delivered(self) -> bool:
        """Whether the launcher has made the files, or has said why not: then the writer makes none."""
        return bool(self._words[_DELIVERED])

    @delivered.setter
    def delivered(self, delivered: bool) -> None:
        self._words[_DELIVERED] = int(delivered)

    @property
    def failed(self) -> bool:
        """Whether the spool could not be written when it was tried last."""
        return bool(self._words[_FAILED])

    def begin(self, about: dict[str, object]) -> None:
        """Write the first block. Raises OSError where that cannot be."""
        self._append(about_block(about))

    def all_written(self) -> bool:
        """Whether every row and every message is in the spool, but what came after the recording had ended."""
        rows = all(store.written == store.count for store in self.stores.values())
        return rows and all(frames.ended or frames.written == frames.count for frames in self.frames.values())

    def spool(self, warn: Callable[[str], None]) -> None:
        """Write all that has come. Rows that do not fit are kept where they are, for the next time.

        Messages are too many for that: their recording ends.
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
        """What is left to do where nothing can be written, in words."""
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
            store.free(first, last)  # before the node may use the places again
            store.written = last

    def _append(self, data: bytes) -> None:
        self._words[_SIZE] = append(self.files.descriptor, self.size, data)


def write(spooler: Spooler, lifeline: int, make_files: Callable[[], None]) -> int:
    """The life of the writer's process; its exit code. `lifeline` ends when launcher and nodes have."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)  # whoever stops all processes of a run wants its record
    gc.disable()  # what was inherited is the launcher's: nothing of it is to be closed here
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
    """Sleep until it is time to write, or somebody asks for it; whether launcher and all nodes have ended."""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    return bool(poll.poll(FLUSH_S * 1e3)) and not os.read(lifeline, 4096)


def _close_all_but(*kept: int) -> None:
    """Close what was inherited: sockets, and the terminal's other copies, whose end somebody may wait for."""
    begin = 3
    for descriptor in sorted(kept):
        os.closerange(begin, descriptor)
        begin = descriptor + 1
    os.closerange(begin, os.sysconf("SC_OPEN_MAX"))


def _warn(text: str) -> None:
    with suppress(OSError):  # nobody listens any more
        os.write(2, f"{text}\n".encode())
