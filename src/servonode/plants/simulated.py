"""The simulated plant: a machine stepped on a fixed grid, by its kernel or a physics engine, behind the contract."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.machine import Machine
from servonode.plants.effects import Actuator, ActuatorEffects, Sensor, SensorEffects
from servonode.plants.injection import Injector
from servonode.plants.plant import Info, Reading
from servonode.plants.plausible import Plausible
from servonode.plants.sensors import Readings, SensorSuite
from servonode.plants.simulated_link import Measured, SimulatedLink


class Motion(Protocol):
    """How a machine moves on under a held input. Its state belongs to one plant, from step 0 on."""

    def advance(self, k: int, steps: int, x: Array, u: Array) -> bool:
        """Write into the kernel state x, which is that at step k, what it is `steps` later; whether it is finite."""

    def watch(self, k: int, steps: int, x: Array, last: Array, u: Array) -> int:
        """The same to the first step that ends in a fault: its number, `last` the state before it; else 0."""

    def extra(self) -> Mapping[str, float]:
        """What of the motion the state does not say, by name."""


class Equations:
    """The motion that the machine's own equations give, integrated."""

    def __init__(self, machine: Machine, integrator: str, step_ns: int) -> None:
        self._machine, self._integrator, self._step_ns = machine, integrator, step_ns
        self._advance = machine.advancer(integrator)

    def advance(self, k: int, steps: int, x: Array, u: Array) -> bool:
        return self._advance(k, steps, self._step_ns, x, u, self._machine.c)

    def watch(self, k: int, steps: int, x: Array, last: Array, u: Array) -> int:
        watcher = self._machine.watcher(self._integrator)
        return watcher(k, steps, self._step_ns, x, last, u, self._machine.c)

    def extra(self) -> Mapping[str, float]:
        return {}


