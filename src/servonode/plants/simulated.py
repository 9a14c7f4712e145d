"""The simulated plant: a machine stepped on a fixed grid, by its kernel or a physics engine, behind the contract."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.machine import Machine
from servonode.plants.effects import Actuator, ActuatorEffects, Sensor, SensorEffects
from servonode.plants.impairments import Way, two_generators
from servonode.plants.injection import CLEAR, Injector
from servonode.plants.plant import Info, Reading
from servonode.plants.plausible import Plausible
from servonode.plants.sensors import Readings, SensorSuite


class Motion:
    """How a machine moves on under a held input. Its state belongs to one plant, from step 0 on."""

    def __init__(self, machine: Machine, step_ns: int) -> None:
        self._machine, self._step_ns = machine, step_ns
        self.counts: Counter[str] = Counter()  # of what limits acted in it, by reason

    def advance(self, k: int, steps: int, x: Array, u: Array) -> bool:
        """Write into the kernel state x, which is that at step k, what it is `steps` later; whether it is finite."""
        raise NotImplementedError

    def watch(self, k: int, steps: int, x: Array, last: Array, u: Array) -> int:
        """The same to the first step that ends in a fault: its number, `last` the state before it; else 0."""
        for made in range(1, steps + 1):
            last[:] = x
            self.advance(k + made - 1, 1, x, u)
            if self._machine.fault((k + made) * self._step_ns / 1e9, x):
                return made
        return 0

    def renew(self, inputs: Array) -> None:
        """Note that these were written, the same ones too: servos find their commands anew where they stand.

        From zero on they rest, whatever slow drives still give.
        """

    def extra(self) -> Mapping[str, float]:
        """What of the motion the state does not say, by name."""
        return {}


class Equations(Motion):
    """The motion that the machine's own equations give, integrated."""

    def __init__(self, machine: Machine, integrator: str, step_ns: int) -> None:
        super().__init__(machine, step_ns)
        self._integrator, self._advance = integrator, machine.advancer(integrator)

    def advance(self, k: int, steps: int, x: Array, u: Array) -> bool:
        return self._advance(k, steps, self._step_ns, x, u, self._machine.c)

    def watch(self, k: int, steps: int, x: Array, last: Array, u: Array) -> int:
        watcher = self._machine.watcher(self._integrator)
        return watcher(k, steps, self._step_ns, x, last, u, self._machine.c)


class Measured(NamedTuple):
    """What the machine measured at a plant step, as it is known to the host."""

    k: int
    state: Array
    readings: Readings | None


class SimulatedLink:
    """Carries inputs to the machine and measurements back, as `Way` does for the frames of a wire.

    A damaged message is refused by whoever decodes it, so that it is lost. Both ends have a watchdog: after the
    injector's `link_timeout` without a message the machine takes zero inputs, and the host has a fault. Its attributes
    are what each end knows of the other.
    """

    def __init__(self, injector: Injector, step_ns: int, k: int) -> None:
        to, back = two_generators([injector.seed, 1])
        self._to: Way[tuple[int, Array]] = Way(CLEAR, False, to)
        self._back: Way[Measured] = Way(CLEAR, False, back)
        self._injector, self._step_ns = injector, step_ns
        self._newest: Measured | None = None  # that has arrived at the host
        self._begin = k
        self._sent = k  # step of the newest inputs that were sent
        self._untaken: int | None = None  # step since which no inputs have arrived at the machine; None: the newest has

    def send(self, k: int, inputs: Array) -> None:
        """Send inputs to the machine at step k."""
        if self._injector.lifted:
            self._to.clear()  # nothing that was sent before may arrive after a stop
        self._to.impairments = self._injector.impairments("applied", k)
        self._to.send(k * self._step_ns, (k, inputs.copy()))
        self._sent, self._untaken = k, k if self._untaken is None else self._untaken

    def arriving(self, k: int) -> Array | None:
        """The newest inputs that have arrived at the machine by step k; None: no new ones."""
        came = list(self._to.arrivals(k * self._step_ns))
        if not came:
            return None
        sent, newest = came[-1]
        self._untaken = None if sent == self._sent else sent
        return newest

    def is_untaken(self, k: int) -> bool:
        """Whether the machine has waited for inputs for too long."""
        return self._untaken is not None and k - self._untaken > self._injector.link_timeout

    def measured(self, sent: Measured) -> Measured:
        """The newest that has arrived when the machine sends this; with all readings that have, and were not known."""
        self._back.impairments = self._injector.impairments("state", sent.k)
        self._back.send(sent.k * self._step_ns, sent)
        readings: Readings | None = None if sent.readings is None else {}
        newest = self._newest or Measured(self._begin, sent.state, readings)
        for newest in self._back.arrivals(sent.k * self._step_ns):
            for name, given in (newest.readings or {}).items():
                readings = readings or {}
                readings[name] = [*readings.get(name, ()), *given]
        self._newest = newest
        return newest._replace(readings=readings)

    def fault(self, k: int) -> tuple[str, str] | None:
        """Name and text of the fault that the host finds at step k, as behind a link to hardware; None: none."""
        ms = self._injector.step * 1e3
        if self._newest is not None and k - self._newest.k > self._injector.link_timeout:
            text = f"no good state of the machine for {(k - self._newest.k) * ms:.0f} ms of plant time"
            return "stale_state", f"{text}; check that it is running and still in this run"
        if self._untaken is not None and self.is_untaken(k):
            text = f"the machine sends states but has taken no input sent in the last {(k - self._untaken) * ms:.0f} ms"
            return "stale_applied", f"{text} of plant time; check that it still receives messages"
        return None


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
        self.x = start.copy()
        self._motion: Motion = motion or Equations(machine, integrator, step_ns)
        self.counts = self._motion.counts
        self._effort: Array | None = getattr(self._motion, "effort", None)  # of drives that take speeds, and limit it
        if self._effort is not None:
            actuator = replace(actuator, limit=(np.inf,) * machine.n_inputs)
        self._given: Array | None = getattr(self._motion, "given", self._effort)  # what drives with feedback do now
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
        return self.held if self._given is None else self._given

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
            self._hold(applied)
            return
        link.send(self.k, applied)
        self._take_inputs(link)

    def _take_inputs(self, link: SimulatedLink) -> None:
        """Take the inputs that have arrived at the machine, or zero if none do."""
        inputs = link.arriving(self.k)
        if inputs is not None:
            self._hold(inputs)
        elif link.is_untaken(self.k):
            self._hold(np.zeros(self.machine.n_inputs))

    def _hold(self, inputs: Array) -> None:
        self.actuator.write(inputs)
        self._motion.renew(inputs)

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
