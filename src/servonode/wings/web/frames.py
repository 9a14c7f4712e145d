"""A run as the lines that the page's server passes on to browsers: a word, a space, an object of JSON.

The process that writes them on standard output listens to the run. It alone runs the machine's code and the libraries
of mathematics, and only when the processor is otherwise idle. What the server does not read waits in a pipe of bounded
size; what it then does not take from the bus is dropped there. While nobody looks at the page it draws nothing: it
keeps the rows that a browser will show first.

layout   what stays the same until another run begins; all that was sent before it is void
rows     the columns of the rows that are new
wanted   the paths that the program asks for, of each view, when they are others than before
scene    what the machine's views draw at the newest row, and where a robot's bodies are
status   how the run stands
"""

import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from servonode.bus import Status
from servonode.bus.durations import gathered
from servonode.bus.processes import Named
from servonode.bus.topology import GOAL_HELD, NODES, PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.nodes.fault_ladder import ESTOP
from servonode.nodes.input_limiter import WOULD_SEND
from servonode.nodes.node_process import call_process
from servonode.nodes.plant_time import PAUSED
from servonode.operator.listener import give_way
from servonode.plants.view import View
from servonode.views import frames
from servonode.views.live_run import ROWS, LiveRun, usual_span
from servonode.views.panel_specs import usual_panels
from servonode.views.scene import magnified
from servonode.views.shapes import ArrowScale, Instant, Shapes
from servonode.wings.web.relay import LINE
from servonode.wings.web.view_data import LiveLines, decimals, live_panel, shapes_data, view_layout

MOST_PANELS = 24  # of a page, which can be scrolled
CHUNK = 256  # rows of a line at most
STATUS_S = 0.2  # s (wall clock) between two statuses; they also say that this process lives
DIGITS = 6  # decimal places of a pose
LETTERS = 200  # of the note at most
FPS = 30


class TooLarge(ServonodeError):
    """A frame is larger than a page can take; the text says what to do."""

    exit_code = 1


class Frames:
    """Turns what is kept of one run into lines."""

    def __init__(self, source: LiveRun) -> None:
        assert source.closed_loop is not None
        assert source.feed is not None
        self._source, self._closed_loop, self._feed = source, source.closed_loop, source.feed
        machine = self._closed_loop.machine
        self._span = usual_span(self._closed_loop)
        self._views = [_LiveView(view, self._closed_loop) for view in self._closed_loop.views]
        self._lean = 0.0  # rad, the largest so far
        self._bodies = Bodies(self._closed_loop)
        description = machine.description
        self._known = [each.name for each in (*description.state, *description.outputs, *description.inputs)]
        self._run = self._sent = self._status_due = 0.0
        self._begun = False

    def lines(self) -> Iterator[bytes]:
        """What there is to say since the last call."""
        if not self._begun or self._feed.run != self._run:  # the plant has restarted
            yield self._begin()
        self._feed.settle()
        count, columns = self._feed.ring.count, self._feed.ring.columns
        if count > self._sent:
            n = len(columns["t"])
            for i in range(max(n - int(count - self._sent), 0), n, CHUNK):
                yield _line("rows", {name: column[i : i + CHUNK].tolist() for name, column in columns.items()})
            self._sent = count
            scene = self._scene(columns)
            if self._follow_wanted(columns):
                yield _line("wanted", {"views": [each.wanted.lines for each in self._views]})
            yield _line("scene", scene)
        if (now := time.monotonic()) >= self._status_due:
            self._status_due = now + STATUS_S
            yield _line("status", self._status())

    def _begin(self) -> bytes:
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
            "standing": self._source.plant_status,
            "lifecycle": str(feed.lifecycle),
            "fault": feed.fault_text,
            "extra": feed.extra,
            **node_tables(feed.statuses),
        }


def layout_of(closed_loop: ClosedLoop, name: str) -> dict[str, Any]:
    """What stays the same in a run: names, panels, views, the plant time [s] that is shown."""
    run, law = closed_loop.launch.run, closed_loop.control
    estimated = closed_loop.machine.description.state_names if closed_loop.estimation else ()
    asked = {each.name: [each.low, each.high] for each in closed_loop.live if not each.source}
    return {
        "name": name,
        "machine": closed_loop.machine.description.description,
        "program": law.law.description.name if law else "",
        "mode": str(run.mode),
        "duration": run.duration,
        "span": usual_span(closed_loop),
        "rows": ROWS,
        "panels": [live_panel(each, estimated) for each in usual_panels(closed_loop, True, most=MOST_PANELS)],
        "views": [view_layout(view, closed_loop.targets.names) | _click(view, asked) for view in closed_loop.views],
        "residuals": [{"name": each.name, "unit": each.unit} for each in closed_loop.residuals],
    }


def _click(view: View, asked: Mapping[str, list[float]]) -> dict[str, Any]:
    """The targets to which a click on a view gives its place, and their ranges; asked: those that requests bring.

    None in space. An end that is not stated is infinite, null for the page.
    """
    names = list(view.goal or ()) if view.projection is None and {*(view.goal or ())} <= asked.keys() else []
    return {"click": names, "range": [asked[name] for name in names]}


