"""The window of `servonode run --plot`, a process of its own."""

import json
from dataclasses import asdict, dataclass

from servonode.nodes.node_process import ProcessBeside
from servonode.views.display import fresh


@dataclass(frozen=True)
class Options:
    """What a user may choose. panels: "NAME,NAME" each; span [s] of plant time; save: file of the save key."""

    panels: tuple[str, ...] = ()
    span: float | None = None
    save: str | None = None


def window_process(name: str, options: Options) -> ProcessBeside:
    """The process of a window on the run of this name."""
    return ProcessBeside("window", fresh("servonode.views.window", name, json.dumps(asdict(options))))
