"""A machine behind a link as a plant.

The machine may be another process or, behind an unreliable link, a simulation in this one; docs/reference/protocol.md
says what it must do. Nothing here waits: the plant node sleeps until one of the remote's `fds` is readable, or
until it is `due`.
"""

from collections import Counter
from collections.abc import Mapping
from typing import cast

import numpy as np

from servonode.arrays import Array
from servonode.bus import Link
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.injected_link import InjectedLink
from servonode.plants.drivers.remote_device import RemoteDevice
from servonode.plants.plant import Info, Reading


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
