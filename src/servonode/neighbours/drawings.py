"""What a recording has for viewers beside the messages of its nodes: frames and drawings, few enough to cost little."""

from collections.abc import Iterator
from typing import Any

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.neighbours.foxglove_scene import SCENE, SOLIDS, TF, TYPES, Content, drawn, solids, transforms
from servonode.neighbours.moments import Layout
from servonode.neighbours.recorded import moments_of_bag
from servonode.record.bag import Bag
from servonode.record.write import Drawn

RATE = 10.0  # Hz of the wall clock
MOST = 500  # instants of a run
DIGITS = 5  # decimal places of all numbers but times


def drawings(bag: Bag, closed_loop: ClosedLoop) -> Iterator[Drawn]:
    """Frames and drawings of a recording's last run, in Foxglove's types as JSON.

    Raises BagError where it holds no rows and no states.
    """
    run, layout = closed_loop.launch.run, Layout.of(closed_loop)
    rate = min(MOST / run.duration, RATE / run.speed if run.mode == "realtime" else RATE)
    largest: dict[str, float] = {}
    for i, moment in enumerate(moments_of_bag(bag, closed_loop, rate, paced=False)):
        contents: dict[str, Content] = {TF: transforms(layout, moment)} if layout.frames else {}
        contents |= {SOLIDS: solids(layout, moment)} if layout.solids and not i else {}
        for topic, content in (contents | {SCENE: drawn(moment, largest)}).items():
            yield Drawn(topic, f"foxglove.{TYPES[topic]}", moment.stamp_ns, _rounded(content))


def _rounded(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _rounded(each) for name, each in content.items()}
    if isinstance(content, list):
        return [_rounded(each) for each in content]
    return round(content, DIGITS) if isinstance(content, float) else content
