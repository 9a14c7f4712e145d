"""The spool: the file into which the record is written during a run, its writer, and the reader of its intact blocks.

The file consists of blocks, each a head and its content under one checksum, so that an incomplete block is detected.
The first says what was run; then come blocks of rows and of messages, each of one node, as they stood in its ring.

The writer is a process that outlives all nodes, and for which none waits. A few times a second it reads the shared
memory of the nodes (`shared_memory.py`). It ends when the launcher and all nodes have ended: it holds the read end of a
pipe, and they hold the write end. If the launcher dies before it has made the files, the writer makes them.
"""

import errno
import gc
import heapq
import json
import mmap
import os
import select
import signal
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from servonode.bus import TOPICS
from servonode.bus.topology import CONTROLLER, PLANT, RELAY, TARGET
from servonode.errors import ServonodeError
from servonode.record.run_rows import RunRows, are_counts
from servonode.record.shared_memory import Ring, shared
from servonode.record.typed import SPOOLED, message_type, plain

Recorded = tuple[int, str, dict[str, Any]]  # the sender's monotonic clock [ns], NODE/WORD, the message's map

FORMAT = 2
ABOUT = 0  # kinds of blocks: about the run
ROWS = {PLANT: 1, CONTROLLER: 2}  # rows of a node
MESSAGES = {TARGET: 3, CONTROLLER: 4, PLANT: 5, RELAY: 6}  # messages of a node
_ROWS_OF, _MESSAGES_OF = ({kind: node for node, kind in kinds.items()} for kinds in (ROWS, MESSAGES))
MAGIC = b"SNrb"
_HEAD = struct.Struct("<4sHQI")  # magic, kind, position of the first byte in the ring, bytes
_SUM = struct.Struct("<I")
_BLOCK_HEAD = _HEAD.size + _SUM.size
_ENTRY = struct.Struct("<IB")  # precedes each message: bytes of the payload, number of the topic
_NUMBERS = {word: number for number, word in enumerate(TOPICS)}
_decode = msgspec.msgpack.Decoder().decode
FLUSH_S = 0.2
SETTLE_S = 0.001  # after this time an entry counted on another core is complete, however the processor reorders
NICE = 5
_SIZE, _DELIVERED, _FAILED = range(3)  # words of the memory that launcher and writers share
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class SpoolError(ServonodeError, ValueError):
    """A file that is not a spool, or whose beginning is lost."""


# writing


def message_entry(topic: str, payload: bytes) -> bytes:
    """A message as it stands in a ring and in a block."""
    return _ENTRY.pack(len(payload), _NUMBERS[topic]) + payload


def block(kind: int, first: int, content: bytes) -> bytes:
    """A block; `first`: position of its content among all bytes of its kind."""
    head = _HEAD.pack(MAGIC, kind, first, len(content))
    return b"".join([head, _SUM.pack(zlib.crc32(content, zlib.crc32(head))), content])


def about_block(about: dict[str, Any]) -> bytes:
    """The first block of a spool."""
    return block(ABOUT, 0, json.dumps(about | {"format": FORMAT}).encode())


def append(descriptor: int, at: int, data: bytes) -> int:
    """Write bytes at position `at` of a file, over anything that is there; returns the end of what was written.

    Raises:
        OSError: they do not fit; the file then ends at `at` again, if possible.
    """
    view, place = memoryview(data), at
    try:
        while view:
            n = os.pwrite(descriptor, view, place)
            view, place = view[n:], place + n
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, at)
        raise
    return place


# reading


