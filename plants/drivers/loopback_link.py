"""A link to a simulated machine in this process, behind impairments; it carries the same bytes as a wire."""

import time
from collections import Counter

from servonode.bus import Message
from servonode.bus.codec import encode_frames
from servonode.bus.interfaces import BOUND, Intake
from servonode.bus.link import MACHINE_TOPICS
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.impairments import Frames, both_ways
from servonode.plants.drivers.link_keys import Impairments
from servonode.plants.drivers.simulated_device import SimulatedDevice, Workings
from servonode.plants.drivers.terms import Clock


class LoopbackLink:
    """Whatever happens on the link and in the machine happens at its own time, whenever the link is looked at.

    So a run in lockstep repeats exactly, and one in real time is as late as the wall clock makes it.
    """

    fds: tuple[int, ...] = ()
    lost = hint = ""

    def __init__(
        self,
        machine: Machine,
        workings: Workings,
        impairments: Impairments,
        seed: int,
        clock: Clock = time.monotonic_ns,
    ) -> None:
        self._intake = Intake({"machine": MACHINE_TOPICS})
        self.counts: Counter[str] = self._intake.counts
        self._clock = clock
        self._to, self._back = both_ways(impairments, seed)
        self.device = SimulatedDevice(machine, workings, self._from_machine)

    def open(self) -> None:
        """Nothing to open."""

    def send(self, topic: str, message: Message) -> None:
        """Put a message on its way to the machine."""
        self._to.send(self._clock(), encode_frames(topic, message))

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """Let happen what is due, and take what has arrived here."""
        now = self._clock()
        self._happen(now)
        taken = []
        for frames in self._back.arrivals(now):
            if (message := self._intake.take(*frames)) is not None:
                taken.append(message)
            if len(taken) >= bound:
                break
        return taken

    def due(self) -> int | None:
        """When something arrives at either end, or the machine publishes [monotonic ns]."""
        times = (self._to.next_arrival(), self._back.next_arrival(), self.device.due())
        return min((time for time in times if time is not None), default=None)

    def renew(self) -> None:
        """Nothing to connect."""

    def listened(self) -> bool | None:
        """None: nothing here knows."""
        return None

    def close(self) -> None:
        """Nothing to close."""

    def _happen(self, now: int) -> None:
        """Bring the machine to now, taking on the way what arrives there."""
        while (arrival := self._to.next_arrival()) is not None and arrival <= now:
            for frames in self._to.arrivals(arrival):
                self.device.take(arrival, frames)
        self.device.advance_to(now)

    def _from_machine(self, now: int, frames: Frames) -> None:
        """The machine publishes; its first answer is where a cut is counted from."""
        if self._back.origin is None:
            self._to.origin = self._back.origin = now
        self._back.send(now, frames)
