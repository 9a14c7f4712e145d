"""A recording written for another tool."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.neighbours.foxglove_bag import write_foxglove_bag
from servonode.neighbours.moments import Layout, Moment
from servonode.neighbours.recorded import moments_of_bag
from servonode.neighbours.rerun_file import write_rerun_file
from servonode.neighbours.ros2_bag import write_ros2_bag
from servonode.record.bag import Bag
from servonode.record.write import BagError


class Format(NamedTuple):
    """The format of a tool: the ending of its files, what writes one, and what that counts."""

    ending: str
    write: Callable[[Layout, Iterable[Moment], Path], int]
    unit: str


FORMATS = {
    "ros2": Format(".mcap", write_ros2_bag, "messages"),
    "foxglove": Format(".mcap", write_foxglove_bag, "moments"),
    "rerun": Format(".rrd", write_rerun_file, "moments"),
}


def check_ending(tool: str, file: Path) -> None:
    """BagError unless a file for this tool may have this name."""
    ending = FORMATS[tool].ending
    if file.suffix != ending:
        raise BagError(f"{file}: an export with --{tool} is an {ending} file; name it {file.stem}{ending}")


def export(bag: Bag, closed_loop: ClosedLoop, tool: str, file: Path) -> tuple[int, str]:
    """Write a recording's last run to a new file for a tool of FORMATS; how many of what it has.

    Raises:
        NotInstalled: the tool's library is missing; BagError: the recording holds no states; OSError: the file cannot
        be written.
    """
    known = FORMATS[tool]
    return known.write(Layout.of(closed_loop), moments_of_bag(bag, closed_loop), file), known.unit
