"""A machine behind a link: its handshake, its messages, and what is wrong with it."""

from collections.abc import Mapping

import numpy as np

from servonode.bus import Link, State, Status
from servonode.plants.drivers.applied_inputs import CLAMPED, AppliedInputs
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.handshake import Handshake
from servonode.plants.drivers.link_watch import FLOODING, LawWatch, LinkWatch, listed
from servonode.plants.drivers.readings import Readings

SENDS_STATE = "the machine sends its state; leave plant.device.sends out"
SENDS_READINGS = 'the machine sends no state; give plant.device.sends = "readings" and an [estimator]'
FRESH_NS = 1_000_000  # shortest time between two looks for messages in real time


class RemoteDevice:
    """Exchanges messages with a machine, and judges whether it answers. Nothing here waits.

    k: plant step; in lockstep that of the newest state. x: the newest kernel state. It has the methods of
    `Remote`, and the four parts of the exchange, each with its own decisions: the `Handshake`, the `AppliedInputs`,
    the `Readings`, the `LinkWatch`.
    """

    def __init__(self, context: DriverContext, link: Link) -> None:
        self.context, self.link, self.clock = context, link, context.clock
        self.k = 0
        self.x = np.array([*context.start[: context.machine.n_state], np.nan])
        self.handshake = Handshake(link, context)
        self.inputs = AppliedInputs(link, self.handshake)
        self.readings = Readings(context)
        self.watch = LinkWatch(link, self.readings, self.inputs, context.state_timeout)
        self._law_watch = LawWatch(context)
        self._clamps = False
        self._origin = 0  # start id of the machine whose positions are taken as they are; 0: the next one's
        self._other = False  # it sends its state although readings are wanted, or the other way round

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable when something may have come from the machine."""
        return self.link.fds

    @property
    def extra(self) -> Mapping[str, float]:
        """What else the machine measures, by its last message, and whether it clamps inputs that it echoes exactly."""
        clamped = {CLAMPED: float(self._clamps)} if self.watch.counts[CLAMPED] else {}
        return self.readings.extra | clamped

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
            if not handshake.is_left_over(state.run):
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
                self.watch.was_asked_for()

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


def _shown(value: float | list[float]) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else f"[{', '.join(f'{each:.4g}' for each in value)}]"
