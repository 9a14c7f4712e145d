"""A machine behind a link as a plant.

The machine may be another process or, behind an unreliable link, a simulation in this one; docs/reference/protocol.md
says what it must do. Nothing here waits: the plant node sleeps until one of `fds` is readable, or until `due`.
"""

import time
from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from servonode.bus import Link, State, Status
from servonode.mechanics.description import unpacked
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.applied_inputs import CLAMPED, AppliedInputs
from servonode.plants.drivers.handshake import Handshake
from servonode.plants.drivers.law_watch import LawWatch
from servonode.plants.drivers.link_watch import FLOODING, LinkWatch, listed
from servonode.plants.drivers.readings import Readings
from servonode.plants.drivers.terms import Clock, Terms
from servonode.plants.plant import Info, Reading
from servonode.plants.plausible import Plausible

Array = npt.NDArray[np.float64]

SENDS_STATE = "the machine sends its state; leave plant.device.sends out"
SENDS_READINGS = 'the machine sends no state; give plant.device.sends = "readings" and an [estimator]'
FRESH_NS = 1_000_000  # shortest time between two looks for messages in real time


class DevicePlant:
    """A machine behind a link, behind the plant contract.

    In real time the machine runs on its own clock, and its own step stamps tell how old its newest state is; in
    lockstep it advances only to the step it is sent to. The last entry of `x`, the work, is nan: it is not known. If
    the machine sends only readings, the state is an estimate.

    The contract asks for so many methods and attributes. Beside them it has four parts, each with its own decisions:
    the `Handshake`, the `AppliedInputs`, the `Readings`, the `LinkWatch`.
    """

    simulated = False
    finite = True  # the decoder refuses every other number

    def __init__(
        self,
        machine: Machine,
        link: Link,
        terms: Terms,
        clock: Clock = time.monotonic_ns,
        plausible: Plausible | None = None,
    ) -> None:
        self.machine, self.terms = machine, terms
        self.step_ns = terms.step_ns
        self.k = 0
        self.x = np.array([*unpacked(machine.description.layout, terms.start), np.nan])
        self._link, self._clock = link, clock
        self._handshake = Handshake(link, terms, machine.description.input_names)
        self._inputs = AppliedInputs(link, self._handshake, clock)
        self._readings = Readings(machine, terms, plausible)
        self._watch = LinkWatch(link, self._readings, self._inputs, terms.state_timeout)
        self._law_watch = LawWatch(terms)
        self._closed = self._clamps = False
        self._own_brake: bool | None = getattr(link, "brakes", None)  # None: messages, which are no burden to a line
        period = terms.period or terms.timeout / 3
        self._brake_s = period if self._own_brake else min(period, terms.brake_time)  # between inputs that brake
        self._origin = 0  # start id of the machine whose positions are taken as they are; 0: the next one's
        self._braking = False  # whether the newest inputs were those of the safe action
        self._other = False  # it sends its state although readings are wanted, or the other way round
        self.output = self._inputs.values

    @property
    def t(self) -> float:
        """Plant time [s]."""
        return self.k * self.step_ns / 1e9

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable when something may have come from the machine."""
        return self._link.fds

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
        clamped = {CLAMPED: float(self._clamps)} if self._watch.counts[CLAMPED] else {}
        return self._readings.extra | clamped

    # life

    def open(self) -> Info:
        """Open the link; nothing moves. Raises BusError where it cannot be opened."""
        self._link.open()
        names, inputs = self.machine.description.state_names, self.machine.description.input_names
        limits = tuple(self.terms.limits.get(name, np.inf) for name in inputs)
        return Info(self.terms.machine, names, inputs, self.step_ns / 1e9, limits, simulated=False)

    def connect(self, run: int, k: int) -> None:
        """Begin the handshake for the run of this id at plant step k; forget what was known of the machine."""
        now = self._clock()
        self.k = k
        self._inputs.begin()
        self._readings.forget(k, now)
        self._watch.begin(now)
        self._law_watch.forget()
        self._handshake.begin(run, k, now)

    def connected(self) -> bool:
        """Whether the machine has answered with a good state of this run, which is then `x`."""
        if self._handshake.done:
            return True
        now = self._clock()
        self._drain(now)
        if not self._readings.known:
            self._handshake.repeat(self.k, now)
            return False
        self._handshake.finish()
        if not self._origin:
            self.accept_origin()
        self._readings.answered = True
        self._watch.since_ns = self._inputs.sent_ns = now
        return True

    @property
    def obstacle(self) -> str:
        """Why the plant must not be armed, with the remedy: the machine has started anew; empty: it may be.

        Its positions begin where it is then. An estimate begins anew too, so that this is for machines with a state.
        """
        newest = self._readings.newest
        if self._readings.estimated or not self._handshake.done or newest is None or newest.src == self._origin:
            return ""
        names = self.machine.description.coordinates
        shown = ", ".join(f"{name} = {_shown(newest.state[name])}" for name in names[:4] if name in newest.state)
        text = f"the machine has started anew, and its positions begin at {shown}{', ...' if len(names) > 4 else ''}"
        return f"{text}; make sure that this is where it stands, then servonode reset --origin"

    def accept_origin(self) -> None:
        """Take the positions of a machine that has started anew as they are, or those of the next one to answer."""
        newest = self._readings.newest
        self._origin = newest.src if self._handshake.done and newest is not None else 0

    def due(self) -> int | None:
        """The monotonic time [ns] at which to look again though no descriptor became readable, if any."""
        again, comes = self._handshake.due_ns or self._inputs.due_ns, self._link.due()
        return again if comes is None else comes if again is None else min(again, comes)

    def safe(self) -> None:
        """Send zero input at once; in lockstep, where time stands still, with the next advance.

        A machine that brakes by itself is told to, unless its own state or its law is what cannot be trusted: a link
        that fails must not release its brake.
        """
        zero = np.zeros(self.machine.n_inputs)
        if self._own_brake and self._readings.distrust is None and self._watch.reported is None:
            self._write(zero, None, brakes=True)
        else:
            self.write(zero)

    def close(self) -> None:
        """Tell the machine that the run is over, and free the link; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._inputs.hold(np.zeros(self.machine.n_inputs), -1)
        if self._handshake.run:
            for _ in range(2):  # nobody answers the last message
                self._inputs.send(self.k, final=True)
        self._link.close()

    # each step

    def read(self) -> Reading:
        """The newest state, at our own step, with its age."""
        readings, quality = self._readings.give(self.k), self._readings.quality()
        return Reading(self.k, self.t, self.x[:-1], self._readings.step, self.age, readings, quality)

    @property
    def age(self) -> float:
        """The age of the newest state [s of plant time]; 0 in lockstep, where time stands still."""
        if self.terms.lockstep or not self._handshake.done:
            return 0.0
        return max(self._clock() - self._readings.measured_ns, 0) * 1e-9 * self.terms.speed

    @property
    def latency(self) -> float:
        """The median time from the sending of an input until it acts [s of plant time]; 0: not measured."""
        latency = self._inputs.latency
        return latency.ns() * 1e-9 * self.terms.speed if latency is not None else 0.0

    def drops(self) -> bool:
        """False: here a lost state is one that does not come."""
        return False

    def write(self, applied: Array) -> None:
        """Send inputs that have passed the filter; in lockstep they go with the next advance."""
        self._write(applied, None)

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
        if again and (self._clock() - self._inputs.sent_ns) * 1e-9 * self.terms.speed < self._brake_s:
            self._inputs.hold(applied, self._readings.step, None, self._inputs.brakes)
            return
        self._write(applied, None, brakes=True)
        self._braking = True

    def _write(self, applied: Array, goal: list[float] | None, brakes: bool = False) -> None:
        self._braking = False
        own = brakes and bool(self._own_brake) and not self.terms.lockstep
        self._inputs.hold(applied, self._readings.step, goal, own)
        if not self.terms.lockstep and self._handshake.run:
            self._inputs.send(self.k)

    def advance(self, steps: int) -> None:
        """In real time take what came, because the time has passed already; in lockstep send the machine there."""
        if self.terms.lockstep:
            self._inputs.send(self.k, until=self.k + steps)
            return
        now = self._clock()
        self._drain(now)
        self.k += steps
        if self._handshake.done and (now - self._inputs.sent_ns) * 1e-9 > self.terms.timeout / 3:
            # repeated, so that the machine times out only where this process or the link fails
            self._inputs.send(self.k)

    def advance_watched(self, steps: int) -> Array | None:
        """As `advance`; a machine's fault within a step cannot be located."""
        self.advance(steps)
        return None

    def arrived(self) -> bool:
        """Whether the machine has reached the step of `advance`; an order without answer is sent again.

        In real time it always has, and its messages are taken, so that a plant that waits keeps up with it.
        """
        now, inputs = self._clock(), self._inputs
        if inputs.order is not None or now - self._watch.looked_ns > FRESH_NS:
            self._drain(now)
        if inputs.order is None or inputs.due_ns is None:
            return True
        if now >= inputs.due_ns:
            inputs.repeat_order(now)
            self._watch.counts["resent"] += 1
        return False

    def link_fault(self, now: int | None = None) -> tuple[str, str] | None:
        """What is wrong with the machine or the link: name and text of a fault, or None.

        Judged at `now` [monotonic ns] if given: what is due later is not late.
        """
        watch, answered = self._watch, self._handshake.done
        now = self._clock() if now is None else now
        stale = watch.stale(now) if answered or watch.reported else None
        if stale is not None:
            self._drain(now)  # a state that waits here to be read is not late
        fault = watch.reported or self._readings.distrust
        if fault is None and answered and self._link.lost:
            return "link_lost", self._link.lost
        if fault is not None or stale is None or self.terms.lockstep or not answered:
            return fault
        return watch.stale(now)

    def restart_timeouts(self, now: int) -> None:
        """Begin all waits afresh: this process was stalled until now [monotonic ns]; once until a good state comes."""
        self._watch.restart_timeouts(now)

    def energy(self) -> float:
        """Kinetic plus potential energy of the newest state [J]."""
        return self.machine.energy(self.t, self.x)

    def no_answer_reason(self) -> str:
        """Why the handshake may not have been answered, for people."""
        listens, hint = self._link.listened(), self._link.hint
        if self._readings.estimated and self._readings.estimated.unknown_reason:
            text = self._readings.estimated.unknown_reason
        elif hint:
            text = f"no machine answers: {hint}"
        elif self._other:
            text = SENDS_STATE if self._readings.estimated else SENDS_READINGS
        elif listens:
            text = "the machine is connected, but sends no state of this run"
        elif listens is None:
            text = "no machine answers"
        else:
            text = "no machine is connected; start it with the same two addresses"
        return f"{text}{listed(self._watch.all_counts())}"

    # messages

    def _drain(self, now: int) -> None:
        """Take what has come; the newest good state counts."""
        came = self._link.receive()
        # after the read: a process suspended before it would take the messages for older than they are
        arrived = self._clock()
        flooded = self._watch.flooded(len(came), now)
        if flooded and self._handshake.done and self._readings.distrust is None:
            self._readings.distrust = FLOODING
        for _, message in came:
            if type(message) is State:
                self._take(message, arrived)
            elif type(message) is Status and message.lifecycle == "fault" and message.run == self._handshake.run:
                self._watch.reported = "device", f"the machine reports: {message.fault or 'a fault without a name'}"

    def _take(self, state: State, now: int) -> None:
        """Take a state as the newest, or refuse it and count the reason."""
        handshake, inputs = self._handshake, self._inputs
        if state.run != handshake.run:
            if not handshake.is_left_over(state.run):
                self._watch.counts["refused_run"] += 1
            return
        reason = self._misfit(state) or self._readings.take(state, now, self.x, inputs)
        if reason:
            self._watch.counts[reason] += 1
            return
        self._watch.good_state(now)
        self._watch.reported = self._watch.reported or self._law_watch.take(state)
        self._clamps = self.terms.resolution > 0 and inputs.clamps(state)
        self._watch.counts[CLAMPED] += self._clamps
        if inputs.taken(state, self._readings.measured_ns):
            self.x[:-1] = self._readings.values
            if self.terms.lockstep:
                self.k = state.k
                self._watch.was_asked_for()

    def _misfit(self, state: State) -> str:
        """The reason to count if a state of this run cannot be the machine's next; empty: it can."""
        readings, inputs = self._readings, self._inputs
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
        if self.terms.lockstep and state.k != self.k and (order is None or state.k != order.until):
            return "refused_step"
        if newest is not None and (state.k < newest.k or state.t < newest.t):
            return "refused_backward"
        return ""


def _shown(value: float | list[float]) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else f"[{', '.join(f'{each:.4g}' for each in value)}]"