@dataclass
class SpooledRun:
    """What is intact of a run in its spool.

    damaged: bytes outside of intact blocks. missing_rows, missing_bytes: rows and bytes of messages, by node, that are
    in no block, though others follow.
    """

    about: dict[str, Any]
    rows: RunRows = field(default_factory=RunRows)
    damaged: int = 0
    missing_rows: Counter[str] = field(default_factory=Counter)
    missing_bytes: Counter[str] = field(default_factory=Counter)
    _contents: dict[str, list[memoryview]] = field(default_factory=dict)
    _ends: Counter[int] = field(default_factory=Counter)

    def add(self, kind: int, first: int, content: memoryview) -> None:
        """Add bytes of a ring in their order; those that a writer which died had written before are left out.

        Raises ValueError where they are not rows.
        """
        end = self._ends[kind]
        if first + len(content) <= end:
            return
        gap, fresh = max(first - end, 0), content[max(end - first, 0) :]
        if node := _ROWS_OF.get(kind):
            self._add_rows(node, gap, fresh)
        elif node := _MESSAGES_OF.get(kind):
            self.missing_bytes[node] += gap
            self._contents.setdefault(node, []).append(fresh)
        self._ends[kind] = first + len(content)

    def _add_rows(self, node: str, gap: int, content: memoryview) -> None:
        columns = self.about["columns"].get(node, [])
        table = np.frombuffer(content, dtype="<f8").reshape(-1, 1 + len(columns))
        if not (columns and are_counts(table[:, :2])):
            raise ValueError(f"these are no rows of the {node}")
        self.rows.columns[node] = columns
        self.missing_rows[node] += gap // (8 * table.shape[1])
        for life in np.unique(table[:, 0]):
            self.rows.add(node, int(life), table[table[:, 0] == life, 1:])

    def lost(self) -> list[str]:
        """What is lost, in words."""
        lines = [f"{n} rows of the {node} are lost in between" for node, n in (+self.missing_rows).items()]
        lines += [
            f"{n} bytes of messages of the {node} are lost in between" for node, n in (+self.missing_bytes).items()
        ]
        return lines + [f"{self.damaged} bytes are damaged or cut off, and left out"] * bool(self.damaged)

    def _messages(self, node: str, contents: Sequence[memoryview]) -> Iterator[Recorded]:
        topics = [f"{node}/{word}" for word in self.about.get("topics", [])]
        for content in contents:
            at = 0
            while at < len(content):
                try:
                    size, number = _ENTRY.unpack_from(content, at)
                    begin, topic = at + _ENTRY.size, topics[number]
                    at = begin + size
                    message = _decode(content[begin:at])
                    msgspec.convert(message, message_type(topic))
                except (ValueError, IndexError, RecursionError, struct.error) as error:
                    raise SpoolError(
                        f"the spool holds what is no message of the {node} ({error}); give another file"
                    ) from error
                yield message["mono"], topic, message

    def messages(self) -> Iterator[Recorded]:
        """All messages in the order of their senders' clocks, which are one on one computer."""
        streams = [self._messages(node, contents) for node, contents in self._contents.items()]
        return heapq.merge(*streams, key=itemgetter(0))


def read_spool(file: Path | int, about: dict[str, Any] | None = None) -> SpooledRun:
    """What is intact of a spool, by its path or an open descriptor; damaged bytes are counted.

    about: what its first block says, where that is known.

    Raises:
        SpoolError: it is not a spool, or of another version, or its first block is lost; OSError: it cannot be read.
    """
    data = _mapped(file)
    blocks = _blocks(data)
    run = SpooledRun(_about(next(blocks, 0), file) if about is None else about)
    for found in blocks:
        if isinstance(found, int):
            run.damaged += found
            continue
        try:
            run.add(*found)
        except ValueError:
            run.damaged += _BLOCK_HEAD + len(found.content)
    return run


def _about(first: "_Block | int", file: Path | int) -> dict[str, Any]:
    """What the first block says. SpoolError unless it is there, and of this version."""
    name = file if isinstance(file, Path) else "the spool"
    if isinstance(first, int) or first.kind != ABOUT:
        text = "not a spool file, its beginning is damaged, or another version of servonode wrote it"
        raise SpoolError(f"{name}: {text}; give the .spool file that a run left to the version that made it")
    try:
        about: dict[str, Any] = plain(bytes(first.content))
        version = about.get("format", FORMAT) if isinstance(about, dict) else FORMAT
        if version == FORMAT:
            msgspec.convert(about, SPOOLED)
    except ValueError as error:
        raise SpoolError(f"{name}: its first block does not describe a run ({error}); give another file") from error
    if version != FORMAT:
        raise SpoolError(f"{name}: written by another version of servonode; use that one")
    return about


class _Block(NamedTuple):
    """An intact block. first: position of its content among all bytes of its kind."""

    kind: int
    first: int
    content: memoryview


def _mapped(file: Path | int) -> memoryview:
    """The bytes of a file, by its path or an open descriptor, mapped into memory."""
    with open(file, "rb", closefd=not isinstance(file, int)) as stream:
        if not os.fstat(stream.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


def _blocks(data: memoryview) -> Iterator[_Block | int]:
    """The intact blocks of a spool, in order; for damaged bytes between them their number."""
    at = 0
    while at < len(data):
        found = _block(data[at:])
        if found is not None:
            yield found
            at += _BLOCK_HEAD + len(found.content)
        else:
            memory = data.obj if isinstance(data.obj, mmap.mmap) else bytes(data)
            found_at = memory.find(MAGIC, at + 1)  # where the next block may begin
            damaged = (found_at if found_at > 0 else len(data)) - at
            yield damaged
            at += damaged


def _block(data: memoryview) -> _Block | None:
    """The block at the begin of these bytes, if it is intact."""
    if len(data) < _BLOCK_HEAD:
        return None
    head, (checksum,) = data[: _HEAD.size], _SUM.unpack_from(data, _HEAD.size)
    magic, kind, first, size = _HEAD.unpack(head)
    content = data[_BLOCK_HEAD : _BLOCK_HEAD + size]
    if magic != MAGIC or len(content) != size or zlib.crc32(content, zlib.crc32(head)) != checksum:
        return None
    return _Block(kind, first, content)


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
