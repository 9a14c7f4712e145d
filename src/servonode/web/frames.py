"""A run as the lines that the page's server passes on to browsers: a word, a space, an object of JSON.

layout   what stays the same until another run begins; all that was sent before it is void
rows     the columns of the rows that are new
wanted   the paths that the program asks for, of each view, when they are others than before
scene    what the machine's views draw at the newest row, and where a robot's bodies are
status   how the run stands
"""

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from servonode.bus import Message
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.plants.view import View
from servonode.views.panel_choice import usual_panels
from servonode.views.scene import magnified
from servonode.views.shapes import ArrowScale, Instant, Shapes
from servonode.views.shown_run import ShownRun, usual_span
from servonode.views.window_feed import ROWS, Feed
from servonode.web.bodies import Bodies
from servonode.web.panel_layouts import live_panel
from servonode.web.relay import LINE
from servonode.web.statuses import Statuses
from servonode.web.view_data import shapes_data, view_layout
from servonode.web.wanted_lines import LiveLines

MOST_PANELS = 24  # of a page, which can be scrolled
STATUS_S = 0.2  # s (wall clock) between two statuses; they also say that this process lives

_encode = msgspec.json.encode  # what is not a number becomes null


class TooLarge(ServonodeError):
    """A frame is larger than a page can take; the text says what to do."""

    exit_code = 1


class Frames:
    """Turns the messages of one run into lines."""

    def __init__(self, source: ShownRun) -> None:
        assert source.closed_loop is not None
        self._source, self._closed_loop = source, source.closed_loop
        self._feed = Feed(self._closed_loop, usual_span(self._closed_loop), estimates=True)
        self._statuses = Statuses()
        machine = self._closed_loop.machine
        self._span = usual_span(self._closed_loop)
        self._views = [_LiveView(view, self._closed_loop) for view in self._closed_loop.views]
        self._lean = 0.0  # rad, the largest so far
        self._bodies = Bodies(self._closed_loop)
        description = machine.description
        self._known = [each.name for each in (*description.state, *description.outputs, *description.inputs)]
        self._run = self._sent = self._status_due = 0.0
        self._begun = False

    def take(self, message: Message) -> None:
        """Take one message of the run."""
        self._feed.take(message)
        self._statuses.take(message)

    def lines(self) -> Iterator[bytes]:
        """What there is to say since the last call."""
        if not self._begun or self._feed.run != self._run:  # the plant has restarted
            yield self._begin()
        self._feed.settle()
        count, columns = self._feed.ring.count, self._feed.ring.columns
        if count > self._sent:
            new = int(min(count - self._sent, len(columns["t"])))
            self._sent = count
            yield _line("rows", {name: column[-new:].tolist() for name, column in columns.items()})
            scene = self._scene(columns)
            if self._follow_wanted(columns):
                yield _line("wanted", {"views": [each.wanted.lines for each in self._views]})
            yield _line("scene", scene)
        if (now := time.monotonic()) >= self._status_due:
            self._status_due = now + STATUS_S
            yield _line("status", self._status())

    def _begin(self) -> bytes:
        if self._begun and self._run:
            self._statuses.clear()
        self._begun, self._run, self._sent, self._status_due = True, self._feed.run, 0, 0.0
        self._views, self._lean = [_LiveView(each.view, self._closed_loop) for each in self._views], 0.0
        layout = layout_of(self._closed_loop, self._source.name)
        return _line("layout", {**layout, **self._bodies.layout, "run": self._run})

    def _scene(self, columns: dict[str, Any]) -> dict[str, Any]:
        values = {name: float(columns[name][-1]) for name in self._known}
        t = float(columns["t"][-1])
        instant = Instant.of(self._closed_loop.source, self._closed_loop.machine, t, values)
        for lean in (abs(instant.given(each.view.lean)) for each in self._views if each.view.lean):
            self._lean = lean if lean > self._lean else self._lean
        views = [each.update(instant, columns, self._lean) for each in self._views]
        return {"t": t, "views": views, "poses": self._bodies.poses(values)}

    def _follow_wanted(self, columns: dict[str, Any]) -> bool:
        """Whether other wanted paths than before are to be drawn."""
        begin = int(np.searchsorted(columns["t"], columns["t"][-1] - self._span))
        shown = {name: column[begin:] for name, column in columns.items()}
        changed = [each.wanted.follow(shown, each.shapes) for each in self._views]
        return any(changed)

    def _status(self) -> dict[str, Any]:
        feed = self._feed
        return {
            "t": feed.t,
            "rate": feed.rate,
            "alive": self._source.alive,
            "standing": self._source.plant_status(feed.lifecycle),
            "lifecycle": str(feed.lifecycle),
            "fault": feed.fault_text,
            "extra": feed.extra,
            **self._statuses.summary(),
        }


def layout_of(closed_loop: ClosedLoop, name: str) -> dict[str, Any]:
    """What stays the same in a run: names, panels, views, the plant time [s] that is shown."""
    run, law = closed_loop.launch.run, closed_loop.control
    estimated = closed_loop.machine.description.state_names if closed_loop.estimation else ()
    return {
        "name": name,
        "machine": closed_loop.machine.description.description,
        "program": law.law.description.name if law else "",
        "mode": str(run.mode),
        "duration": run.duration,
        "span": usual_span(closed_loop),
        "rows": ROWS,
        "panels": [live_panel(each, estimated) for each in usual_panels(closed_loop, True, most=MOST_PANELS)],
        "views": [
            view_layout(view, closed_loop.targets.names) | {"click": _clicked(view, closed_loop)}
            for view in closed_loop.views
        ],
        "residuals": [{"name": each.name, "unit": each.unit} for each in closed_loop.residuals],
    }


def _clicked(view: View, closed_loop: ClosedLoop) -> list[str]:
    """The targets to which a click on a view gives its place; empty: it is in space, or requests do not bring them."""
    asked = {each.name for each in closed_loop.live if not each.source}
    return list(view.goal) if view.goal and view.projection is None and set(view.goal) <= asked else []


class _LiveView:
    """A view of a run that continues, with what is measured on the way: the scale of its arrows, its wanted paths."""

    def __init__(self, view: View, closed_loop: ClosedLoop) -> None:
        self.view, self._scale = view, ArrowScale(view, closed_loop.machine)
        self.wanted = LiveLines(closed_loop, view)
        self.shapes = Shapes([], [], {}, "")  # at the newest instant

    def update(self, instant: Instant, columns: dict[str, Any], lean: float) -> dict[str, Any]:
        """What it draws at an instant; a lean that is small in all of the run so far [rad] is magnified."""
        view = magnified(self.view, lean)
        drawn = Shapes.in_space(view, instant)
        self.shapes = drawn.flat(view)
        self._scale.follow([self.shapes], columns)
        return {**shapes_data(drawn), "largest": self._scale.largest, "title": view.title}


def _line(word: str, content: dict[str, Any]) -> bytes:
    line = b"%s %s\n" % (word.encode(), _encode(content))
    if len(line) > LINE:
        raise TooLarge(f"one {word} of this run has {len(line)} bytes, a page takes {LINE}; draw less in its VIEW")
    return line
