"""The spool: the record of a run as it is written while the run goes on, and what is intact of it.

A file of blocks, each a head and its content, both under one checksum, so that a block is whole or it is none. The
first says what is needed to make the CSV file again; then come rows, of one node and one life of the plant each.
"""

import json
import os
import struct
import zlib
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.errors import ServonodeError
from servonode.nodes.topology import CONTROLLER, PLANT

Array = npt.NDArray[np.float64]

FORMAT = 1
ABOUT, NAMES = 0, 1  # kinds of blocks: what was run; the columns of a node; and the nodes' rows:
KINDS = {PLANT: 2, CONTROLLER: 3}  # those that record
_NODES = {kind: node for node, kind in KINDS.items()}
_MAGIC = b"SNrb"
_HEAD = struct.Struct("<4sHHIIQI")  # magic, kind, columns, life of the plant, rows, number of the first row, bytes
_SUM = struct.Struct("<I")
BLOCK_HEAD = _HEAD.size + _SUM.size


class SpoolError(ServonodeError, ValueError):
    """A file that is no spool, or whose beginning is lost."""


def block(kind: int, content: bytes, columns: int = 0, life: int = 0, first: int = 0, rows: int = 0) -> bytes:
    """A block as bytes."""
    head = _HEAD.pack(_MAGIC, kind, columns, life, rows, first, len(content))
    return b"".join([head, _SUM.pack(zlib.crc32(content, zlib.crc32(head))), content])


def about_block(about: dict[str, Any]) -> bytes:
    """The first block of a spool."""
    return block(ABOUT, json.dumps(about | {"format": FORMAT}).encode())


def names_block(node: str, columns: list[str]) -> bytes:
    """The block that names a node's columns."""
    return block(NAMES, json.dumps({"node": node, "columns": columns}).encode())


def rows_block(node: str, life: int, first: int, rows: Array) -> bytes:
    """The block of a node's rows, of which the first has the number `first`."""
    return block(KINDS[node], rows.astype("<f8").tobytes(), rows.shape[1], life, first, len(rows))


@dataclass
class Pieces:
    """The rows of a run, by node and by life of the plant. damaged: bytes of a spool that are no whole block."""

    about: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    damaged: int = 0
    missing: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # rows of a node that are in no piece
    _parts: dict[tuple[str, int], list[Array]] = field(default_factory=lambda: defaultdict(list))
    _next: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # number of the row that is to follow

    def add(self, node: str, life: int, first: int, rows: Array) -> None:
        """Add rows in the order of their numbers; those that are known already are left out."""
        known = self._next[node]
        fresh = rows[max(known - first, 0) :]
        if len(fresh):
            self.missing[node] += max(first - known, 0)
            self._parts[node, life].append(fresh)
            self._next[node] = first + len(rows)

    @property
    def lives(self) -> list[int]:
        """The lives of the plant of which there are rows."""
        return sorted(life for node, life in self._parts if node == PLANT)

    def rows(self, node: str, life: int, columns: int) -> Array:
        """All rows of a node in one life of the plant, (rows, columns), their steps in order."""
        parts = self._parts.get((node, life))
        if not parts:
            return np.zeros((0, columns))
        rows = np.concatenate(parts)
        falls = np.flatnonzero(np.diff(rows[:, 0]) < 0)  # what a controller still answered to the life before
        return rows[falls[-1] + 1 :] if len(falls) else rows


def read_spool(file: Path | int) -> Pieces:
    """What is intact of a spool, by its path or an open descriptor; what is damaged is counted and left out.

    Raises:
        SpoolError: it is no spool, or of another version, or its first block is lost; OSError: it cannot be read.
    """
    with open(file, "rb", closefd=not isinstance(file, int)) as stream:
        stream.seek(0)
        data = stream.read()
    pieces, at = Pieces(), 0
    while at < len(data):
        size = _take(pieces, memoryview(data)[at:])
        if not size:  # damaged: on to what looks like the next block
            following = data.find(_MAGIC, at + 1)
            size = (following if following > 0 else len(data)) - at
            pieces.damaged += size
        at += size
    name = file if isinstance(file, Path) else "the spool"
    if not pieces.about:
        raise SpoolError(f"{name}: no record, or its beginning is damaged; give the .spool file that a run has left")
    if pieces.about.get("format") != FORMAT:
        raise SpoolError(f"{name}: written by another version of servonode; use that one")
    return pieces


def _take(pieces: Pieces, data: memoryview) -> int:
    """Take the block with which these bytes begin; its size, or 0 if it is not whole."""
    if len(data) < BLOCK_HEAD:
        return 0
    head, (checksum,) = data[: _HEAD.size], _SUM.unpack_from(data, _HEAD.size)
    magic, kind, columns, life, rows, first, size = _HEAD.unpack(head)
    size = int(size)
    content = data[BLOCK_HEAD : BLOCK_HEAD + size]
    whole = magic == _MAGIC and len(content) == size and zlib.crc32(content, zlib.crc32(head)) == checksum
    if not whole:
        return 0
    if kind == ABOUT:
        pieces.about = json.loads(bytes(content))
    elif kind == NAMES:
        names = json.loads(bytes(content))
        pieces.columns[names["node"]] = names["columns"]
    elif kind in _NODES:
        table = np.frombuffer(content, dtype="<f8").reshape(rows, columns)
        pieces.add(_NODES[kind], life, first, table)
    return BLOCK_HEAD + size


def append(descriptor: int, at: int, data: bytes) -> int:
    """Write bytes behind the first `at` of a file, in place of anything that stands there; the file's new size.

    Raises:
        OSError: they do not fit; the file then ends at `at` again, as far as that can be had.
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
