"""The spool: the file into which the record is written during a run, and the reader of its intact blocks.

The file consists of blocks, each a head and its content under one checksum, so that an incomplete block is detected.
The first says what was run; then come blocks of rows and of messages, each of one node, as they stood in its ring.
"""

import heapq
import json
import mmap
import os
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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

    def add_all(self, blocks: "Iterable[Block | int]") -> None:
        """Add the blocks of a spool; for damaged bytes between them their number."""
        for found in blocks:
            if isinstance(found, int):
                self.damaged += found
                continue
            try:
                self.add(*found)
            except ValueError:
                self.damaged += _BLOCK_HEAD + len(found.content)

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

    @property
    def missing(self) -> dict[str, Any]:
        """What is lost of the messages, for the metadata of a bag."""
        missing = {"missing_bytes": dict(+self.missing_bytes), "damaged_bytes": self.damaged}
        return {name: value for name, value in missing.items() if value}

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
        return heapq.merge(*(self._messages(*each) for each in self._contents.items()), key=itemgetter(0))

    def taken(self) -> tuple[RunRows, dict[str, list[Recorded]]]:
        """The rows and the messages, by node, that came since this was asked last; they are kept here no longer."""
        rows, found = self.rows, {node: list(self._messages(node, each)) for node, each in self._contents.items()}
        self.rows, self._contents = RunRows(), {}
        return rows, found


def read_spool(file: Path | int, about: dict[str, Any] | None = None) -> SpooledRun:
    """What is intact of a spool, by its path or an open descriptor; damaged bytes are counted.

    about: what its first block says, where that is known.

    Raises:
        SpoolError: it is not a spool, or of another version, or its first block is lost; OSError: it cannot be read.
    """
    data = _mapped(file)
    blocks = blocks_of(data)
    run = SpooledRun(_about(next(blocks, 0), file) if about is None else about)
    run.add_all(blocks)
    return run


def _about(first: "Block | int", file: Path | int) -> dict[str, Any]:
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


class Block(NamedTuple):
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


def blocks_of(data: memoryview) -> Iterator[Block | int]:
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


def _block(data: memoryview) -> Block | None:
    """The block at the begin of these bytes, if it is intact."""
    if len(data) < _BLOCK_HEAD:
        return None
    head, (checksum,) = data[: _HEAD.size], _SUM.unpack_from(data, _HEAD.size)
    magic, kind, first, size = _HEAD.unpack(head)
    content = data[_BLOCK_HEAD : _BLOCK_HEAD + size]
    if magic != MAGIC or len(content) != size or zlib.crc32(content, zlib.crc32(head)) != checksum:
        return None
    return Block(kind, first, content)
