"""What this package makes of recordings and of runs: the topics of a recording as a file, and a report of one line."""

from pathlib import Path
from typing import TYPE_CHECKING

from servonode.export.exports import Export
from servonode.views.run_view import RunView

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.record.bag import Bag
    from servonode.record.run import Run


def write_topics(bag: "Bag", _closed_loop: "ClosedLoop", file: Path) -> int:
    """Write the topics of a recording, one a line; how many there are."""
    topics = sorted({topic for _, topic, _ in bag.messages()})
    file.write_text("\n".join(topics) + "\n")
    return len(topics)


def write_report(run: "Run", name: str, file: Path) -> None:
    """Write how far the cart went."""
    x = run.state["x"]
    file.write_text(f"{name}: the cart went {x[-1] - x[0]:.3f} m\n")


TOPICS = Export("Write FILE.topics: the topics of the recording.", write_topics, ".topics", "topics")
TEXT = RunView(endings=(".txt",), report=write_report)
