"""A machine behind a link as a plant: the handshake, what is sent and when, what of its messages is believed.

The machine may be another process or, behind an unreliable link, a simulation in this one; docs/protocol.md says
what it must do. Nothing here waits: whoever drives the plant sleeps on `fds`, to `due` at most.
"""

import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from servonode.bus import Applied, Link, Setup, State, Status
from servonode.bus.messages import EXACT
from servonode.mechanics.description import packed, unpacked
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.reading_age import ReadingAge
from servonode.plants.plant import Info, Reading
from servonode.plants.plausible import Plausible

Array = npt.NDArray[np.float64]
Clock = Callable[[], int]  # monotonic ns

RESEND_NS = 100_000_000  # what is not answered is sent again after this long
RENEW = 10  # setups without an answer after which the link is connected anew
UNECHOED = 4096  # numbers of sent inputs that are remembered while the machine does not take them
MESSAGES_PER_MS, BACKLOG = 10, 3000  # more than so many in a time, and so many beyond that at once, are a flood
STILL = 1e-9  # relative change that is none
FRESH_NS = 1_000_000  # in real time another look is not worth its cost before this has passed
NODE = "plant"


@dataclass(frozen=True)
class Terms:
    """On what terms a machine takes part in a run."""

    machine: str  # its name
    lockstep: bool  # time stands still between two inputs
    step_ns: int  # plant step
    period: float  # s, between two control instants; 0: no controller
    speed: float  # plant seconds per wall second
    timeout: float  # s (wall clock) without an input after which the machine is safe by itself
    state_timeout: float  # s (wall clock) without a state after which the machine counts as lost
    limits: Mapping[str, float] = field(default_factory=dict)  # largest magnitude of an input that has one
    frozen_time: float = float("inf")  # s of plant time for which readings may be the same while inputs should move it
    parameters: Mapping[str, float] = field(default_factory=dict)
    start: Mapping[str, float | list[float]] = field(default_factory=dict)  # state at step 0


def terms_of(
    machine: Machine,
    start: Array,
    limits: Array,
    *,
    lockstep: bool,
    step_ns: int,
    period: float,
    speed: float,
    timeout: float,
    state_timeout: float,
    frozen_time: float = float("inf"),
) -> Terms:
    """The terms for a machine that is known here: its own names and parameters, the start as a kernel state."""
    description = machine.description
    finite = {name: float(v) for name, v in zip(description.input_names, limits, strict=True) if np.isfinite(v)}
    return Terms(
        description.name, lockstep, step_ns, period, speed, timeout, state_timeout, finite, frozen_time,
        dict(machine.parameters), packed(description.layout, start[: machine.n_state].tolist()),
    )  # fmt: skip