def node_tables(statuses: Mapping[str, tuple[Status, float]]) -> dict[str, Any]:
    """What the newest status of each node says, with the time it came [monotonic s].

    Whether the plant is armed, stopped or paused, what arming would send; its safe state, nodes, durations and counts.
    """
    found = {node: statuses[node] for node in reversed(NODES) if node in statuses}  # the plant first
    plant = found[PLANT][0] if PLANT in found else None
    values = plant.values if plant else {}
    shown = [(node, status) for node, (status, _) in found.items()]
    would_send = {key.removeprefix(WOULD_SEND): each for key, each in values.items() if key.startswith(WOULD_SEND)}
    return {
        "armed": bool(values.get("armed")),
        "stopped": bool(values.get(ESTOP)),
        "paused": bool(values.get(PAUSED)),
        "readonly": bool(values.get("readonly")),
        "insecure": bool(values.get("insecure")),
        "would_send": would_send,
        "goal_held": any(status.values.get(GOAL_HELD) for status, _ in statuses.values()),
        "safe_state": plant.safe_state if plant else "",
        "nodes": [
            {
                "node": node,
                "lifecycle": str(status.lifecycle),
                "fault": status.fault,
                "age": round(time.monotonic() - came, 1),
            }
            for node, (status, came) in found.items()
        ],
        "timing": [
            {"node": node, "name": name.replace("_", " "), **{key: 1e3 * seconds for key, seconds in times.items()}}
            for node, status in shown
            for name, times in gathered(status.values).items()
        ],
        "counts": [
            {"node": node, "name": name.replace("_", " "), "count": n}
            for node, status in shown
            for name, n in sorted(status.counts.items())
            if n
        ],
    }


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
    line = b"%s %s\n" % (word.encode(), msgspec.json.encode(content))  # what is not a number becomes null
    if len(line) > LINE:
        raise TooLarge(f"one {word} of this run has {len(line)} bytes, a page takes {LINE}; draw less in its VIEW")
    return line


class Bodies:
    """The bodies that have shapes, such as those of a robot's file; none of a machine that states none.

    layout: {"bodies": [{"points": [x, y, z, x, ...], "triangles": [three numbers of points, ...]}, ...], "unseen":
    what is not drawn}.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self._frames = frames.Frames(closed_loop)
        drawn, lines = frames.placed_solids(closed_loop, self._frames)
        names = self._frames.names
        self._rows = [names.index(each.frame) if each.frame in names else -1 for each in drawn]
        self.layout = {
            "bodies": [
                {"points": _rounded(each.points), "triangles": each.triangles.ravel().tolist()} for each in drawn
            ],
            "unseen": (lines[0][:LETTERS] if lines else "") + (f" ({len(lines) - 1} more)" if lines[1:] else ""),
        }

    def poses(self, values: Mapping[str, float]) -> list[list[float]]:
        """Of each body the place (x, y, z) and the rotation, row by row, by the values of the states."""
        if not self._rows:
            return []
        at = np.concatenate([self._frames.poses(0.0, values), np.eye(3, 4)[None]])[self._rows]
        found: list[list[float]] = np.round(np.hstack([at[:, :, 3], at[:, :, :3].reshape(-1, 9)]), DIGITS).tolist()
        return found


def _rounded(points: Any) -> list[float]:
    found: list[float] = np.round(points, decimals(float(np.ptp(points)))).ravel().tolist()
    return found


def feed(
    source: LiveRun,
    write: Callable[[bytes], None],
    wait: Callable[[float], bool],
    until: Callable[[], bool] | None = None,
) -> None:
    """Write frames of the run, and of the next one of its name, without end.

    wait: waits for this many seconds at most; whether somebody looks then. until: the run may be still to come, until
    this holds.
    """
    if not source.wait_open(until):
        return
    frames = Frames(source)
    period, due, looked_at = 1 / FPS, time.monotonic(), wait(0.0)
    while True:
        if source.look(time.monotonic()):
            frames = Frames(source)
        source.take_in()
        if looked_at:
            for line in frames.lines():
                write(line)
        due = max(due + period, time.monotonic())
        looked_at = wait(max(due - time.monotonic(), 1e-3))


class Viewers:
    """Waits, and reads on a descriptor what the server sends: `1` when somebody looks at the page, `0` when nobody."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._any = descriptor, False

    def wait(self, seconds: float) -> bool:
        """Whether somebody looks, after this time at most; BrokenPipeError when the server has gone."""
        if select.select([self._descriptor], [], [], seconds)[0]:
            told = os.read(self._descriptor, 64)
            if not told:
                raise BrokenPipeError
            self._any = told.endswith(b"1")
        return self._any


def _write(line: bytes) -> None:
    """The whole of it: a pipe takes as much as it has room for."""
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(1, rest) :]


def main(name: str, where: str, launcher: str) -> int:
    """Feed the page on the run of this name, or in this folder, which the process `launcher` may be about to start."""
    give_way()
    try:
        call_process("page feed", name)
        starter = Named.of(int(launcher)) if int(launcher) else None
        source = LiveRun(name, where, who="page", estimates=True)
        feed(source, _write, Viewers(0).wait, (lambda: not starter.lives(os.getuid())) if starter else None)
    except BrokenPipeError:  # the server has gone
        return 0
    except KeyboardInterrupt:
        return 130
    except ServonodeError as error:
        sys.stderr.write(f"{error}\n")
        _write(b"end %s\n" % msgspec.json.encode(str(error)))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
