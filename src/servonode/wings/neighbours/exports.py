"""What this wing adds for recordings: their files for ROS 2, Foxglove and rerun, and what they hold for viewers."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from servonode.export.exports import Export
from servonode.views.run_view import RunView

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.record.bag import Bag
    from servonode.record.write import Drawn


def _write(tool: str, bag: "Bag", closed_loop: "ClosedLoop", file: Path) -> int:
    from servonode.wings.neighbours.export import export

    return export(bag, closed_loop, tool, file)


def _drawn(bag: "Bag", closed_loop: "ClosedLoop") -> "Iterator[Drawn]":
    from servonode.wings.neighbours.export import drawings

    return drawings(bag, closed_loop)


ROS2 = Export(
    "Write FILE.mcap with the messages of ROS 2: joint states, tf, odometry.",
    partial(_write, "ros2"),
    ".mcap",
    "messages",
)
FOXGLOVE = Export(
    "Write FILE.mcap with Foxglove's types: frames, scene, log, values.",
    partial(_write, "foxglove"),
    ".mcap",
    "moments",
)
RERUN = Export("Write FILE.rrd for rerun, with the machine in space.", partial(_write, "rerun"), ".rrd", "moments")
DRAWINGS = RunView(drawn=_drawn)
