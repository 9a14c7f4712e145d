"""A host that exchanges messages with a machine over a driver's link, as a plant node does, and keeps them with their
times.
"""

import secrets
import select
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import UNSET

from servonode.arrays import Array
from servonode.bus import Applied, BusError, ExternalLink, Link, Message, Setup, State, Status
from servonode.bus.durations import Clock
from servonode.bus.messages import EXACT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.handshake import NODE, RESEND_NS, setup_terms
from servonode.wings.acceptance.protocol_judges import Sample, misshapen

NUDGE = 0.1  # SI; the velocity at which a simulation starts, so that its signs can be seen
OUTDATED = 1.2  # timeouts ago
PERIOD_S = 0.01  # where there is no controller
STALL_S = 0.02  # by which this process may wake up late; beyond it this computer had something else to do
NAP_S = 0.01  # that it sleeps at most, so that it knows when it has overslept
OURS = ("unsent", "unread", "connections")  # what a link counts that this computer was too slow for
DRAIN_S = 0.1  # for taking what has come while it had


class NobodyThere(BusError):
    """No machine answers, or none can any more; the text has the remedy."""


def await_link(link: Link, wait_ms: int) -> None:
    """Wait until something may have come over a link, or what waits for a free line can be sent; at most so long."""
    poll, due = select.poll(), link.due()
    for fd in link.fds:
        poll.register(fd, select.POLLIN)
    poll.poll(wait_ms if due is None else min(wait_ms, max(due - time.monotonic_ns(), 0) // 1_000_000))


class Host:
    """A host's end of a driver's link: sends messages, and keeps what comes. A context manager.

    It has many attributes because all parts of the check ask it for the run, for what was sent and for what has come.
    link_of: as the driver makes the link. terms: further ones of its context. clock: monotonic [ns]. wait: waits for
    the link, at most so many ms. remedy: for what is refused without a word on what is wrong with it.
    """

    def __init__(
        self,
        closed_loop: ClosedLoop,
        link_of: Callable[[DriverContext], Link],
        clock: Clock = time.monotonic_ns,
        wait: Callable[[Link, int], None] = await_link,
        remedy: str = "check the wire",
        **terms: Any,
    ) -> None:
        launch = closed_loop.launch
        self.machine = closed_loop.machine
        self.names = closed_loop.machine.description.input_names
        self.period = (launch.period_ns or round(PERIOD_S * 1e9)) / 1e9
        context = closed_loop.driver_context(clock=clock, **terms)
        of_run = replace(context.stated, lockstep=False, speed=1.0, period_s=self.period)
        self.context = replace(context, stated=of_run)
        self.link, self._await, self._remedy = link_of(self.context), wait, remedy
        self._counted: Counter[str] = Counter()  # of what the link had refused before
        self.context = replace(self.context, start=nudged(closed_loop))
        estimate = closed_loop.device_estimate
        self.sensors: Sequence[str] = estimate.sensors if estimate else ()  # sensors of a machine that sends readings
        # steps without a reading, by sensor in use
        self.silence: Mapping[str, int] = estimate.silence if estimate else {}
        self.any_speed = launch.plant.device.any_speed
        self.run, self.k, self.src = new_id(), 0, new_id()
        self.begun = 0  # number of the newest message before this run's
        self.samples: list[Sample] = []  # states of this run
        self.sent: list[tuple[int, int]] = []  # seq of each applied of this run, and when it was sent
        self.others: set[int] = set()  # runs of states that are not of this run
        self.refused: dict[tuple[str, str], int] = {}  # what was no message or no state: subject and text, how often
        self.faults: dict[int, str] = {}  # what the machine said of a run
        self.clock = clock
        self._stalls: list[tuple[int, float]] = []  # when this process went on, and how late [s]
        self._seq = 0

    def __enter__(self) -> "Host":
        self.link.open()
        if isinstance(self.link, ExternalLink):
            self.link.take_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()
        self.link.close()

    @property
    def next_seq(self) -> int:
        """The number of the next message to the machine."""
        return self._seq + 1

    def late_s(self, since: int) -> float:
        """For how long in all this process could not work though something was due, since this time [ns]."""
        return sum(seconds for at, seconds in self._stalls if at > since)

    def gap_s(self, since: int) -> float:
        """The longest time without a state since this time [ns]: by the machine's steps; at the end by the clock."""
        came = [each for each in self.samples if each.at > since]
        steps = max((b.state.k - a.state.k for a, b in pairwise(came)), default=0) * self.context.step_ns / 1e9
        last = max(came[-1].at if came else since, since)
        return max(steps, (self.clock() - last) / 1e9)

    def begin(self, run: int, k: int = 0) -> None:
        """Make this the present run."""
        self.run, self.k, self.begun = run, k, self._seq
        self.samples, self.sent = [], []

    def setup(self, **changes: Any) -> None:
        """Ask for the present run, or another one."""
        self.link.send("setup", Setup(**self._header() | setup_terms(self.context) | changes))

    def answered(self, seconds: float, **changes: Any) -> bool:
        """Whether a good state answers a setup with these changes within this time [s]; `faults` says who refuses."""
        run = self.run
        self.listen(seconds, lambda: bool(self.samples) or run in self.faults, lambda: self.setup(**changes))
        return bool(self.samples)

    def end(self) -> None:
        """End the present run."""
        for _ in range(2):  # nobody answers the last message
            self.apply(0.0, final=True)

    def apply(self, value: float, final: bool = False) -> None:
        """Send this value as every input."""
        self.send(self.applied(value, final=final))

    def send(self, message: Applied) -> None:
        """Send a message, perhaps once more."""
        self.sent.append((message.seq, message.mono))
        self.slip(message)

    def slip(self, message: Applied) -> None:
        """Send a message that has no part in the run."""
        self.link.send("applied", message)

    def applied(self, value: float, **changes: Any) -> Applied:
        """The next `applied` with this value as every input, and these changes."""
        state_seq = self.samples[-1].state.seq if self.samples else -1
        content = {"re": -1, "reasons": [], "repeats": 0, "state_seq": state_seq, **self.inputs(value)}
        return Applied(**self._header() | content | changes)

    def inputs(self, value: float, others: Mapping[str, float] | None = None) -> dict[str, Any]:
        """The fields of an `applied` with this value as every input, or another one by name."""
        inputs = dict.fromkeys(self.names, value) | dict(others or {})
        return {"input": inputs, "desired": inputs, "speed": inputs if self.context.drives else UNSET}

    def outdated(self) -> int:
        """Number of the newest state that the machine sent longer than the timeout ago, by its own steps."""
        states = [each.state for each in self.samples]
        old = states[-1].k - OUTDATED * self.context.timeout * 1e9 / self.context.step_ns
        return next((each.seq for each in reversed(states) if each.k < old), states[0].seq)

    def _header(self) -> dict[str, Any]:
        self._seq += 1
        return {
            "t": self.k * self.context.step_ns / 1e9, "seq": self._seq, "run": self.run, "k": self.k,
            "mono": self.clock(), "node": NODE, "src": self.src,
        }  # fmt: skip

    def listen(
        self,
        seconds: float,
        until: Callable[[], bool] = lambda: False,
        each: Callable[[], None] | None = None,
        every: float = RESEND_NS / 1e9,
    ) -> bool:
        """Take what comes for this long [s, wall clock], doing `each` every so often; whether `until` came to hold.

        What has come meanwhile is taken too, however late this process gets to it.
        """
        now = self._now()
        end, due, came, drained = now + seconds, now, True, np.inf
        while not until() and (now < end or (came and now < drained)):
            drained = now + DRAIN_S if now >= end and drained == np.inf else drained
            if each is not None and due <= now < end:
                each()
                due = max(due + every, now)
            wait = min(max(min(end, due if each is not None else end) - self._now(), 0.0), NAP_S)
            came = self._receive(max(int(wait * 1e3), int(now < end)))
            before, now = now, self._now()
            if now - before > wait + STALL_S:
                self._stalls.append((self.clock(), now - before - wait))
        return until()

    def _now(self) -> float:
        """By the clock [s]."""
        return self.clock() / 1e9

    def drive(self, value: float, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Listen with a fresh input each period."""
        return self.listen(seconds, until, lambda: self.apply(value), self.period)

    def _receive(self, wait_ms: int) -> bool:
        """Take what has come, after a wait of at most so long for it; whether anything has."""
        link = self.link
        if link.lost:
            raise NobodyThere(link.lost)
        self._await(link, wait_ms)
        came = link.receive()
        for _, message in came:
            self._take(message, self.clock())
        refused = link.counts - self._counted
        self._counted = Counter(link.counts)
        problems: Mapping[str, str] = getattr(link, "problems", {})
        for reason, times in refused.items():
            if reason in problems:
                self._refuse(
                    reason if reason == "frames" else "type", f"{problems[reason]}; see the page's tables", times
                )
            elif reason not in OURS:
                self._refuse("packets", f"what comes is not what a machine sends ({reason}); {self._remedy}", times)
        return bool(came or refused)

    def _take(self, message: Message, now: int) -> None:
        if isinstance(message, Status) and message.lifecycle == "fault":
            self.faults[message.run] = message.fault
        elif isinstance(message, State) and message.run != self.run:
            self.others.add(message.run)
        elif isinstance(message, State) and not (problem := misshapen(self.machine, message, self.sensors)):
            self.samples.append(Sample(now, message))
        elif isinstance(message, State):
            self._refuse("state", problem)

    def _refuse(self, subject: str, text: str, times: int = 1) -> None:
        self.refused[subject, text] = self.refused.get((subject, text), 0) + times


def new_id() -> int:
    return secrets.randbelow(EXACT - 1) + 1


def nudged(closed_loop: ClosedLoop) -> Array:
    """The initial condition with small velocities, for simulations; unchanged if velocities are dependent."""
    description, x = closed_loop.machine.description, closed_loop.start.copy()
    if description.held or description.stabilised:
        return x
    for i, name in enumerate(description.state_names):
        if name in description.velocities and abs(x[i]) < NUDGE:
            x[i] = NUDGE
    return x
