"""A link to a simulated machine in this process, behind impairments; it carries the same bytes as a wire."""

from collections import Counter

from servonode.bus import Message
from servonode.bus.codec import encode_frames
from servonode.bus.interfaces import BOUND, message_intake
from servonode.bus.link import MACHINE_TOPICS
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.simulated_device import SimulatedDevice
from servonode.plants.impairments import Frames, both_ways
from servonode.plants.link_keys import Impairments


class LoopbackLink:
    """Carries messages to and from a simulated machine; each event keeps its own time, whenever the link is polled.

    So a run in lockstep repeats exactly, and a run in real time is as late as the wall clock makes it.
    """

    fds: tuple[int, ...] = ()
    lost = hint = ""

    def __init__(self, context: DriverContext) -> None:
        assert context.simulated_machine is not None
        self._intake = message_intake({"machine": MACHINE_TOPICS})
        self.counts: Counter[str] = self._intake.counts
        self._clock = context.clock
        self._to, self._back = both_ways(Impairments(**context.stated.link), context.seed)
        sends_state = context.estimate is None
        self.device = SimulatedDevice(context.machine, context.simulated_machine, self._from_machine, sends_state)

    def open(self) -> None:
        """Nothing to open."""

    def send(self, topic: str, message: Message) -> None:
        """Send a message to the machine."""
        self._to.send(self._clock(), encode_frames(topic, message))

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """Simulate link and machine up to now, and take what has arrived here."""
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
        """The time of the next arrival at either end, or of the machine's next state [monotonic ns]."""
        times = (self._to.next_arrival(), self._back.next_arrival(), self.device.due())
        return min((time for time in times if time is not None), default=None)

    def renew(self) -> None:
        """Nothing to connect."""

    def listened(self) -> bool | None:
        """None: not known."""
        return None

    def close(self) -> None:
        """Nothing to close."""

    def _happen(self, now: int) -> None:
        """Advance the machine to now, and deliver what arrives there meanwhile."""
        while (arrival := self._to.next_arrival()) is not None and arrival <= now:
            for frames in self._to.arrivals(arrival):
                self.device.take(arrival, frames)
        self.device.advance_to(now)

    def _from_machine(self, now: int, frames: Frames) -> None:
        """Send what the machine publishes; a cut is timed from its first answer."""
        if self._back.origin is None:
            self._to.origin = self._back.origin = now
        self._back.send(now, frames)
