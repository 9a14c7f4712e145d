"""A listener to a run that is going on: found, connected to, received from, left when it has ended.

Nobody waits for it. What it does not read in time is dropped by the sockets of the nodes.
"""

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, Self

from servonode.bus import Bus, BusError, Message, SubscriberFace, Wanted
from servonode.nodes.find_runs import find_run
from servonode.nodes.topology import NODES, publishers

LOOK_S = 0.2  # how often the registry is looked at
START_S = 0.05  # the same while the nodes are still to be started
NICE = 19


class NoSuchTopic(BusError):
    """A topic that no node of the run publishes; the text names the choices."""


class Listener:
    """Receives what the run of a name, or in a folder, publishes, and then the next run there. A context manager.

    wanted: what to subscribe to of a run that has these nodes. who: what the listener is called. Before the nodes have
    been started together nothing is connected: they count their subscribers.
    """

    def __init__(self, run: str, wanted: Callable[[Collection[str]], Wanted], who: str = "listener") -> None:
        self.run, self.wanted, self.who = run, wanted, who
        self.registry: dict[str, Any] = {}  # of the run that was found last
        self.alive = False  # whether that run is going on
        self._look_due = 0.0
        self._bus: Bus | None = None
        self._inbox: SubscriberFace | None = None

    def look(self, now: float) -> bool:
        """Look for the run when it is time to [monotonic s]; True when one was found that is not the one before."""
        if now < self._look_due:
            return False
        self._look_due = now + LOOK_S
        try:
            found = find_run(self.run)
            registry = found.described()
        except BusError:
            self.alive = False
            return False
        if not registry.get("open") or registry["started_ns"] == self.registry.get("started_ns"):
            return False
        self.prepare(registry)
        wanted = self.wanted(registry["nodes"])
        self.leave()
        self.registry, self.alive = registry, True
        self._bus = Bus(found.path, self.who)
        self._inbox = self._bus.subscriber(wanted)
        return True

    def prepare(self, registry: dict[str, Any]) -> None:
        """What is to be done before a run that was found is connected to."""

    def wait_open(self, until: Callable[[], bool] | None = None) -> bool:
        """Wait until the run's nodes have been started; BusError if it is not there.

        until: a run that is not there yet is waited for, and False comes out once this holds.
        """
        while not self.look(time.monotonic()):
            if until is None:
                find_run(self.run).described()
            elif until():
                return False
            time.sleep(START_S)
        return True

    def receive(self) -> list[tuple[str, Message]]:
        """What has arrived, with its topic, at most a bounded batch of it."""
        if self._inbox is None:
            return []
        messages = self._inbox.receive()
        if not messages and not self.alive:  # all is said; else the sockets would look for the nodes for ever
            self.leave()
        return messages

    def messages(self) -> Iterator[tuple[str, Message]]:
        """All that arrives from the run that was found, until it has ended."""
        while self._came() or self.alive:
            yield from self.receive()
            if self.look(time.monotonic()):  # another run of the name
                return

    def _came(self) -> bool:
        """Whether something arrives before it is time to look for the run."""
        return self._inbox is not None and self._inbox.wait(time.monotonic_ns() + round(LOOK_S * 1e9))

    def leave(self) -> None:
        """Close the sockets; a second call does nothing."""
        if self._bus is not None:
            self._bus.close()
        self._bus = self._inbox = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def named(word: str, nodes: Collection[str]) -> Wanted:
    """What TOPIC, or NODE/TOPIC, means in a run of these nodes.

    Raises:
        NoSuchTopic: none of them publishes it.
    """
    node, slash, topic = word.rpartition("/")
    wanted = publishers([topic], [each for each in nodes if not slash or each == node])
    if not wanted:
        full = [f"{each}/{topic}" for each in nodes for topic in NODES[each].publishes]
        short = sorted({each.partition("/")[2] for each in full})
        text = (
            f"topic {word!r} is not published in this run; choose {', '.join(short)}, or one node's: {', '.join(full)}"
        )
        raise NoSuchTopic(text)
    return wanted


def give_way() -> None:
    """Let every other process go first where cores are short: the loop, above all."""
    with contextlib.suppress(OSError):
        if hasattr(os, "SCHED_IDLE"):  # Linux: only what nobody else wants
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        else:
            os.nice(NICE)
