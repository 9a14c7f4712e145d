"""The moments of a run in progress: the newest one only, so that whoever is slow misses some."""

import time
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from servonode.bus import Message, Status
from servonode.closed_loop.hosts import is_networked
from servonode.neighbours.happened import Happened
from servonode.neighbours.moments import Layout, Moment, Moments
from servonode.record.events import Events
from servonode.views.live_run import LiveRun


class LiveMoments:
    """Makes moments of what is kept of one run. A process that uses it calls `give_way` first."""

    def __init__(self, source: LiveRun, layout: Layout | None = None) -> None:
        assert source.closed_loop is not None
        assert source.feed is not None
        self._feed, self._moments = source.feed, Moments(source.closed_loop, layout)
        self._events, self._happened = Events(), Happened()
        self._one_clock = not is_networked(source.closed_loop.launch)
        self._wall_less_mono = time.time_ns() - time.monotonic_ns()
        self._residuals: dict[str, float] = {}
        self._told = self._count = 0

    def take(self, messages: Sequence[Message]) -> None:
        """Take the events that these messages of the run tell of."""
        for message in messages:
            if isinstance(message, Status):
                for event in self._events.shown_by(f"{message.node}/status", msgspec.to_builtins(message)):
                    self._happened.take(event)

    def newest(self) -> Moment | None:
        """The moment of the newest state; None if nothing has come since the last call."""
        count, columns = self._feed.ring.count, self._feed.ring.columns
        if count == self._count or not len(self._feed.ring):
            return None
        row = {name: float(column[-1]) for name, column in columns.items()}
        fresh = {name: value for name, value in row.items() if name.startswith("residual_") and np.isfinite(value)}
        self._residuals |= fresh
        mono = self._feed.mono if self._one_clock else time.monotonic_ns()
        self._count, self._told = count, max(self._told, mono + self._wall_less_mono)
        happened = self._happened
        return self._moments.moment(
            row | self._residuals, self._told, happened.lifecycle, happened.fault, happened.lines()
        )


def live_moments(source: LiveRun, rate: float, layout: Layout | None = None) -> Iterator[Moment | None]:
    """The newest moment of the run that `source` is connected to, `rate` times a second, until the run has ended.

    None where nothing has come since, so that whoever asks can see to other things. It ends, too, when another run
    takes the name.
    """
    moments = LiveMoments(source, layout)
    due = time.monotonic()
    while True:
        messages = source.take_in()
        moments.take(messages)
        yield moments.newest()
        if not messages and not source.alive:
            return
        if source.look(time.monotonic()):
            return
        due = max(due + 1 / rate, time.monotonic())
        time.sleep(max(due - time.monotonic(), 1e-3))
