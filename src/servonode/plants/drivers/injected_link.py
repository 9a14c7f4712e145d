"""A link to an external plant, with the faults that are injected into it."""

from collections.abc import Callable
from typing import Any

from servonode.bus import Link, Message
from servonode.bus.interfaces import BOUND
from servonode.plants.impairments import Way, two_generators
from servonode.plants.injection import CLEAR, Injector

Topical = tuple[str, Message]


class InjectedLink:
    """A link whose messages are late or lost while a fault of it acts; all else is that of the link within.

    A damaged message is lost, and counted: wrong inputs never reach a machine. What ends a run always passes.
    """

    def __init__(self, link: Link, injector: Injector, clock: Callable[[], int]) -> None:
        to, back = two_generators([injector.seed, 1])
        self._to: Way[Topical] = Way(CLEAR, False, to, self._refuse)
        self._back: Way[Topical] = Way(CLEAR, False, back, self._refuse)
        self._link, self._injector, self._clock = link, injector, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def send(self, topic: str, message: Message) -> None:
        """Send a message, subject to the faults."""
        injector = self._injector
        if injector.lifted or getattr(message, "final", False):
            self._to.clear()  # nothing that was sent before may arrive after a stop
        if not injector.any_of("link") or injector.lifted or getattr(message, "final", False):
            self._link.send(topic, message)
            return
        self._to.impairments = injector.impairments("applied", injector.k)
        self._to.send(self._clock(), (topic, message))
        self._deliver()

    def receive(self, bound: int = BOUND) -> list[Topical]:
        """The messages that have come and arrived, oldest first."""
        came = self._link.receive(bound)
        if not self._injector.any_of("link"):
            return came
        self._deliver()
        self._back.impairments = self._injector.impairments("state", self._injector.k)
        for each in came:
            self._back.send(self._clock(), each)
        return list(self._back.arrivals(self._clock()))

    def due(self) -> int | None:
        """The monotonic time [ns] at which to call `receive` although no descriptor became readable, or None."""
        times = (self._link.due(), self._to.next_arrival(), self._back.next_arrival())
        return min((time for time in times if time is not None), default=None)

    def _deliver(self) -> None:
        """Send what has arrived at the far end of the faults."""
        for topic, message in self._to.arrivals(self._clock()):
            self._link.send(topic, message)

    def _refuse(self, _message: Topical, _place: float, _size: float) -> None:
        """What is left of a damaged message: nothing."""
        self._link.counts["damaged"] += 1
