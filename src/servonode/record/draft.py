"""A bag that is written while its run goes on: the writer makes it of what it has spooled."""

import heapq
import os
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

from servonode.record.events import Events
from servonode.record.files import new_file
from servonode.record.run_rows import RunRows
from servonode.record.spool import Recorded, SpooledRun, blocks_of
from servonode.record.write import BagWriter, described

ROWS_BYTES = 1 << 20  # of rows in an attachment
SETTLE_NS = 500_000_000  # how long a node may take from the stamp of a message to its place in the ring
NEVER_NS = 1 << 63
_mono = itemgetter(0)


class Draft:
    """The bag of a run, complete but for what was not spooled yet and for how the run ends.

    Messages are written in the order of their stamps, as `SpooledRun.messages` has them, but for one that came to the
    spool too late for that, see `settle`. All methods raise OSError,
    SpoolError or BagError where that fails; `drop` is then the last one to call.
    """

    def __init__(self, descriptor: int, file: Path, about: dict[str, Any]) -> None:
        """descriptor: of the spool. about: what its first block says."""
        self._descriptor, self._run, self._rows = descriptor, SpooledRun(about), RunRows()
        self._blocks = deque[tuple[int, int, int]]()  # not used: begin, end, and the time of `settle`
        self._waiting: dict[str, list[Recorded]] = defaultdict(list)  # by node
        self._events, self._files = Events(), ExitStack()
        stream = self._files.enter_context(new_file(file))
        self._bag = BagWriter(stream, described(about), about["launch"], about["schemas"])

    def note(self, begin: int, end: int) -> None:
        """There is a block in the spool."""
        self._blocks.append((begin, end, 0))

    def settle(self, now_ns: int) -> None:
        """What nodes had added before this time of the monotonic clock is in the blocks that were noted."""
        if self._blocks:
            self._blocks.append((*self._blocks.pop()[:2], now_ns - SETTLE_NS))

    def follow(self) -> bool:
        """Use the next block; whether there are more."""
        if not self._blocks:
            return False
        begin, end, before_ns = self._blocks.popleft()
        self._run.add_all(blocks_of(memoryview(os.pread(self._descriptor, end - begin, begin))))
        rows, messages = self._run.taken()
        self._rows.extend(rows)
        if self._rows.size >= ROWS_BYTES:
            self._add_rows()
        for node, each in messages.items():
            self._waiting[node] += each
        self._add_messages(before_ns)
        return bool(self._blocks)

    def _add_rows(self) -> None:
        self._bag.add_rows(self._rows)
        self._rows = RunRows()

    def _add_messages(self, before_ns: int) -> None:
        """Write the messages that are older than this, each of a node behind those before it."""
        older = []
        for node, waiting in self._waiting.items():
            count = bisect_right(waiting, before_ns, key=_mono)
            older.append(waiting[:count])
            self._waiting[node] = waiting[count:]
        self._bag.add(self._events.among(heapq.merge(*older, key=_mono)))

    def finish(self, ending: dict[str, Any], drawn: Iterable[Any]) -> int:
        """Use all that was spooled, and make the file; how many messages it has."""
        while self.follow():
            pass
        self._add_messages(NEVER_NS)
        self._add_rows()
        self._bag.finish(ending | self._run.missing, drawn)
        self._files.close()
        return self._bag.messages

    def drop(self) -> None:
        """Leave no file."""
        with suppress(OSError), self._files:  # nor is there always room for what waits to be written
            raise InterruptedError
