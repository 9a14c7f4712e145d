"""The link between a simulated machine and its host, in plant time, for faults that are injected into it."""

from typing import NamedTuple

from servonode.arrays import Array
from servonode.plants.impairments import Way, two_generators
from servonode.plants.injection import CLEAR, Injector

Readings = dict[str, list[float]]


class Measured(NamedTuple):
    """What the machine measured at a plant step, as it is known to the host."""

    k: int
    state: Array
    readings: Readings | None


class SimulatedLink:
    """Carries inputs to the machine and measurements back, as `Way` does for the frames of a wire.

    A damaged message is refused by whoever decodes it, so that it is lost. Both ends have a watchdog: after the
    injector's `link_timeout` without a message the machine takes zero inputs, and the host has a fault. Its attributes
    are what each end knows of the other.
    """

    def __init__(self, injector: Injector, step_ns: int, k: int) -> None:
        to, back = two_generators([injector.seed, 1])
        self._to: Way[tuple[int, Array]] = Way(CLEAR, False, to, _nothing)
        self._back: Way[Measured] = Way(CLEAR, False, back, _nothing)
        self._injector, self._step_ns = injector, step_ns
        self._newest: Measured | None = None  # that has arrived at the host
        self._begin = k
        self._sent = k  # step of the newest inputs that were sent
        self._untaken: int | None = None  # step since which no inputs have arrived at the machine; None: the newest has

    def send(self, k: int, inputs: Array) -> None:
        """Send inputs to the machine at step k."""
        if self._injector.lifted:
            self._to.clear()  # nothing that was sent before may arrive after a stop
        self._to.impairments = self._injector.impairments("applied", k)
        self._to.send(k * self._step_ns, (k, inputs.copy()))
        self._sent, self._untaken = k, k if self._untaken is None else self._untaken

    def arriving(self, k: int) -> Array | None:
        """The newest inputs that have arrived at the machine by step k; None: no new ones."""
        came = list(self._to.arrivals(k * self._step_ns))
        if not came:
            return None
        sent, newest = came[-1]
        self._untaken = None if sent == self._sent else sent
        return newest

    def is_untaken(self, k: int) -> bool:
        """Whether the machine has waited for inputs for too long."""
        return self._untaken is not None and k - self._untaken > self._injector.link_timeout

    def measured(self, sent: Measured) -> Measured:
        """The newest that has arrived when the machine sends this; with all readings that have, and were not known."""
        self._back.impairments = self._injector.impairments("state", sent.k)
        self._back.send(sent.k * self._step_ns, sent)
        readings: Readings | None = None if sent.readings is None else {}
        newest = self._newest or Measured(self._begin, sent.state, readings)
        for newest in self._back.arrivals(sent.k * self._step_ns):
            for name, given in (newest.readings or {}).items():
                readings = readings or {}
                readings[name] = [*readings.get(name, ()), *given]
        self._newest = newest
        return newest._replace(readings=readings)

    def fault(self, k: int) -> tuple[str, str] | None:
        """Name and text of the fault that the host finds at step k, as behind a link to hardware; None: none."""
        ms = self._injector.step * 1e3
        if self._newest is not None and k - self._newest.k > self._injector.link_timeout:
            text = f"no good state of the machine for {(k - self._newest.k) * ms:.0f} ms of plant time"
            return "stale_state", f"{text}; check that it is running and still in this run"
        if self._untaken is not None and self.is_untaken(k):
            text = f"the machine sends states but has taken no input sent in the last {(k - self._untaken) * ms:.0f} ms"
            return "stale_applied", f"{text} of plant time; check that it still receives messages"
        return None


def _nothing(_message: object, _place: float, _size: float) -> None:
    """What is left of a damaged message."""
