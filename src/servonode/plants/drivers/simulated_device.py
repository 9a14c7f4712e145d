"""A simulated machine that speaks a device's protocol in bytes, on its own clock (docs/reference/protocol.md).

It is reached by a link in this process, which has the faults of an unreliable one.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import UNSET

from servonode.arrays import Array
from servonode.bus import Applied, Lifecycle, Link, Message, MessageError, Setup, State, Status, decode
from servonode.bus.codec import BOUND, HWM, encode_frames, message_intake
from servonode.bus.link import MACHINE_TOPICS
from servonode.bus.messages import MAX_TEXT
from servonode.mechanics.description import packed, unpacked
from servonode.mechanics.machine import Machine, ParameterError
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.impairments import Frames, both_ways
from servonode.plants.keys import Impairments
from servonode.plants.plant import Reading
from servonode.plants.simulated import SimulatedPlant

NODE = "machine"
SRC = 1  # its start id: this machine never restarts
FASTEST_NS = 1_000_000  # least wall-clock time between two published states, if a control period is not shorter
LEAP = 1_000_000  # steps that one input in lockstep may ask for


@dataclass(frozen=True)
class DeviceRun:
    """The run in progress: its setup, its steps on the wall clock, and the number of steps between two states."""

    setup: Setup
    begin_ns: int
    step_wall_ns: float
    every: int

    @classmethod
    def of(cls, setup: Setup, now: int) -> "DeviceRun":
        """The run of this setup, which begins now."""
        step_wall_ns = setup.step * 1e9 / setup.speed
        every = max(round(FASTEST_NS / step_wall_ns), 1)
        if setup.period > 0:
            every = min(every, max(round(setup.period / setup.step), 1))
        return cls(setup, now, step_wall_ns, every)

    @property
    def lockstep(self) -> bool:
        return self.setup.mode == "lockstep"

    def step_at(self, now: int) -> int:
        """The newest step at a wall-clock time [ns]."""
        return self.setup.k + int((now - self.begin_ns) / self.step_wall_ns)

    def time_of(self, k: int) -> int:
        """The wall-clock time of a step [ns]."""
        return self.begin_ns + int((k - self.setup.k) * self.step_wall_ns + 0.5)

    def next_k(self, k: int) -> int:
        """The next step after k whose state is published."""
        passed = k - self.setup.k
        return self.setup.k + passed - passed % self.every + self.every


class SimulatedDevice:
    """The machine behind a loopback link. All times are arguments, so that it repeats exactly.

    It remembers all that the protocol asks of a machine: whose run it is, its newest input, and its own watchdog.

    simulation: makes the plant with these parameters, initial state and step. `send(time [ns], frames)` sends what it
    publishes: its state, or with sends_state=False only the readings of its sensors.
    """

    def __init__(
        self,
        machine: Machine,
        simulation: Callable[[Machine, Array, int], SimulatedPlant],
        send: Callable[[int, Frames], None],
        sends_state: bool = True,
    ) -> None:
        self._own, self._simulation, self._send, self._sends_state = machine, simulation, send, sends_state
        self._inputs = machine.description.input_names
        self.plant: SimulatedPlant | None = None  # None before the first run
        self.counts: Counter[str] = Counter()  # refused messages by reason
        self._run = 0  # the newest run that was asked for
        self._host, self._setup_seq = 0, -1  # start id of the host that asked for it, and number of its setup
        self._going: DeviceRun | None = None
        self._fault = ""  # the fault that it reported in this run
        self._applied_seq = -1  # number of the newest input
        self._acts = False  # an input other than zero may act
        self._safe_k = 0  # in real time: the step of the timeout, if no fresh input comes
        self._seq = -1  # number of the newest message that it sent
        self._measured: Reading | None = None  # the last measured state of this run

    # messages

    def take(self, now: int, frames: Frames) -> None:
        """Take a message that arrives."""
        self.advance_to(now)
        try:
            message = decode(*frames)
        except MessageError as error:
            self.counts[error.reason] += 1
            return
        if isinstance(message, Setup):
            self._begin(now, message)
        elif isinstance(message, Applied):
            self._apply(now, message)

    def _begin(self, now: int, setup: Setup) -> None:
        """Begin a run, or answer once more if it was asked for before."""
        if setup.run != self._run and setup.src == self._host and setup.seq <= self._setup_seq:
            self.counts["late_setup"] += 1  # it was delayed for long: its run is over
            return
        if setup.run != self._run:
            self._host, self._setup_seq = setup.src, setup.seq
            self._run, self._going, self._measured = setup.run, None, None
            self._fault = self._misfit(setup) or self._prepare(setup)
            if not self._fault:
                self._going = DeviceRun.of(setup, now)
                self._applied_seq, self._acts = -1, False
        if self._fault:
            self._say_fault(now, setup.k, setup.t)
        elif self._going is not None and self.plant is not None:
            self._say_state(now, self.plant)

    def _misfit(self, setup: Setup) -> str:
        """Why this machine cannot take part in that run; empty: it can."""
        own = self._own.description.name
        if setup.machine != own:
            return f"this machine is {own}, not {setup.machine}"
        if tuple(setup.inputs) != self._inputs:
            return f"its inputs are {', '.join(self._inputs)}, not {', '.join(setup.inputs)}"
        if not (setup.step > 0 and setup.speed > 0 and setup.timeout > 0 and setup.period >= 0):
            return "step, speed and timeout must be positive"
        return ""

    def _prepare(self, setup: Setup) -> str:
        """Set zero input, and the initial state where the run begins at 0; returns what is wrong, or empty."""
        try:
            machine = self._own.with_parameters(setup.parameters)
            start = np.array([*unpacked(self._own.description.layout, setup.start), 0.0])
        except (ParameterError, KeyError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        if setup.k == 0 or self.plant is None:
            self.plant = self._simulation(machine, start, round(setup.step * 1e9))
        self.plant.k = setup.k
        self.plant.safe()
        return ""

    def _apply(self, now: int, applied: Applied) -> None:
        """Take inputs: fresh ones of this run act, in lockstep for the steps they ask for."""
        going, plant = self._going, self.plant
        if going is None or plant is None or applied.run != self._run:
            self.counts["run"] += 1
        elif any(sent.keys() != set(self._inputs) for sent in _sent(applied)):
            self.counts["shape"] += 1
        elif applied.final:
            plant.safe()
            self._going = None
        elif going.lockstep:
            self._go(now, plant, applied)
        elif applied.seq <= self._applied_seq:
            self.counts["old"] += 1
        else:
            self._hold(plant, applied)
            self._safe_k = going.step_at(now + round(going.setup.timeout * 1e9))

    def _hold(self, plant: SimulatedPlant, applied: Applied) -> None:
        self._applied_seq, self._acts = applied.seq, True
        sent = _sent(applied)[-1]
        plant.write(np.array([sent[name] for name in self._inputs]))

    def _go(self, now: int, plant: SimulatedPlant, applied: Applied) -> None:
        """Advance to `until` in lockstep; if that was done before, only send the state once more."""
        if applied.k == plant.k < applied.until <= plant.k + LEAP and applied.seq > self._applied_seq:
            self._hold(plant, applied)
            if not self._moves(now, plant, applied.until):
                return
        elif not (applied.until == plant.k and applied.seq >= self._applied_seq):
            self.counts["old"] += 1
            return
        self._applied_seq = applied.seq
        self._say_state(now, plant)

    # time

    def due(self) -> int | None:
        """The time at which the machine next publishes by itself [ns], or None."""
        going, plant = self._going, self.plant
        if going is None or going.lockstep or plant is None:
            return None
        return going.time_of(going.next_k(plant.k))

    def advance_to(self, now: int) -> None:
        """Let time pass in real time: integrate, publish, and apply zero inputs after the timeout."""
        going, plant = self._going, self.plant
        if going is None or plant is None or going.lockstep:
            return
        last = going.step_at(now)
        while plant.k < last:
            until = min(last, going.next_k(plant.k))
            if self._acts:
                if plant.k >= self._safe_k:
                    plant.safe()
                    self._acts = False
                else:
                    until = min(until, self._safe_k)
            if not self._moves(going.time_of(until), plant, until):
                return
            newest = (last - plant.k) // going.every < HWM  # after a stall, no more states than a queue holds
            if newest and (plant.k - going.setup.k) % going.every == 0:
                self._say_state(going.time_of(plant.k), plant)

    def _moves(self, now: int, plant: SimulatedPlant, k: int) -> bool:
        """Integrate to step k; returns whether the state is finite. Otherwise report a fault, and leave the run."""
        plant.advance(k - plant.k)
        if not plant.finite:
            self._fault, self._going = "its state is no longer finite", None
            self._say_fault(now, plant.k, plant.t)
        return plant.finite

    # what it says

    def _say_state(self, now: int, plant: SimulatedPlant) -> None:
        """Send the measured state of this step, unless the sensor loses it."""
        if plant.sensor.drops():
            return
        if self._measured is None or self._measured.k != plant.k:  # once for each step, also if it is sent again
            self._measured = plant.read()
        values = packed(self._own.description.layout, self._measured.state.tolist()) if self._sends_state else {}
        inputs = dict(zip(self._inputs, plant.held.tolist(), strict=True))
        self._send(now, encode_frames("state", State(
            **self._header(now, plant.k, plant.t), state=values, input=inputs, control=False,
            applied_seq=self._applied_seq, readings=self._measured.readings or UNSET,
        )))  # fmt: skip

    def _say_fault(self, now: int, k: int, t: float) -> None:
        """Report that it takes no part in this run, and why."""
        self._send(now, encode_frames("status", Status(
            **self._header(now, k, t), lifecycle=Lifecycle.FAULT, fault=self._fault[:MAX_TEXT], counts={}, values={},
        )))  # fmt: skip

    def _header(self, now: int, k: int, t: float) -> dict[str, Any]:
        self._seq += 1
        return {"t": t, "seq": self._seq, "run": self._run, "k": k, "mono": now, "node": NODE, "src": SRC}


def _sent(applied: Applied) -> list[dict[str, float]]:
    """The inputs of a message, and the speeds where drives take these."""
    return [applied.input] if applied.speed is UNSET else [applied.input, applied.speed]


class LoopbackLink(Link):
    """Carries messages to and from a simulated machine; each event keeps its own time, whenever the link is polled.

    So a run in lockstep repeats exactly, and a run in real time is as late as the wall clock makes it.
    """

    def __init__(self, context: DriverContext) -> None:
        assert context.simulated_machine is not None
        self._intake = message_intake({"machine": MACHINE_TOPICS})
        self.counts: Counter[str] = self._intake.counts
        self._clock = context.clock
        self._to, self._back = both_ways(Impairments(**context.stated.link), context.seed)
        sends_state = context.estimate is None
        self.device = SimulatedDevice(context.machine, context.simulated_machine, self._from_machine, sends_state)

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
