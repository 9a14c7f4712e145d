"""A machine behind a link as a plant: its handshake, its messages, and what is wrong with it.

The machine may be another process or, behind an unreliable link, a simulation in this one; docs/reference/protocol.md
says what it must do. Nothing here waits: the plant node sleeps until one of the plant's `fds` is readable, or
until it is `due`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from servonode.arrays import Array
from servonode.bus import Link, Message, State, Status
from servonode.bus.codec import BOUND
from servonode.plants.drivers.applied_inputs import CLAMPED, AppliedInputs
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.handshake import Handshake
from servonode.plants.drivers.link_watch import FLOODING, LawWatch, LinkWatch, listed
from servonode.plants.drivers.readings import Readings
from servonode.plants.impairments import Way, two_generators
from servonode.plants.injection import CLEAR, Injector
from servonode.plants.plant import Info, Reading
from servonode.plants.servos import ServoCommands

Topical = tuple[str, Message]
SENDS_STATE = "the machine sends its state; leave plant.device.sends out"
SENDS_READINGS = 'the machine sends no state; give plant.device.sends = "readings" and an [estimator]'
FRESH_NS = 1_000_000  # shortest time between two looks for messages in real time


class DevicePlant:
    """A machine behind a link: a plant and, as its `remote`, what of it belongs to links alone.

    In real time the machine runs on its own clock, and its own step stamps tell how old its newest state is; in
    lockstep it advances only to the step it is sent to. The last entry of `x`, the work, is nan: it is not known. If
    the machine sends only readings, the state is an estimate. k: plant step; in lockstep that of the newest state.

    The exchange has four parts, each with its own decisions: the `Handshake`, the `AppliedInputs`, the `Readings`, the
    `LinkWatch`.
    """

    simulated = False
    finite = True  # the decoder refuses every other number

    def __init__(self, context: DriverContext, link: Link) -> None:
        if context.injector is not None:
            link = cast(Link, InjectedLink(link, context.injector, context.clock))
        self.context, self.link, self.clock, self.step_ns = context, link, context.clock, context.step_ns
        self.k = 0
        self.x = np.array([*context.start[: context.machine.n_state], np.nan])
        self.handshake = Handshake(link, context)
        self.inputs = AppliedInputs(link, self.handshake)
        self.readings = Readings(context)
        self.watch = LinkWatch(link, self.readings, self.inputs, context.state_timeout)
        self.output = self.inputs.values
        self._law_watch = LawWatch(context)
        self._clamps = False
        self._origin = 0  # start id of the machine whose positions are taken as they are; 0: the next one's
        self._other = False  # it sends its state although readings are wanted, or the other way round
        self._closed = False
        self._own_brake: bool | None = getattr(link, "brakes", None)  # None: messages, which are no burden to a line
        period = context.stated.period_s or context.timeout / 3
        self._brake_s = period if self._own_brake else min(period, context.brake_time)  # between inputs that brake
        self._told = ServoCommands(context.machine, context.servos, self.watch.counts) if context.servos else None
        self._written: Array | None = None  # the newest array of inputs: written again, it leaves servos their commands
        self._braking = False  # whether the newest inputs were those of the safe action

    @property
    def remote(self) -> "DevicePlant":
        """What belongs to links alone."""
        return self

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable when something may have come from the machine."""
        return self.link.fds

    @property
    def t(self) -> float:
        """Plant time [s]."""
        return self.k * self.step_ns / 1e9

    @property
    def counts(self) -> Counter[str]:
        """What was refused (`refused_<reason>`), came in the wrong order (`old_states`), was sent again (`resent`).

        Where the state is estimated, also what became of readings, see `Estimated.counts`.
        """
        estimated = self.readings.estimated
        return self.watch.all_counts() + (estimated.counts if estimated else Counter())

    @property
    def distrust(self) -> tuple[str, str] | None:
        """Name and text of the fault for which the newest readings are not plausible, until the next handshake."""
        return self.readings.distrust

    @property
    def extra(self) -> Mapping[str, float]:
        """What else the machine measures, by its last message, and whether it clamps inputs that it echoes exactly."""
        clamped = {CLAMPED: float(self._clamps)} if self.watch.counts[CLAMPED] else {}
        return self.readings.extra | clamped

    # the plant

    def open(self) -> Info:
        """Open the link; nothing moves. Raises BusError where it cannot be opened."""
        self.link.open()
        description = self.context.machine.description
        names, inputs = description.state_names, description.input_names
        limits = tuple(self.context.limits.get(name, np.inf) for name in inputs)
        return Info(description.name, names, inputs, self.step_ns / 1e9, limits, simulated=False)

    def read(self) -> Reading:
        """The newest state, at our own step, with its age."""
        readings, quality = self.readings.give(self.k), self.readings.quality()
        return Reading(self.k, self.t, self.x[:-1], self.readings.step, self.age, readings, quality)

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
        again = self._braking and self.handshake.done
        if again and (self.context.clock() - self.inputs.sent_ns) * 1e-9 * self.context.speed < self._brake_s:
            self.inputs.hold(applied, self.readings.step, None, self.inputs.brakes)
            return
        self._write(applied, None, brakes=True)
        self._braking = True

    def _write(
        self, applied: Array, goal: list[float] | None, brakes: bool = False, speeds: Array | None = None
    ) -> None:
        self._braking = False
        own = brakes and bool(self._own_brake) and not self.context.lockstep
        servos = self.inputs.servos
        if self._told is not None and applied is not self._written:
            servos = self._told.find(self.t, self.x, applied) if self.readings.known else None
        self._written = applied
        self.inputs.hold(applied, self.readings.step, goal, own, speeds, servos)
        if not self.context.lockstep and self.handshake.run:
            self.inputs.send(self.k)

    def advance(self, steps: int, watched: bool = False) -> Array | None:  # noqa: ARG002
        """In real time take what came, because the time has passed already; in lockstep send the machine there.

        None: a machine's fault within a step cannot be located.
        """
        if self.context.lockstep:
            self.inputs.send(self.k, until=self.k + steps)
            return None
        now = self.context.clock()
        self.receive(now)
        self.k += steps
        if self.handshake.done and (now - self.inputs.sent_ns) * 1e-9 > self.context.timeout / 3:
            # repeated, so that the machine times out only where this process or the link fails
            self.inputs.send(self.k)
        return None

    def safe(self) -> None:
        """Send zero input at once; in lockstep, where time stands still, with the next advance.

        A machine that brakes by itself is told to, unless its own state or its law is what cannot be trusted: a link
        that fails must not release its brake.
        """
        zero = np.zeros(self.context.machine.n_inputs)
        if self._own_brake and self.readings.distrust is None and self.watch.reported is None:
            self._write(zero, None, brakes=True)
        else:
            self.write(zero)

    def close(self) -> None:
        """Tell the machine that the run is over, and free the link; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self.inputs.hold(np.zeros(self.context.machine.n_inputs), -1)
        if self.handshake.run:
            for _ in range(2):  # nobody answers the last message
                self.inputs.send(self.k, final=True)
        self.link.close()

    # the handshake

    def begin(self, run: int, k: int) -> None:
        """Begin the handshake for the run of this id at plant step k; forget what was known of the machine."""
        now = self.clock()
        self.k = k
        self.inputs.begin()
        self.readings.forget(k, now)
        self.watch.begin(now)
        self._law_watch.forget()
        self.handshake.begin(run, k, now)

    def connected(self) -> bool:
        """Whether the machine has answered with a good state of this run, which is then `x`."""
        if self.handshake.done:
            return True
        now = self.clock()
        self.receive(now)
        if not self.readings.known:
            self.handshake.repeat(self.k, now)
            return False
        self.handshake.finish()
        if not self._origin:
            self.accept_origin()
        self.readings.answered = True
        self.watch.since_ns = self.inputs.sent_ns = now
        return True

    @property
    def obstacle(self) -> str:
        """Why the plant must not be armed, with the remedy: the machine has started anew; empty: it may be.

        Its positions begin where it is then. An estimate begins anew too, so that this is for machines with a state.
        """
        newest = self.readings.newest
        if self.readings.estimated or not self.handshake.done or newest is None or newest.src == self._origin:
            return ""
        names = self.context.machine.description.coordinates
        shown = ", ".join(f"{name} = {_shown(newest.state[name])}" for name in names[:4] if name in newest.state)
        text = f"the machine has started anew, and its positions begin at {shown}{', ...' if len(names) > 4 else ''}"
        return f"{text}; make sure that this is where it stands, then servonode reset --origin"

    def accept_origin(self) -> None:
        """Take the positions of a machine that has started anew as they are, or those of the next one to answer."""
        newest = self.readings.newest
        self._origin = newest.src if self.handshake.done and newest is not None else 0

    def no_answer_reason(self) -> str:
        """Why the handshake may not have been answered, for people."""
        listens, hint = self.link.listened(), self.link.hint
        if self.readings.estimated and self.readings.estimated.unknown_reason:
            text = self.readings.estimated.unknown_reason
        elif hint:
            text = f"no machine answers: {hint}"
        elif self._other:
            text = SENDS_STATE if self.readings.estimated else SENDS_READINGS
        elif listens:
            text = "the machine is connected, but sends no state of this run"
        elif listens is None:
            text = "no machine answers"
        else:
            text = "no machine is connected; start it with the same two addresses"
        return f"{text}{listed(self.watch.all_counts())}"

    # time

    def due(self) -> int | None:
        """The monotonic time [ns] at which to look again though no descriptor became readable, if any."""
        again, comes = self.handshake.due_ns or self.inputs.due_ns, self.link.due()
        return again if comes is None else comes if again is None else min(again, comes)

    @property
    def age(self) -> float:
        """The age of the newest state [s of plant time]; 0 in lockstep, where time stands still."""
        if self.context.lockstep or not self.handshake.done:
            return 0.0
        return max(self.clock() - self.readings.measured_ns, 0) * 1e-9 * self.context.speed

    @property
    def latency(self) -> float:
        """The median time from the sending of an input until it acts [s of plant time]; 0: not measured."""
        latency = self.inputs.latency
        return latency.ns() * 1e-9 * self.context.speed if latency is not None else 0.0

    def arrived(self) -> bool:
        """Whether the machine has reached the step of `advance`; an order without answer is sent again.

        In real time it always has, and its messages are taken, so that a plant that waits keeps up with it.
        """
        now, inputs = self.clock(), self.inputs
        if inputs.order is not None or now - self.watch.looked_ns > FRESH_NS:
            self.receive(now)
        if inputs.order is None or inputs.due_ns is None:
            return True
        if now >= inputs.due_ns:
            inputs.repeat_order(now)
            self.watch.counts["resent"] += 1
        return False

    def fault(self, now: int | None = None) -> tuple[str, str] | None:
        """What is wrong with the machine or the link: name and text of a fault, or None.

        Judged at `now` [monotonic ns] if given: what is due later is not late.
        """
        watch, answered = self.watch, self.handshake.done
        now = self.clock() if now is None else now
        stale = watch.stale(now) if answered or watch.reported else None
        if stale is not None:
            self.receive(now)  # a state that waits here to be read is not late
        fault = watch.reported or self.readings.distrust
        if fault is None and answered and self.link.lost:
            return "link_lost", self.link.lost
        if fault is not None or stale is None or self.context.lockstep or not answered:
            return fault
        return watch.stale(now)

    def restart_timeouts(self, now: int) -> None:
        """Begin all waits afresh: this process was stalled until now [monotonic ns]; once until a good state comes."""
        self.watch.restart_timeouts(now)

    # messages

    def receive(self, now: int) -> None:
        """Take what has come; the newest good state counts."""
        came = self.link.receive()
        # after the read: a process suspended before it would take the messages for older than they are
        arrived = self.clock()
        flooded = self.watch.flooded(len(came), now)
        if flooded and self.handshake.done and self.readings.distrust is None:
            self.readings.distrust = FLOODING
        for _, message in came:
            if type(message) is State:
                self._take(message, arrived)
            elif type(message) is Status and message.lifecycle == "fault" and message.run == self.handshake.run:
                self.watch.reported = "device", f"the machine reports: {message.fault or 'a fault without a name'}"

    def _take(self, state: State, now: int) -> None:
        """Take a state as the newest, or refuse it and count the reason."""
        handshake, inputs = self.handshake, self.inputs
        if state.run != handshake.run:
            if handshake.done or state.run != handshake.run_before:  # else a late one of the run before
                self.watch.counts["refused_run"] += 1
            return
        reason = self._misfit(state) or self.readings.take(state, now, self.x, inputs)
        if reason:
            self.watch.counts[reason] += 1
            return
        self.watch.good_state(now)
        self.watch.reported = self.watch.reported or self._law_watch.take(state)
        self._clamps = self.context.resolution > 0 and inputs.clamps(state)
        self.watch.counts[CLAMPED] += self._clamps
        if inputs.taken(state, self.readings.measured_ns):
            self.x[:-1] = self.readings.values
            if self.context.lockstep:
                self.k = state.k
                self.watch.allowed += 1  # the answer to an order is no part of a flood, however fast orders follow

    def _misfit(self, state: State) -> str:
        """The reason to count if a state of this run cannot be the machine's next; empty: it can."""
        readings, inputs = self.readings, self.inputs
        newest, order = readings.newest, inputs.order
        if newest is not None and state.src != newest.src:
            return "refused_src"
        if newest is not None and state.seq <= newest.seq:
            return "old_states"
        if state.state.keys() != readings.names:
            self._other = bool(state.state) == bool(readings.estimated)
            return "refused_shape"
        if state.applied_seq > inputs.seq:
            return "refused_future"
        if self.context.lockstep and state.k != self.k and (order is None or state.k != order.until):
            return "refused_step"
        if newest is not None and (state.k < newest.k or state.t < newest.t):
            return "refused_backward"
        return ""


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


def _shown(value: float | list[float]) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else f"[{', '.join(f'{each:.4g}' for each in value)}]"
