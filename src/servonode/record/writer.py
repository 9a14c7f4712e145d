"""The writer: a process that writes rows and messages to the spool during the run, and outlives all nodes.

No process waits for it. A few times a second it reads the shared memory of the nodes (`shared_memory.py`). It
ends when the launcher and all nodes have ended: it holds the read end of a pipe, and they hold the write end. It makes
the bag meanwhile (`draft.py`), which the launcher has it finish. If the launcher dies before it has made the files, the
writer makes them.
"""

import errno
import gc
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servonode.errors import ServonodeError
from servonode.record.shared_memory import Ring, shared
from servonode.record.spool import MESSAGES, about_block, append, block

if TYPE_CHECKING:
    from servonode.record.draft import Draft
    from servonode.record.write import Drawn

FLUSH_S = 0.2
SETTLE_S = 0.001  # after this time an entry counted on another core is complete, however the processor reorders
NICE = 5
_SIZE, _DELIVERED, _FAILED, _USED, _ENDING, _MADE = range(6)  # words of the memory that launcher and writers share
_NONE = -1  # no bag is made by the writer
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Spooler:
    """Writes what the nodes' rings hold to the spool; its position is in shared memory, for a writer that replaces it.

    rings: by kind of block. file: the spool's path, if it has one.
    """

    def __init__(self, descriptor: int, file: Path | None, rings: Mapping[int, Ring]) -> None:
        self.descriptor, self.file = descriptor, file
        self.rings = rings
        self._messages = [ring for kind, ring in rings.items() if kind in MESSAGES.values()]
        self._words = memoryview(shared(48)).cast("q")
        self._draft: Draft | None = None  # the bag, in the writer that makes it
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
        now_ns, counts = time.monotonic_ns(), {kind: ring.count for kind, ring in self.rings.items()}
        time.sleep(SETTLE_S)
        try:
            for kind, count in counts.items():
                self._write(kind, count)
            self._words[_FAILED] = 0
            if self._draft is not None:
                self._draft.settle(now_ns)
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
        begin = self.size
        try:
            self._words[_SIZE] = append(self.descriptor, begin, data)
        except OSError:
            if self._draft is None:
                raise
            self.drop_draft()  # which makes room
            self._words[_SIZE] = append(self.descriptor, begin, data)
        if self._draft is not None:
            self._draft.note(begin, self.size)

    # the bag, while the run goes on

    def begin_draft(self, make: "Callable[[], Draft] | None") -> None:
        """In the writer: make the bag too, from now on; where that cannot be, the launcher makes it."""
        self._words[_MADE] = _NONE
        if make is not None:
            with suppress(OSError, ServonodeError):
                self._draft = make()
                self._words[_MADE] = 0

    def follow(self) -> bool:
        """In the writer: use a block for the bag, or finish it once its end is known; whether there is more to do."""
        words, draft = self._words, self._draft
        if draft is None:
            return False
        try:
            if words[_ENDING] == _NONE:
                self.drop_draft()
                return False
            if draft.follow():
                words[_USED] += 1
                return True
            if words[_ENDING]:
                ending, drawn = json.loads(os.pread(self.descriptor, words[_ENDING], self.size))
                words[_MADE], self._draft = 1 + draft.finish(ending, drawn), None
        except (OSError, ServonodeError):
            self.drop_draft()
        return False

    def drop_draft(self) -> None:
        """In the writer: leave the bag to the launcher."""
        if self._draft is not None:
            self._draft.drop()
            self._draft, self._words[_MADE] = None, _NONE

    @property
    def has_made_bag(self) -> bool:
        """Whether the writer has made the bag."""
        return self._words[_MADE] > 0

    @property
    def finishes_draft(self) -> bool:
        """Whether the writer was asked to finish the bag, or to drop it, and has not yet."""
        return bool(self._words[_ENDING]) and not self._words[_MADE]

    def finish_draft(
        self, ending: dict[str, Any], drawn: "Iterable[Drawn]", waits: Callable[[int], bool]
    ) -> int | None:
        """In the launcher: have the writer finish the bag; how many messages it has, None where it makes none.

        waits: sleeps, and says whether to wait on while that many blocks are used.
        """
        words, is_complete = self._words, all(ring.written == ring.count for ring in self.rings.values())
        if words[_MADE]:
            return None
        try:
            data = json.dumps([ending, list(drawn)]).encode()
            with suppress(OSError):
                append(self.descriptor, self.size, data)  # behind all blocks, for the writer alone
                words[_ENDING] = len(data) if is_complete else _NONE
            words[_ENDING] = words[_ENDING] or _NONE  # the bag gives way to the launcher's
            while not words[_MADE] and waits(words[_USED]):
                pass
        finally:
            os.ftruncate(self.descriptor, self.size)
        return words[_MADE] - 1 if words[_MADE] > 0 else None


def write(
    spooler: Spooler, lifeline: int, make_draft: "Callable[[], Draft] | None", make_files: Callable[[], None]
) -> int:
    """Run the writer in this process; returns the exit code. lifeline: ends when launcher and nodes have ended."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)  # a stop of all processes of the run must not lose the record
    gc.disable()  # inherited objects are the launcher's and must not be closed here
    with suppress(OSError):
        os.nice(NICE)
    _close_all_but(lifeline, spooler.descriptor)
    spooler.begin_draft(make_draft)
    work(spooler, lambda wait_s: _ended(lifeline, wait_s), _warn)
    spooler.drop_draft()
    spooler.spool(_warn)
    if not spooler.delivered:
        os.ftruncate(spooler.descriptor, spooler.size)  # the launcher may have died behind it
        make_files()
    return 0


def work(spooler: Spooler, ended: Callable[[float], bool], warn: Callable[[str], None]) -> None:
    """Write to the spool, FLUSH_S apart lest blocks be many and small, and the bag in between. ended: waits so long."""
    more, due = False, 0.0
    while not ended(0.0 if more else FLUSH_S):
        if not more or time.monotonic() >= due:
            spooler.spool(warn)
            due = time.monotonic() + FLUSH_S
        more = spooler.follow()


def _ended(lifeline: int, wait_s: float) -> bool:
    """Sleep so long, or until the launcher asks for a look; returns whether launcher and nodes have ended."""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    return bool(poll.poll(wait_s * 1e3)) and not os.read(lifeline, 4096)


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