class DevicePlant:
    """A machine behind a link, behind the plant contract.

    In real time the machine runs on its own clock, and its own step stamps tell how old its newest state is; in
    lockstep it moves only to where it is sent. `x` ends with nan: the work is not known. `plausible` judges its
    readings; one that cannot be believed is not taken, and `distrust` says why until the next handshake.
    """

    simulated = False
    finite = True  # the decoder lets nothing else in

    def __init__(
        self,
        machine: Machine,
        link: Link,
        terms: Terms,
        clock: Clock = time.monotonic_ns,
        plausible: Plausible | None = None,
    ) -> None:
        self.machine, self.terms = machine, terms
        self.distrust: tuple[str, str] | None = None
        self._plausible = plausible
        self.step_ns = terms.step_ns
        self.k = 0
        self.x = np.append(_state(machine, terms.start), np.nan)
        self.output = np.zeros(machine.n_inputs)  # the last inputs that were written
        self.extra: Mapping[str, float] = {}  # what else the machine measures, as it said last
        self._link, self._clock = link, clock
        self._layout = machine.description.layout
        self._names = frozenset(name for name, _ in self._layout)
        self._inputs = machine.description.input_names
        self._src = secrets.randbelow(EXACT - 1) + 1  # this start of ours
        self._run = self._old_run = 0  # none yet
        self._seq = {"setup": -1, "applied": -1}
        self._sent: deque[tuple[int, int]] = deque()  # seq of inputs not yet taken by the machine, and when sent
        self._state_seq = -1
        self._step, self._t = -1, -inf  # the machine's own stamps of its newest state
        self._age = ReadingAge(terms.step_ns / terms.speed)
        self._frozen_step = -1  # since which step its readings are the same; -1: they are not
        self._pushed_step = -1  # since which step an input other than zero has acted; -1: none does
        self._allowed, self._allowed_ns = float(BACKLOG), 0  # messages it may still send, as of when
        self._machine_src = 0  # the start of the machine that took part in the handshake
        self._until: int | None = None  # lockstep: to where it was sent, until it is there
        self._order: Applied | None = None  # lockstep: what sent it there
        self._is_connected = self._closed = False
        self._asked = 0  # setups sent again in this handshake
        self._asked_ns = 0  # when we last sent what must be answered
        self._wrote_ns = 0  # when inputs were last sent
        self._drained_ns = 0  # when we last looked
        self._good_ns = 0  # when the newest good state was measured, by our clock
        self._heard_ns = 0  # when it came
        self._since_ns = 0  # no wait is longer than from here
        self._report = ""  # the fault that the machine reported
        self._counts: Counter[str] = Counter()
        self._refused_before: tuple[dict[str, int], dict[str, int]] = ({}, {})  # ours, the link's: at the newest state

    @property
    def t(self) -> float:
        """Plant time [s]."""
        return self.k * self.step_ns / 1e9

    @property
    def fds(self) -> tuple[int, ...]:
        """Readable when something may have come from the machine."""
        return self._link.fds

    @property
    def counts(self) -> Counter[str]:
        """What was refused (`refused_<reason>`), came in the wrong order (`old_states`), was sent again (`resent`)."""
        return _named(self._counts, self._link.counts)

    # life

    def open(self) -> Info:
        """Open the link; nothing moves. Raises BusError where it cannot be."""
        self._link.open()
        limits = tuple(self.terms.limits.get(name, np.inf) for name in self._inputs)
        names = self.machine.description.state_names
        return Info(self.terms.machine, names, self._inputs, self.step_ns / 1e9, limits, simulated=False)

    def connect(self, run: int, k: int) -> None:
        """Begin the handshake for the run of this id at plant step k; what was known of the machine is forgotten."""
        self._old_run, self._run, self.k = self._run, run, k
        self.output = np.zeros(len(self._inputs))
        self._seq["applied"] = self._state_seq = -1
        self._sent.clear()
        self._machine_src, self._report = 0, ""
        self._step, self._t, self._frozen_step, self._pushed_step = -1, -inf, -1, -1
        self.distrust, self._allowed = None, float(BACKLOG)
        self._age.forget()
        if self._plausible is not None:
            self._plausible.forget()
        self._until = self._order = None
        self._is_connected, self._asked = False, 0
        self._since_ns = self._clock()
        self._send_setup(self._since_ns)

    def connected(self) -> bool:
        """Whether the machine has answered with a good state of this run, which is then `x`."""
        if self._is_connected:
            return True
        now = self._clock()
        self._drain(now)
        if self._state_seq < 0:
            if now - self._asked_ns >= RESEND_NS:
                self._ask_again(now)
            return False
        self._is_connected = True
        self._since_ns = self._wrote_ns = now
        return True

    def _ask_again(self, now: int) -> None:
        self._asked += 1
        if self._asked % RENEW == 0:
            self._link.renew()
        self._send_setup(now)

    def due(self) -> int | None:
        """The monotonic time [ns] at which to look again though no descriptor became readable, if any."""
        waits = self._run > 0 and not (self._is_connected and self._until is None)
        times = [t for t in (self._asked_ns + RESEND_NS if waits else None, self._link.due()) if t is not None]
        return min(times, default=None)

    def safe(self) -> None:
        """Zero input, at once; in lockstep, where time stands still, for the next advance."""
        self.write(np.zeros(len(self._inputs)))

    def close(self) -> None:
        """Tell the machine that the run is over, and free the link; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self.output = np.zeros(len(self._inputs))
        if self._run:
            for _ in range(2):  # nobody answers the last message
                self._send_applied(final=True)
        self._link.close()

    # each step

    def read(self) -> Reading:
        """The newest state, at our own step, with its age."""
        return Reading(self.k, self.t, self.x[:-1], self._step, self.age)

    @property
    def age(self) -> float:
        """How old the newest state is [s of plant time]; 0 in lockstep, where time stands still."""
        if self.terms.lockstep or not self._is_connected:
            return 0.0
        return max(self._clock() - self._good_ns, 0) * 1e-9 * self.terms.speed

    def drops(self) -> bool:
        return False

    def write(self, applied: Array) -> None:
        """Send inputs that have passed the filter; in lockstep they go with the next advance."""
        self.output = np.array(applied, dtype=float)
        if not self.output.any():
            self._pushed_step = -1
        elif self._pushed_step < 0:
            self._pushed_step = self._step
        if not self.terms.lockstep and self._run:
            self._send_applied()

    def advance(self, steps: int) -> None:
        """In real time take what came, for the time has passed already; in lockstep send the machine there."""
        if self.terms.lockstep:
            self._until = self.k + steps
            self._order = self._send_applied(until=self._until)
            self._asked_ns = self._order.mono
            return
        now = self._clock()
        self._drain(now)
        self.k += steps
        if self._is_connected and (now - self._wrote_ns) * 1e-9 > self.terms.timeout / 3:
            self._send_applied()  # so that the machine's own watch only acts when this process or the link fails

    def advance_watched(self, steps: int) -> Array | None:
        """As `advance`; a machine's fault within a step cannot be located."""
        self.advance(steps)
        return None

    def arrived(self) -> bool:
        """Whether the machine is where `advance` sent it; what is not answered is sent again.

        In real time it always is, and what it has sent is taken in, so that a plant that waits keeps up with it.
        """
        now = self._clock()
        if self._order is not None or now - self._drained_ns > FRESH_NS:
            self._drain(now)
        return self._answered(now)

    def _answered(self, now: int) -> bool:
        """Whether the last order was carried out; it is sent again where that is due."""
        if self._order is None:
            return True
        if now - self._asked_ns >= RESEND_NS:
            self._link.send("applied", self._order)
            self._asked_ns = now
            self._counts["resent"] += 1
        return False

    def link_fault(self, now: int | None = None) -> tuple[str, str] | None:
        """What is wrong with the machine or the link: name and text of a fault, or None.

        Judged at `now` [monotonic ns] if given: what comes later is not yet late.
        """
        if not (self._run and (self._is_connected or self._report)):
            return self._reported() or self.distrust
        now = self._clock() if now is None else now
        if self._overdue(now):
            self._drain(now)  # a message that waits is no reason to judge
        if self._report:
            return self._reported()
        if self.distrust is not None:
            return self.distrust
        if self.terms.lockstep:
            return None
        return self._stale_state(now) or self._stale_applied()

    def restart_timeouts(self, now: int) -> None:
        """This process was stalled until now [monotonic ns]: all waits begin afresh, once until a good state comes."""
        if self._good_ns >= self._since_ns:
            self._since_ns = now

    def energy(self) -> float:
        """Kinetic plus potential energy of the newest state [J]."""
        return self.machine.energy(self.t, self.x)

    def no_answer_reason(self) -> str:
        """Why the handshake may not have been answered, for people."""
        heard = self._link.listened()
        if heard:
            text = "the machine listens, but sends no state of this run"
        elif heard is None:
            text = "no machine answers"
        else:
            text = "no machine listens; is it started, with the same two addresses?"
        return f"{text}{_listed(self.counts)}"

    # judging

    def _overdue(self, now: int) -> bool:
        limit = self.terms.state_timeout * 1e9
        return now - max(self._good_ns, self._since_ns) > limit or self._unechoed() > limit

    def _unechoed(self) -> int:
        """How old [ns] the oldest input was that the newest state had not taken; 0: it took all.

        Counted to that state: a machine that says nothing is not known to have taken nothing.
        """
        return self._good_ns - max(self._sent[0][1], self._since_ns) if self._sent else 0

    def _reported(self) -> tuple[str, str] | None:
        return ("device", f"the machine reports: {self._report}") if self._report else None

    def _stale_state(self, now: int) -> tuple[str, str] | None:
        waited = now - max(self._good_ns, self._since_ns)
        if waited <= self.terms.state_timeout * 1e9:
            return None
        refused = self.counts - _named(*self._refused_before)
        if now - self._heard_ns <= self.terms.state_timeout * 1e9:
            text = f"the newest state is {waited / 1e6:.0f} ms old by the machine's own step stamps, though states come"
            return "stale_state", f"{text}; does its time pass as fast as stated, do its states wait on the way?"
        text = f"no good state of the machine for {waited / 1e6:.0f} ms{_listed(refused)}"
        return "stale_state", f"{text}; is it running, and still in this run?"

    def _stale_applied(self) -> tuple[str, str] | None:
        waited = self._unechoed()
        if waited <= self.terms.state_timeout * 1e9:
            return None
        text = f"the machine sends states but has taken no input sent in the last {waited / 1e6:.0f} ms"
        return "stale_applied", f"{text}; does it still hear servonode?"

    # messages

    def _send_setup(self, now: int) -> None:
        terms = self.terms
        self._seq["setup"] += 1
        self._link.send("setup", Setup(
            t=self.t, seq=self._seq["setup"], run=self._run, k=self.k, mono=now, node=NODE, src=self._src,
            machine=terms.machine, mode="lockstep" if terms.lockstep else "realtime", step=terms.step_ns / 1e9,
            period=terms.period, speed=terms.speed, timeout=terms.timeout, inputs=list(self._inputs),
            limits=dict(terms.limits), parameters=dict(terms.parameters), start=dict(terms.start),
        ))  # fmt: skip
        self._asked_ns = now

    def _send_applied(self, until: int = 0, final: bool = False) -> Applied:
        now = self._clock()
        seq = self._seq["applied"] = self._seq["applied"] + 1
        values = dict(zip(self._inputs, self.output.tolist(), strict=True))
        message = Applied(
            t=self.t, seq=seq, run=self._run, k=self.k, mono=now, node=NODE, src=self._src, input=values,
            desired=values, re=-1, reasons=[], repeats=0, until=until, state_seq=self._state_seq, final=final,
        )  # fmt: skip
        self._link.send("applied", message)
        self._wrote_ns = now
        if len(self._sent) < UNECHOED:
            self._sent.append((seq, now))
        return message

    def _drain(self, now: int) -> None:
        """Take what has come; the newest good state counts."""
        self._drained_ns = now
        came = self._link.receive()
        self._count(len(came), now)
        for _, message in came:
            if type(message) is State:
                self._take(message, now)
            elif type(message) is Status and message.lifecycle == "fault" and message.run == self._run:
                self._report = message.fault or "a fault without a name"

    def _count(self, came: int, now: int) -> None:
        """Hold the messages against what a machine may send; a stalled reader finds many at once, and is no reason."""
        grown = (now - self._allowed_ns) * 1e-6 * MESSAGES_PER_MS
        self._allowed, self._allowed_ns = min(self._allowed + grown, BACKLOG) - came, now
        if self._allowed < 0 and self._is_connected and self.distrust is None:
            text = f"the machine sends more than {MESSAGES_PER_MS * 1000} messages a second"
            self.distrust = "flooding", f"{text}; once a step, or a millisecond where that is longer, is enough"

    def _take(self, state: State, now: int) -> None:
        if state.run != self._run:
            if self._is_connected or state.run != self._old_run:  # what the run before left is no surprise
                self._counts["refused_run"] += 1
            return
        if self._machine_src and state.src != self._machine_src:
            self._counts["refused_src"] += 1
            return
        if state.seq <= self._state_seq:
            self._counts["old_states"] += 1
            return
        reason = self._misfit(state)
        if reason:
            self._counts[f"refused_{reason}"] += 1
            return
        try:
            values = unpacked(self._layout, state.state)
        except ValueError:
            self._counts["refused_shape"] += 1
            return
        if self.distrust is None and self._plausible is not None and state.k > self._step:
            self.distrust = self._plausible.complaint(state.k * self.step_ns / 1e9, values)
        if self.distrust is not None:
            self._counts["refused_implausible"] += 1
            return
        self._believe(state, values, now)

    def _misfit(self, state: State) -> str:
        """Why a state of this run cannot be this machine's at this step, as one word; empty: it can."""
        if state.state.keys() != self._names:
            return "shape"
        if state.applied_seq > self._seq["applied"]:
            return "future"
        if self.terms.lockstep and state.k != self.k and state.k != self._until:
            return "step"
        if state.k < self._step or state.t < self._t:
            return "backward"
        return ""

    def _believe(self, state: State, values: list[float], now: int) -> None:
        """A good state: it is the newest, and shows which inputs have been taken."""
        self._machine_src, self._state_seq = state.src, state.seq
        if state.extra is not UNSET:
            self.extra = state.extra
        self._heard_ns = now
        if state.k > self._step:  # else the same reading once more, which is no younger for that
            self._good_ns = now if self.terms.lockstep else self._age.arrived(state.k, now)
            self._look_frozen(state, values)
        self._step, self._t = state.k, state.t
        self._refused_before = (dict(self._counts), dict(self._link.counts))
        while self._sent and self._sent[0][0] <= state.applied_seq:
            self._sent.popleft()
        if self._until is None:
            self.x[:-1] = values
        elif state.k == self._until:  # else the state before, once more
            self.x[:-1] = values
            self.k, self._until, self._order = self._until, None, None

    def _look_frozen(self, state: State, values: list[float]) -> None:
        """A fault where the readings have been the same for long though the inputs should have changed them."""
        if self._step < 0 or values != self.x[:-1].tolist():
            self._frozen_step = -1
            return
        if self._frozen_step < 0:
            self._frozen_step = self._step
        since = max(self._frozen_step, self._pushed_step)
        if self._pushed_step < 0 or (state.k - since) * self.step_ns <= self.terms.frozen_time * 1e9:
            return
        self._frozen_step = state.k  # judged once in this time
        rates = self.machine.derivatives(state.t, self.x, self.output)[:-1]
        moved = np.abs(rates) * self.terms.frozen_time > STILL * (1.0 + np.abs(self.x[:-1]))
        if moved.any():
            name = self.machine.description.state_names[int(np.argmax(moved))]
            text = f"the machine's readings are the same, bit by bit, for {self.terms.frozen_time:g} s of plant time, "
            text += f"though its inputs should have changed {name}; look after the sensors, or raise "
            text += "plant.safety.frozen_time"
            self.distrust = "frozen_state", text


def _named(own: Mapping[str, int], of_link: Mapping[str, int]) -> Counter[str]:
    """All counts under the names that are reported."""
    return Counter(own) + Counter({f"refused_{reason}": n for reason, n in of_link.items()})


def _listed(counts: Counter[str]) -> str:
    """What was refused, in words; empty if nothing was."""
    refused = {name.removeprefix("refused_"): n for name, n in counts.items() if name != "resent"}
    if not refused:
        return ""
    return f" ({sum(refused.values())} messages refused: {', '.join(f'{name} {n}' for name, n in refused.items())})"


def _state(machine: Machine, values: Mapping[str, float | list[float]]) -> Array:
    """The state array (n_state,) from values by their names outside."""
    return np.array(unpacked(machine.description.layout, values))