class SimulatedPlant:
    """A machine moved on with a fixed step of `step_ns`; plant time is k * step_ns / 1e9 exactly.

    `x` is the true kernel state (its last entry the work [J] of inputs and losses). It has as many methods and
    attributes as the plant contract asks for, beside the effects of actuator and sensor. motion: what moves it, in
    place of its equations and `integrator`. injector: the faults of the run, those of the link too where this plant is
    not behind one (`linked`).
    """

    simulated = True
    remote = None
    age = 0.0

    def __init__(
        self,
        machine: Machine,
        start: Array,
        step_ns: int,
        integrator: str,
        actuator: ActuatorEffects,
        sensor: SensorEffects,
        seed: int,
        plausible: Plausible | None = None,
        motion: Motion | None = None,
        suite: SensorSuite | None = None,
        injector: Injector | None = None,
        linked: bool = False,
    ) -> None:
        self.machine = machine
        self.distrust: tuple[str, str] | None = None
        self._plausible, self._suite = plausible, suite
        self._injector, self._linked = injector or Injector(), linked
        self._link: SimulatedLink | None = None
        self.step_ns = step_ns
        self.k = 0
        self.finite = True  # as of the last advance
        self.counts: Counter[str] = Counter()
        self.x = start.copy()
        self._motion: Motion = motion or Equations(machine, integrator, step_ns)
        self._effort: Array | None = getattr(self._motion, "effort", None)  # of drives that take speeds, and limit it
        if self._effort is not None:
            actuator = replace(actuator, limit=(np.inf,) * machine.n_inputs)
        self.actuator = Actuator(actuator, step_ns / 1e9)
        self._held = self.actuator.output  # inputs or speeds that the drives hold, with their faults
        self.sensor = Sensor(sensor, np.random.default_rng(seed))
        self._h, self._n_state = step_ns / 1e9, machine.n_state
        self._stepwise = actuator.dynamic or sensor.delay > 0
        self._late: deque[Array] = deque(maxlen=round(sensor.delay / self._h) + 1)
        self._late.append(self.x.copy())
        if suite is not None:
            suite.injector = self._injector

    @property
    def t(self) -> float:
        """Plant time [s]."""
        return self.k * self.step_ns / 1e9

    @property
    def output(self) -> Array:
        """What the drives make of the inputs."""
        return self.held if self._effort is None else self._effort

    @property
    def held(self) -> Array:
        """What the drives hold, with their faults: inputs, or the speeds of drives that take speeds."""
        return self._held

    @property
    def extra(self) -> Mapping[str, float]:
        """What the motion shows beside the state, by name."""
        return self._motion.extra()

    def open(self) -> Info:
        description = self.machine.description
        limits = self.actuator.effects.limit
        return Info(description.name, description.state_names, description.input_names, self._h, limits, True)

    def begin(self, run: int, k: int) -> None:  # noqa: ARG002
        """Judge readings afresh."""
        self.distrust = None
        if self._plausible is not None:
            self._plausible.forget()

    def drops(self) -> bool:
        return self.sensor.drops()

    def read(self) -> Reading:
        """The measured state; with a sensor delay, the state of that long ago under the present stamp."""
        true = self.x if not self.sensor.effects.delay else self._late[0]
        measured = self._injector.signals("sensor", self.k, self.sensor.measure(true[: self._n_state]))
        readings = self._readings() if self._suite is not None else None
        link, at = self._faulty_link(), self.k
        if link is not None:
            at, measured, readings = link.measured(Measured(self.k, measured.copy(), readings))
            self.distrust = link.fault(self.k)
        if self._plausible is not None and (link is None or self.distrust is None):
            self.distrust = self._plausible.complaint(self.t, measured.tolist())
        late = (self.k - at) * self._h
        return Reading(self.k, self.t, measured, at, self.sensor.effects.delay + late, readings)

    def _faulty_link(self) -> SimulatedLink | None:
        """The link to the machine, once faults of it are planned."""
        if self._link is None and not self._linked and self._injector.any_of("link"):
            self._link = SimulatedLink(self._injector, self.step_ns, self.k)
        return self._link

    def _readings(self) -> Readings:
        """The sensors' readings that are there by now and were not given yet."""
        assert self._suite is not None
        self._read_sensors(self._suite)
        return self._suite.give(self.k)

    def _read_sensors(self, suite: SensorSuite) -> None:
        """Have the sensors read that are due at this step, before another input acts."""
        if suite.next <= self.k and self.finite:
            suite.take(self.k, self.t, self.x, self.output)

    def write(self, applied: Array) -> None:
        """Hold these inputs; those of drives that take speeds are speeds."""
        link = self._faulty_link()
        if link is None:
            self.actuator.write(applied)
            return
        link.send(self.k, applied)
        self._take_inputs(link)

    def _take_inputs(self, link: SimulatedLink) -> None:
        """Take the inputs that have arrived at the machine, or zero if none do."""
        inputs = link.arriving(self.k)
        if inputs is not None:
            self.actuator.write(inputs)
        elif link.is_untaken(self.k):
            self.actuator.write(np.zeros(self.machine.n_inputs))

    def drive(self, applied: Array, speeds: Array) -> None:  # noqa: ARG002
        """Hold these speeds, with drives that take speeds."""
        self.write(speeds)

    def advance(self, steps: int, watched: bool = False) -> Array | None:
        """Integrate `steps` steps under the held input.

        watched: to the first whose state is a fault; returns the state before that step, else None.
        """
        if watched:
            return self._advance_watched(steps)
        if self._suite is not None:
            self._advance_sensed(steps, self._suite)
        else:
            self._move(steps)
        return None

    def _advance_sensed(self, steps: int, suite: SensorSuite) -> None:
        """Integrate with a stop at each step at which a sensor reads."""
        last = self.k + steps
        while self.k < last:
            self._move(max(min(last, suite.next) - self.k, 1))
            self._read_sensors(suite)

    def _move(self, steps: int) -> None:
        if not self._moves_by_single_steps(steps):
            self._held = self.actuator.output
            self.finite = self._motion.advance(self.k, steps, self.x, self._held)
            self.k += steps
            return
        for _ in range(steps):
            if self._link is not None:
                self._take_inputs(self._link)
            self.actuator.advance()
            self._held = self._injector.signals("drive", self.k, self.actuator.output)
            self.finite = self._motion.advance(self.k, 1, self.x, self._held)
            self.k += 1
            self._late.append(self.x.copy())

    def _moves_by_single_steps(self, steps: int) -> bool:
        """Whether something beside the motion may change within so many steps."""
        return self._stepwise or self._link is not None or self._injector.may_act("drive", self.k, self.k + steps)

    def _advance_watched(self, steps: int) -> Array | None:
        last = np.empty_like(self.x)
        if self._suite is None and not self._moves_by_single_steps(steps):
            self._held = self.actuator.output
            made = self._motion.watch(self.k, steps, self.x, last, self._held)
            self.k += made or steps
            self.finite = bool(np.isfinite(self.x).all())
            return last if made else None
        for _ in range(steps):
            last[:] = self.x
            self.advance(1)
            if self.machine.fault(self.t, self.x):
                return last
        return None

    def safe(self) -> None:
        self.write(np.zeros(self.machine.n_inputs))

    def close(self) -> None:
        self.safe()
