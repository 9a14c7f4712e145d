"""A simulated machine that speaks a device's protocol in bytes, on its own clock: docs/protocol.md from its side."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.bus import Applied, Lifecycle, Message, MessageError, Setup, State, Status, decode
from servonode.bus.codec import encode_frames
from servonode.bus.interfaces import HWM
from servonode.bus.messages import MAX_TEXT
from servonode.mechanics.description import packed, unpacked
from servonode.mechanics.machine import Machine, ParameterError
from servonode.plants.effects import ActuatorEffects, SensorEffects
from servonode.plants.simulated import SimulatedPlant

Array = npt.NDArray[np.float64]
Frames = tuple[bytes, bytes]
NODE = "machine"
SRC = 1  # its start id: this machine never restarts
FASTEST_NS = 1_000_000  # states are published at most once in this wall time, but each control period
LEAP = 1_000_000  # steps that one input in lockstep may ask for


@dataclass(frozen=True)
class Workings:
    """What the machine itself is made of."""

    integrator: str
    actuator: ActuatorEffects
    sensor: SensorEffects
    seed: int = 0  # of its sensors' noise


class SimulatedDevice:
    """The machine behind a loopback link. All its times are handed in, so that it repeats exactly.

    `send(time [ns], frames)` puts what it publishes on its way.
    """

    def __init__(self, machine: Machine, workings: Workings, send: Callable[[int, Frames], None]) -> None:
        self._own, self._workings, self._send = machine, workings, send
        self.plant: SimulatedPlant | None = None  # none before the first run
        self.counts: Counter[str] = Counter()  # refused messages by reason
        self._setup: Setup | None = None  # of the run that goes on
        self._inputs: Sequence[str] = machine.description.input_names
        self._layout = machine.description.layout
        self._run = 0
        self._seq = -1
        self._applied_seq = -1
        self._begin_ns = self._fresh_ns = self._timeout_ns = 0  # of the run; of the newest input
        self._begin_k = 0
        self._step_wall_ns = 0.0
        self._every = 1  # steps between two states
        self._acts = False  # an input other than zero may act
        self._measured: tuple[int, Array] | None = None  # the step that was measured last, and what came out
        self._fault = ""  # what it reported in this run

    # messages

    def take(self, now: int, frames: Frames) -> None:
        """A message arrives."""
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
        """A run begins, or is asked for once more."""
        if setup.run == self._run:
            if self._fault:
                self._publish_fault(now, setup.k, setup.t)
            elif self._setup is not None:
                self._publish(now)
            return
        self._run, self._setup = setup.run, None
        self._fault = self._misfit(setup) or self._prepare(setup)
        if self._fault:
            self._publish_fault(now, setup.k, setup.t)
            return
        self._setup, self._measured = setup, None
        self._applied_seq, self._acts = -1, False
        self._begin_ns = self._fresh_ns = now
        self._begin_k = setup.k
        self._timeout_ns = round(setup.timeout * 1e9)
        self._step_wall_ns = setup.step * 1e9 / setup.speed
        self._every = max(round(FASTEST_NS / self._step_wall_ns), 1)
        if setup.period > 0:
            self._every = min(self._every, max(round(setup.period / setup.step), 1))
        self._publish(now)

    def _misfit(self, setup: Setup) -> str:
        """Why this machine cannot take part in that run; empty: it can."""
        description = self._own.description
        if setup.machine != description.name:
            return f"this machine is {description.name}, not {setup.machine}"
        if tuple(setup.inputs) != description.input_names:
            return f"its inputs are {', '.join(description.input_names)}, not {', '.join(setup.inputs)}"
        if not (setup.step > 0 and setup.speed > 0 and setup.timeout > 0 and setup.period >= 0):
            return "step, speed and timeout must be positive"
        return ""

    def _prepare(self, setup: Setup) -> str:
        """Zero input, and the start state where the run begins at 0; comes out with what is wrong, or empty."""
        try:
            machine = self._own.with_parameters(setup.parameters)
            start = np.array([*unpacked(self._layout, setup.start), 0.0])
        except (ParameterError, KeyError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        if setup.k == 0 or self.plant is None:
            w = self._workings
            step_ns = round(setup.step * 1e9)
            self.plant = SimulatedPlant(machine, start, step_ns, w.integrator, w.actuator, w.sensor, w.seed)
        self.plant.k = setup.k
        self.plant.safe()
        return ""

    def _apply(self, now: int, applied: Applied) -> None:
        """Inputs arrive: fresh ones of this run act, in lockstep for the steps they ask for."""
        setup, plant = self._setup, self.plant
        if setup is None or plant is None or applied.run != self._run:
            self.counts["run"] += 1
        elif applied.input.keys() != set(self._inputs):
            self.counts["shape"] += 1
        elif applied.final:
            plant.safe()
            self._setup = None
        elif setup.mode == "lockstep":
            self._go(now, plant, applied)
        elif applied.seq <= self._applied_seq:
            self.counts["old"] += 1
        else:
            self._hold(plant, applied)
            self._fresh_ns = now

    def _hold(self, plant: SimulatedPlant, applied: Applied) -> None:
        self._applied_seq, self._acts = applied.seq, True
        plant.write(np.array([applied.input[name] for name in self._inputs]))

    def _go(self, now: int, plant: SimulatedPlant, applied: Applied) -> None:
        """In lockstep: to `until` from here; where that has been done, only the state once more."""
        if applied.k == plant.k < applied.until <= plant.k + LEAP and applied.seq > self._applied_seq:
            self._hold(plant, applied)
            if not self._moves(now, plant, applied.until):
                return
        elif not (applied.until == plant.k and applied.seq >= self._applied_seq):
            self.counts["old"] += 1
            return
        self._applied_seq = applied.seq
        self._publish(now)

    # time

    def due(self) -> int | None:
        """When the machine next publishes by itself [ns], or None."""
        if self._setup is None or self._setup.mode == "lockstep" or self.plant is None:
            return None
        return self._time_of(self._next_k(self.plant.k))

    def advance_to(self, now: int) -> None:
        """Let its own time pass, in real time: integrate, publish, be safe when no input comes."""
        setup, plant = self._setup, self.plant
        if setup is None or plant is None or setup.mode == "lockstep":
            return
        last = self._begin_k + int((now - self._begin_ns) / self._step_wall_ns)
        while plant.k < last:
            until = min(last, self._next_k(plant.k))
            if self._acts:
                safe_k = self._begin_k + int((self._fresh_ns + self._timeout_ns - self._begin_ns) / self._step_wall_ns)
                if plant.k >= safe_k:
                    plant.safe()
                    self._acts = False
                else:
                    until = min(until, safe_k)
            if not self._moves(self._time_of(until), plant, until):
                return
            newest = (last - plant.k) // self._every < HWM  # after a stall, no more than a queue would hold
            if newest and (plant.k - self._begin_k) % self._every == 0:
                self._publish(self._time_of(plant.k))

    def _moves(self, now: int, plant: SimulatedPlant, k: int) -> bool:
        """Integrate to step k; whether it could. A motion that escapes is reported, and ends its part in the run."""
        plant.advance(k - plant.k)
        if not plant.finite:
            self._fault, self._setup = "its state is no longer finite", None
            self._publish_fault(now, plant.k, plant.t)
        return plant.finite

    def _next_k(self, k: int) -> int:
        """The next step whose state is published."""
        passed = k - self._begin_k
        return self._begin_k + passed - passed % self._every + self._every

    def _time_of(self, k: int) -> int:
        return self._begin_ns + int((k - self._begin_k) * self._step_wall_ns + 0.5)

    def _publish(self, now: int) -> None:
        """The measured state of this step."""
        plant = self.plant
        assert plant is not None
        if plant.sensor.drops():
            return
        if self._measured is None or self._measured[0] != plant.k:  # once for each step, also if it is sent again
            self._measured = (plant.k, plant.read().state)
        values = packed(self._layout, self._measured[1].tolist())
        inputs = dict(zip(self._inputs, plant.output.tolist(), strict=True))
        self._emit(now, "state", State(
            **self._header(now, plant.k, plant.t), state=values, input=inputs, control=False,
            applied_seq=self._applied_seq,
        ))  # fmt: skip

    def _publish_fault(self, now: int, k: int, t: float) -> None:
        self._emit(now, "status", Status(
            **self._header(now, k, t), lifecycle=Lifecycle.FAULT, fault=self._fault[:MAX_TEXT], counts={}, values={},
        ))  # fmt: skip

    def _header(self, now: int, k: int, t: float) -> dict[str, Any]:
        self._seq += 1
        return {"t": t, "seq": self._seq, "run": self._run, "k": k, "mono": now, "node": NODE, "src": SRC}

    def _emit(self, now: int, topic: str, message: Message) -> None:
        self._send(now, encode_frames(topic, message))
