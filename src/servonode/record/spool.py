"""The spool: the file into which the record is written during a run, and the reader of its intact blocks.

The file consists of blocks, each a head and its content under one checksum, so that an incomplete block is detected.
The first contains what is needed to make the CSV file; then come blocks of rows, each of one node and one life of the
plant, and where all messages are recorded, blocks of messages, each of one node.
"""

import json
import mmap
import os
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.errors import ServonodeError

Array = npt.NDArray[np.float64]

FORMAT = 1
ABOUT, NAMES = 0, 1  # kinds of blocks: about the run; names of a node's columns
KINDS = {PLANT: 2, CONTROLLER: 3}  # rows of a node
FRAMES = {TARGET: 4, CONTROLLER: 5, PLANT: 6}  # messages of a node
_NODES = {kind: node for node, kind in KINDS.items()}
MAGIC = b"SNrb"
# magic, kind, columns, life of the plant, rows, number of the first row or byte, bytes
_HEAD = struct.Struct("<4sHHIIQI")
_SUM = struct.Struct("<I")
BLOCK_HEAD = _HEAD.size + _SUM.size


class SpoolError(ServonodeError, ValueError):
    """A file that is not a spool, or whose beginning is lost."""


def block(kind: int, content: bytes, columns: int = 0, life: int = 0, first: int = 0, rows: int = 0) -> bytes:
    """A block as bytes."""
    head = _HEAD.pack(MAGIC, kind, columns, life, rows, first, len(content))
    return b"".join([head, _SUM.pack(zlib.crc32(content, zlib.crc32(head))), content])


def about_block(about: dict[str, Any]) -> bytes:
    """The first block of a spool."""
    return block(ABOUT, json.dumps(about | {"format": FORMAT}).encode())


def names_block(node: str, columns: list[str]) -> bytes:
    """The block that names a node's columns."""
    return block(NAMES, json.dumps({"node": node, "columns": columns}).encode())


def rows_block(node: str, life: int, first: int, rows: Array) -> bytes:
    """The block of a node's rows; `first`: number of the first row."""
    return block(KINDS[node], rows.astype("<f8").tobytes(), rows.shape[1], life, first, len(rows))


def frames_block(node: str, first: int, content: bytes) -> bytes:
    """The block of a node's messages, see `frame_store`; `first`: number of the first byte."""
    return block(FRAMES[node], content, first=first)


@dataclass(frozen=True)
class Block:
    """An intact block. first: number of its first row, or of its first byte of messages."""

    kind: int
    columns: int
    life: int
    rows: int
    first: int
    content: memoryview


@dataclass
class Pieces:
    """The rows of a run, by node and by life of the plant. damaged: bytes of a spool outside of intact blocks."""

    about: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    damaged: int = 0
    missing: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # missing rows of a node
    _parts: dict[tuple[str, int], list[Array]] = field(default_factory=lambda: defaultdict(list))
    _next: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # number of the next row

    def add(self, node: str, life: int, first: int, rows: Array) -> None:
        """Add rows in the order of their numbers; rows that are there already are left out."""
        known = self._next[node]
        fresh = rows[max(known - first, 0) :]
        if len(fresh):
            self.missing[node] += max(first - known, 0)
            self._parts[node, life].append(fresh)
            self._next[node] = first + len(rows)

    @property
    def lives(self) -> list[int]:
        """The numbers of the plant's lives that have rows."""
        return sorted(life for node, life in self._parts if node == PLANT)

    def rows(self, node: str, life: int, columns: int) -> Array:
        """All rows of a node in one life of the plant, (rows, columns), with increasing steps."""
        parts = self._parts.get((node, life))
        if not parts:
            return np.zeros((0, columns))
        rows = np.concatenate(parts)
        falls = np.flatnonzero(np.diff(rows[:, 0]) < 0)  # late answers of a controller to the life before come first
        return rows[falls[-1] + 1 :] if len(falls) else rows


def read_spool(file: Path | int) -> Pieces:
    """The intact rows of a spool, by its path or an open descriptor; damaged bytes are counted.

    Raises:
        SpoolError: it is not a spool, or of another version, or its first block is lost; OSError: it cannot be read.
    """
    pieces = Pieces()
    for each in blocks(mapped(file)):
        if isinstance(each, Block):
            take(pieces, each)
        else:
            pieces.damaged += each
    check_about(pieces.about, file)
    return pieces


def check_about(about: dict[str, Any], file: Path | int) -> None:
    """SpoolError unless a spool's first block is there, and of this version."""
    name = file if isinstance(file, Path) else "the spool"
    if not about:
        raise SpoolError(f"{name}: not a spool file, or its beginning is damaged; give the .spool file that a run left")
    if about.get("format") != FORMAT:
        raise SpoolError(f"{name}: written by another version of servonode; use that one")


def mapped(file: Path | int) -> memoryview:
    """The bytes of a file, by its path or an open descriptor, mapped into memory."""
    with open(file, "rb", closefd=not isinstance(file, int)) as stream:
        if not os.fstat(stream.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


def blocks(data: memoryview) -> Iterator[Block | int]:
    """The intact blocks of a spool, in order; for damaged bytes between them their number."""
    at = 0
    while at < len(data):
        found, size = _block(data[at:])
        if found is not None:
            yield found
        else:  # skip to what may be the next block
            size = _next_magic(data, at + 1) - at
            yield size
        at += size


def _next_magic(data: memoryview, at: int) -> int:
    """Where the next block may begin; else the end of the data."""
    memory = data.obj
    found = memory.find(MAGIC, at) if isinstance(memory, mmap.mmap) else bytes(data).find(MAGIC, at)
    return found if found > 0 else len(data)


def _block(data: memoryview) -> tuple[Block | None, int]:
    """The block at the begin of these bytes, if it is intact, and its size."""
    if len(data) < BLOCK_HEAD:
        return None, 0
    head, (checksum,) = data[: _HEAD.size], _SUM.unpack_from(data, _HEAD.size)
    magic, kind, columns, life, rows, first, size = _HEAD.unpack(head)
    content = data[BLOCK_HEAD : BLOCK_HEAD + size]
    if magic != MAGIC or len(content) != size or zlib.crc32(content, zlib.crc32(head)) != checksum:
        return None, 0
    return Block(kind, columns, life, rows, first, content), BLOCK_HEAD + size


def take(pieces: Pieces, found: Block) -> None:
    """Add the content of a block; messages are ignored."""
    if found.kind == ABOUT:
        pieces.about = json.loads(bytes(found.content))
    elif found.kind == NAMES:
        names = json.loads(bytes(found.content))
        pieces.columns[names["node"]] = names["columns"]
    elif found.kind in _NODES:
        table = np.frombuffer(bytes(found.content), dtype="<f8").reshape(found.rows, found.columns)
        pieces.add(_NODES[found.kind], found.life, found.first, table)


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
