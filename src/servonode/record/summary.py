"""The metadata of a recording, read quickly whatever its size: rows and messages are skipped."""

import io
import json
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servonode.record.write import ABOUT, ENDING, FORMAT, BagError, check_library

MAGIC = b"\x89MCAP0\r\n"
LARGEST = 1 << 22  # bytes of metadata that are believed
MOST = 100_000  # records that are looked at; ours are chunks of hundreds of messages
_HEAD, _TIMES = struct.Struct("<BQ"), struct.Struct("<QQ")
_CUT = "its end is cut off, or it is damaged"


@dataclass
class _Found:
    """What was met on the way through a file."""

    library: str = ""
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)  # by name
    times: list[tuple[int, int]] = field(default_factory=list)  # of the first and last message of each chunk [ns]
    whole: bool = False


def summary(file: Path) -> dict[str, Any]:
    """Run, machine, program, mode, begin [ns since 1970], duration [s], how it ended, its faults, what is damaged.

    A link is not followed, and nothing but a file is opened.

    Raises:
        BagError: it is no recording of servonode, or of another version; OSError: it cannot be read.
    """
    check_library()
    with _opened(file) as (descriptor, size):
        if os.pread(descriptor, len(MAGIC), 0) != MAGIC:
            raise BagError(f"{file}: not a recording; give an .mcap file of run --record")
        found = _found(descriptor, size)
    about = recognised(file, found.metadata.get(ABOUT), found.library)
    ending = found.metadata.get(ENDING, {})
    begin = min((first for first, _ in found.times), default=int(about["wall_ns"]))
    end = max((last for _, last in found.times), default=begin)
    return {
        **{name: about.get(name, "") for name in ("run", "machine", "program", "mode")},
        "begin_ns": begin,
        "duration": (end - begin) / 1e9,
        "ended": str(json.loads(ending.get("ended", '"killed"'))),
        "faults": [str(each["name"]) for each in json.loads(ending.get("faults", "[]"))],
        "damage": "" if found.whole else _CUT,
    }


def recognised(file: Path, about: dict[str, str] | None, library: str, damage: str = "") -> dict[str, str]:
    """The metadata of a recording of this version; BagError where it is another's, made with this library.

    damage: what of the file is known to be damaged, behind a semicolon.
    """
    if about is None:
        made_by = f" ({library})" if library else ""
        raise BagError(
            f"{file}: an MCAP file, but not a recording of servonode{made_by}; give one of run --record{damage}"
        )
    if about.get("format") != str(FORMAT):
        made_by = f"servonode {about.get('servonode', '?')} in format {about.get('format', '?')}"
        raise BagError(f"{file}: written by {made_by}, this version reads format {FORMAT}; use that version")
    return about


@contextmanager
def _opened(file: Path) -> Iterator[tuple[int, int]]:
    """The descriptor of a file and its size; a pipe would be waited for, a link may lead anywhere."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise BagError(f"{file}: does not exist; give an .mcap file of run --record")
        yield descriptor, about.st_size
    finally:
        os.close(descriptor)


def _found(descriptor: int, size: int) -> _Found:
    from mcap.data_stream import ReadDataStream
    from mcap.opcode import Opcode
    from mcap.records import Header, Metadata

    found = _Found()
    for code, at, length in _records(descriptor, size):
        if code in (Opcode.HEADER, Opcode.METADATA) and length <= LARGEST:
            content = ReadDataStream(io.BytesIO(os.pread(descriptor, length, at)))
            if code == Opcode.HEADER:
                found.library = Header.read(content).library
            else:
                read = Metadata.read(content)
                found.metadata[read.name] = read.metadata
        elif code == Opcode.CHUNK and length >= _TIMES.size:
            found.times.append(_TIMES.unpack(os.pread(descriptor, _TIMES.size, at)))
        if code in (Opcode.DATA_END, Opcode.FOOTER):
            found.whole = os.pread(descriptor, len(MAGIC), size - len(MAGIC)) == MAGIC
            break
        if code in (Opcode.CHUNK, Opcode.MESSAGE) and ABOUT not in found.metadata:
            break  # another's
    return found


def _records(descriptor: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Code, place and length of each record, as far as they are whole."""
    at = len(MAGIC)
    for _ in range(MOST):
        head = os.pread(descriptor, _HEAD.size, at)
        if len(head) < _HEAD.size:
            return
        code, length = _HEAD.unpack(head)
        at += _HEAD.size
        if not code or at + length > size:
            return
        yield code, at, length
        at += length
