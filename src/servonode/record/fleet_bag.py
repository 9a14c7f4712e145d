"""The recording of several robots: one file, where all names begin with that of a robot, as `leader/plant/state`."""

from collections.abc import Mapping
from pathlib import Path

from servonode.record.files import new_file
from servonode.record.mcap_records import Records, new_writer
from servonode.record.write import ABOUT
from servonode.version import VERSION


def join_bags(parts: Mapping[str, Path], file: Path) -> int:
    """Make one recording of those of the robots, which are then removed; how many messages it has.

    Raises OSError where it cannot be written; the parts stay.
    """
    with new_file(file) as stream:
        writer = new_writer(stream, f"servonode {VERSION}")
        messages = sum(Records(part).copy_into(writer, f"{robot}/") for robot, part in parts.items())
        writer.finish()
    for part in parts.values():
        part.unlink()
    return messages


def robots_in(file: Path) -> list[str]:
    """The robots of a recording; empty for one of a single machine."""
    metadata, _ = Records(file).described()
    return [name.partition("/")[0] for name in metadata if name.endswith(f"/{ABOUT}")]


def parts_of(file: Path) -> list[Path]:
    """The recordings in a file: FILE.mcap/ROBOT of each robot, or the file itself."""
    robots = robots_in(file) if file.suffix == ".mcap" and file.is_file() else []
    return [file / robot for robot in robots] or [file]
