"""The run that a window or a page shows: which one is meant, its launch file, the messages of its nodes."""

from functools import partial
from pathlib import Path
from typing import Any

from servonode.bus.topology import publishers
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.operator.find_runs import find_run, find_runs
from servonode.operator.listener import Listener
from servonode.operator.stored_launch import stored_closed_loop
from servonode.views.window_feed import TOPICS

SHOWN_S = 20.0  # s (wall clock) that the panels show unless asked otherwise
ENDED = {"finished": "finished", "fault": "ended by a fault"}


def usual_span(closed_loop: ClosedLoop) -> float:
    """Plant time [s] that the panels show: 20 s of the wall's clock; in lockstep, which has none, the whole run."""
    run = closed_loop.launch.run
    return run.duration if run.mode == "lockstep" else min(SHOWN_S * run.speed, run.duration)


class ShownRun(Listener):
    """The run that is shown: its launch file and the messages of its nodes.

    where: its name or its folder, which is looked for; absent: the name. who: what shows it.
    """

    def __init__(self, name: str, where: str = "", who: str = "window") -> None:
        super().__init__(where or name, partial(publishers, TOPICS), who=who)
        self.name = name
        self.closed_loop: ClosedLoop | None = None
        self._stored: Any = None

    def prepare(self, registry: dict[str, Any]) -> None:
        """Read the launch file of the run that was found."""
        if registry["launch"] != self._stored:
            self.closed_loop, self._stored = stored_closed_loop(registry), registry["launch"]
        self.name = registry["run"]

    def plant_status(self, lifecycle: str) -> str:
        """Where a plant of this lifecycle stands, or how it ended."""
        return lifecycle if self.alive else ENDED.get(lifecycle, "ended")


def run_shown(asked: str | None) -> str:
    """The name of the run that is meant: a name, a launch file of that name, or the only run in progress.

    Where two have the same name it is the folder of one of them.

    Raises:
        BusError: there is no such run, or several; the text has their names.
    """
    names = (None,) if asked is None else (asked, Path(asked).stem)
    named = names[-1] if asked is None or asked.endswith(".toml") else asked
    found = find_run(next((name for name in names if find_runs(name)), named))
    return str(found.path) if asked == str(found.path) else found.name
