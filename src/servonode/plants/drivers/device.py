"""A machine behind a link as a plant.

The machine may be another process or, behind an unreliable link, a simulation in this one; docs/reference/protocol.md
says what it must do. Nothing here waits: the plant node sleeps until one of the remote's `fds` is readable, or
until it is `due`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from servonode.arrays import Array
from servonode.bus import Link, Message
from servonode.bus.codec import BOUND
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.remote_device import RemoteDevice
from servonode.plants.impairments import Way, two_generators
from servonode.plants.injection import CLEAR, Injector
from servonode.plants.plant import Info, Reading

Topical = tuple[str, Message]


class DevicePlant:
    """A machine behind a link, behind the plant contract, which asks for so many methods.

    In real time the machine runs on its own clock, and its own step stamps tell how old its newest state is; in
    lockstep it advances only to the step it is sent to. The last entry of `x`, the work, is nan: it is not known. If
    the machine sends only readings, the state is an estimate.
    """

    simulated = False
    finite = True  # the decoder refuses every other number

    def __init__(self, context: DriverContext, link: Link) -> None:
        if context.injector is not None:
            link = cast(Link, InjectedLink(link, context.injector, context.clock))
        self.step_ns = context.step_ns
        self.remote = RemoteDevice(context, link)
        self.x = self.remote.x
        self._context, self._link = context, link
        self._inputs, self._readings = self.remote.inputs, self.remote.readings
        self._handshake, self._watch = self.remote.handshake, self.remote.watch
        self._closed = False
        self._own_brake: bool | None = getattr(link, "brakes", None)  # None: messages, which are no burden to a line
        period = context.stated.period_s or context.timeout / 3
        self._brake_s = period if self._own_brake else min(period, context.brake_time)  # between inputs that brake
        self._braking = False  # whether the newest inputs were those of the safe action
        self.output = self._inputs.values

    @property
    def k(self) -> int:
        """Plant step."""
        return self.remote.k

    @property
    def t(self) -> float:
        """Plant time [s]."""
        return self.k * self.step_ns / 1e9

    @property
    def counts(self) -> Counter[str]:
        """What was refused (`refused_<reason>`), came in the wrong order (`old_states`), was sent again (`resent`).

        Where the state is estimated, also what became of readings, see `Estimated.counts`.
        """
        estimated = self._readings.estimated
        return self._watch.all_counts() + (estimated.counts if estimated else Counter())

    @property
    def distrust(self) -> tuple[str, str] | None:
        """Name and text of the fault for which the newest readings are not plausible, until the next handshake."""
        return self._readings.distrust

    @property
    def extra(self) -> Mapping[str, float]:
        """What else the machine measures, by its last message, and whether it clamps inputs that it echoes exactly."""
        return self.remote.extra

    @property
    def age(self) -> float:
        """The age of the newest state [s of plant time]; 0 in lockstep, where time stands still."""
        return self.remote.age

    def open(self) -> Info:
        """Open the link; nothing moves. Raises BusError where it cannot be opened."""
        self._link.open()
        description = self._context.machine.description
        names, inputs = description.state_names, description.input_names
        limits = tuple(self._context.limits.get(name, np.inf) for name in inputs)
        return Info(description.name, names, inputs, self.step_ns / 1e9, limits, simulated=False)

    def begin(self, run: int, k: int) -> None:
        """Begin the handshake for the run of this id at plant step k; forget what was known of the machine."""
        self.remote.begin(run, k)

    def read(self) -> Reading:
        """The newest state, at our own step, with its age."""
        readings, quality = self._readings.give(self.k), self._readings.quality()
        return Reading(self.k, self.t, self.x[:-1], self._readings.step, self.age, readings, quality)

    def drops(self) -> bool:
        """False: here a lost state is one that does not come."""
        return False

    def write(self, applied: Array) -> None:
        """Send inputs that have passed the filter; in lockstep they go with the next advance."""
        self._write(applied, None)

    def drive(self, applied: Array, speeds: Array) -> None:
        """As `write`, to drives that take speeds; `write` alone sends them zero speed."""
        self._write(applied, None, speeds=speeds)

    def follow(self, applied: Array, goal: list[float]) -> None:
        """As `write`, and the machine's own law follows a goal near these inputs."""
        self._write(applied, goal)

    def brake(self, applied: Array) -> None:
        """Hold the inputs of the safe action; a machine that computes it by itself is told to.

        Over packets they are sent once a control period, or as seldom as they may be held: a line can be slower than
        plant steps.
        """
        if self._own_brake is None:
            self.write(applied)
            return
        again = self._braking and self._handshake.done
        if again and (self._context.clock() - self._inputs.sent_ns) * 1e-9 * self._context.speed < self._brake_s:
            self._inputs.hold(applied, self._readings.step, None, self._inputs.brakes)
            return
        self._write(applied, None, brakes=True)
        self._braking = True

    def _write(
        self, applied: Array, goal: list[float] | None, brakes: bool = False, speeds: Array | None = None
    ) -> None:
        self._braking = False
        own = brakes and bool(self._own_brake) and not self._context.lockstep
        self._inputs.hold(applied, self._readings.step, goal, own, speeds)
        if not self._context.lockstep and self._handshake.run:
            self._inputs.send(self.k)

    def advance(self, steps: int, watched: bool = False) -> Array | None:  # noqa: ARG002
        """In real time take what came, because the time has passed already; in lockstep send the machine there.

        None: a machine's fault within a step cannot be located.
        """
        if self._context.lockstep:
            self._inputs.send(self.k, until=self.k + steps)
            return None
        now = self._context.clock()
        self.remote.receive(now)
        self.remote.k += steps
        if self._handshake.done and (now - self._inputs.sent_ns) * 1e-9 > self._context.timeout / 3:
            # repeated, so that the machine times out only where this process or the link fails
            self._inputs.send(self.k)
        return None

    def safe(self) -> None:
        """Send zero input at once; in lockstep, where time stands still, with the next advance.

        A machine that brakes by itself is told to, unless its own state or its law is what cannot be trusted: a link
        that fails must not release its brake.
        """
        zero = np.zeros(self._context.machine.n_inputs)
        if self._own_brake and self._readings.distrust is None and self._watch.reported is None:
            self._write(zero, None, brakes=True)
        else:
            self.write(zero)

    def close(self) -> None:
        """Tell the machine that the run is over, and free the link; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._inputs.hold(np.zeros(self._context.machine.n_inputs), -1)
        if self._handshake.run:
            for _ in range(2):  # nobody answers the last message
                self._inputs.send(self.k, final=True)
        self._link.close()


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
