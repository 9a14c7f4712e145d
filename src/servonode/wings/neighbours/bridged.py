"""What the bridges have in common: the newest moments of a run in progress, threads beside, the emergency stop."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
import numpy as np

from servonode.bus import BusError, Message, Status
from servonode.closed_loop.hosts import is_networked
from servonode.errors import ServonodeError
from servonode.operator.operator_requests import stop_all
from servonode.record.events import Events
from servonode.views.live_run import LiveRun
from servonode.wings.neighbours.moments import Happened, Layout, Moment, Moments

ENDED = "the run has ended"

log = logging.getLogger(__name__)


class NoGraph(ServonodeError):
    """Cyclone DDS cannot take part in the domain of ROS 2; the text says what it needs."""


@contextmanager
def beside(*works: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Do each of these again and again in a thread of its own; what is given raises the error that one ended with."""
    ended, errors = threading.Event(), list[Exception]()

    def repeat(work: Callable[[], None]) -> None:
        try:
            while not ended.is_set():
                work()
        except Exception as error:  # noqa: BLE001  (of a thread: it is raised where it is seen)
            errors.append(error)

    def check() -> None:
        if errors:
            raise errors[0]

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield check
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def stop_run(folder: str, service: str) -> tuple[bool, str]:
    """Stop the run in this folder, as `service` asks for: whether its plant has confirmed that, and what to show."""
    try:
        stops, unknown = stop_all([folder])
    except (BusError, OSError) as error:
        return False, str(error)
    texts = [f"{each.run}: {each.lifecycle if each.confirmed else each.text}" for each in stops]
    text = "; ".join([*texts, *[ENDED] * len(unknown)])
    log.warning("emergency stop from %s: %s", service, text)
    return bool(stops) and not unknown and all(each.confirmed for each in stops), text


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
        fresh = {
            name: value
            for name, value in row.items()
            if name.startswith(("residual_", "margin_")) and np.isfinite(value)
        }
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
