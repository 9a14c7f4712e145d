"""Recovery of a bag from the spool of a killed run, or from a truncated or damaged MCAP file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from servonode.record.bag import Bag
from servonode.record.files import SUFFIX
from servonode.record.mcap_records import Records
from servonode.record.write import ENDING, BagError, new_file, write_bag


def recover(bag: Bag, out: Path | None) -> list[str]:
    """Write all that is intact as a whole bag; the file is not touched. What was written and what is lost, as lines.

    Raises:
        BagError: nothing is wrong with it, or a file is in the way, or cannot be written.
    """
    if not bag.spool and _is_whole(bag):
        raise BagError(f"{bag.file}: is whole; there is nothing to recover")
    file = out or _named(bag)
    if file.exists():
        raise BagError(f"{file} exists already; name another with --out, or remove it")
    write: Callable[[Path], int] = _of_spool(bag) if bag.spool else _of_mcap(bag)
    try:
        written = write(file)
    except OSError as error:
        raise BagError(f"{file}: cannot be written ({error.strerror}); name another with --out") from error
    return [f"{file} ({written} messages)", *(f"lost: {text}" for text in bag.damage)]


def _named(bag: Bag) -> Path:
    name = bag.file.name
    return bag.file.with_name(name.removesuffix(SUFFIX) if bag.spool else f"{bag.file.stem}.recovered{bag.file.suffix}")


def _is_whole(bag: Bag) -> bool:
    """Whether nothing of it is damaged, once all has been read."""
    for _ in bag.messages():
        pass
    return not bag.damage


def _of_spool(bag: Bag) -> Callable[[Path], int]:
    def write(file: Path) -> int:
        made: dict[str, Any] = write_bag(bag.file, file, {"ended": "killed"})
        return sum(made["messages"].values())

    return write


def _of_mcap(bag: Bag) -> Callable[[Path], int]:
    """Copies what is whole: schemas, channels, messages, attachments, metadata."""

    def write(file: Path) -> int:
        from mcap.writer import Writer

        with new_file(file) as stream:
            writer = Writer(stream)
            writer.start(library=Records(bag.file).library or "servonode")
            n = Records(bag.file).copy_into(writer)
            if not bag.ending:
                writer.add_metadata(ENDING, {"ended": json.dumps("killed")})
            writer.finish()
        return n

    return write
