"""The machine of a plant node: opened by its driver; faults of its state, balance of its energy, whether it answers."""

import numpy as np

from servonode.arrays import Array
from servonode.bus.durations import Clock
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.machine import Machine, endless, fault_time
from servonode.mechanics.stiffness import stiffness
from servonode.nodes.guard import Guard
from servonode.nodes.node import start_id
from servonode.plants.injection import Injector
from servonode.plants.plant import Plant
from servonode.plants.simulated import SimulatedPlant

LEAST_ENERGY = 1e-6  # J; smaller energies are rounding errors
STRAY = 0.1  # largest error of the balance, as a share of the energy, of a motion that counts as valid


def driven_plant(closed_loop: ClosedLoop, clock: Clock, injector: Injector | None = None) -> Plant:
    """The plant of a run; what the driver opens belongs to this process.

    injector: the faults of the run, else those of the launch file.
    """
    injector = injector or closed_loop.injector()
    launch, machine = closed_loop.launch, closed_loop.machine

    def simulated_machine(machine: Machine, start: Array, step_ns: int) -> SimulatedPlant:
        actuator, sensor, seed = closed_loop.actuator, closed_loop.sensor, launch.run.seed
        integrator, suite = launch.plant.integrator, closed_loop.suite()
        motion = closed_loop.speed_motion(machine, step_ns)
        return SimulatedPlant(
            machine, start, step_ns, integrator, actuator, sensor, seed, motion=motion, suite=suite, injector=injector,
            linked=True,
        )  # fmt: skip

    context = closed_loop.driver_context(
        simulation=lambda: closed_loop.plant(injector),
        simulated_machine=simulated_machine,
        source=closed_loop.source,
        frozen_time=launch.plant.safety.frozen_time,
        brake_time=closed_loop.safety.brake_steps * launch.step_ns / 1e9,
        readonly=closed_loop.readonly,
        plausible=closed_loop.safety.plausible(own=True),
        insecure=closed_loop.insecure,
        addresses=closed_loop.connection.addresses(machine.description.name),
        state_every=closed_loop.check_traffic(),
        seed=launch.run.seed,
        clock=clock,
        injector=injector,
    )
    return closed_loop.driver.open(context)


class StateCheck:
    """Finds the faults of a state.

    locates: whether to check each step and locate a fault within it, because no controller samples the state.
    """

    def __init__(self, closed_loop: ClosedLoop, plant: Plant) -> None:
        launch, self._machine = closed_loop.launch, closed_loop.machine
        self._has_conditions = launch.plant.safety.faults and bool(self._machine.description.faults)
        self.locates = self._has_conditions and launch.steps_per_period is None
        self._integrator, self._plant, self._start = launch.plant.integrator, plant, closed_loop.start
        self._times = launch.times_of_steps

    def find(self, in_fault: bool, before: Array | None) -> list[tuple[str, str, float]]:
        """Name, text and time [s] of each fault of the present state.

        in_fault: whether to leave out the machine's own conditions. before: the state before a step at whose end one of
        them is violated, to locate the time; None: the present time.
        """
        machine, plant = self._machine, self._plant
        found: list[tuple[str, str, float]] = []
        if plant.distrust is not None:
            found.append((*plant.distrust, plant.t))
        if not plant.finite and machine.description.jumps and np.isfinite(plant.x[:-1]).all():
            found.append(("jumps", endless(machine, plant.t, plant.x), plant.t))
        elif not plant.finite:
            found.append(("diverged", f"the state is no longer finite: {self._why()}", plant.t))
        if found or in_fault or not self._has_conditions:
            return found
        t, violated = plant.t, machine.fault(plant.t, plant.x)
        if before is not None:
            t, violated = fault_time(machine, self._integrator, plant.step_ns, plant.k - 1, before, plant.output)
        return [(violated.name, violated.text, t)] if violated else []

    def _why(self) -> str:
        machine, step = self._machine, self._plant.step_ns / 1e9
        stiff = stiffness(machine, self._integrator, step, 0.0, self._start, np.zeros(machine.n_inputs), self._times)
        if stiff:
            return f"the step is too long for this machine, initially {stiff}"
        loops = machine.description.independent
        dead = (
            f", or its loops met a dead point, where {', '.join(loops)} no longer determine its position"
            if loops
            else ""
        )
        return f"the machine's motion escaped{dead}"


class EnergyAccount:
    """Compares the energy of a plant with the work on it [J]; nan for a device, which never strays.

    So a simulation shows motions that its model does not describe, as after a fall.
    """

    def __init__(self, plant: Plant, machine: Machine) -> None:
        self._plant, self._machine = plant, machine
        self._first = self.present()
        self._missing = self._scale = 0.0  # values at `begin`

    def present(self) -> float:
        """Kinetic plus potential energy of the newest state [J]."""
        return self._machine.energy(self._plant.t, self._plant.x)

    def missing(self) -> float:
        """The energy [J] gained beyond the initial energy and the work: errors of the integrator."""
        return self.present() - self._first - float(self._plant.x[-1])

    def begin(self) -> None:
        """Start judging now; at rest a machine has no energy to compare with."""
        self._missing, self._scale = self.missing(), self._present_scale()

    def strays(self) -> bool:
        """Whether the balance has changed since `begin` by more than the errors of an integrator."""
        error = abs(self.missing() - self._missing)
        return error > STRAY * max(self._present_scale(), self._scale, LEAST_ENERGY)

    def _present_scale(self) -> float:
        """The energy to which an error is compared [J]."""
        return abs(self.present()) + abs(self._first) + abs(float(self._plant.x[-1]))


class MachineLink:
    """Judges whether the machine answers. lost: whether a fault was found in lockstep, where it then stands still."""

    def __init__(self, plant: Plant, guard: Guard, clock: Clock, timeout_s: float) -> None:
        self.lost = False
        self._plant, self._remote = plant, plant.remote
        self._guard, self._clock = guard, clock
        self._timeout_s = timeout_s
        self._connecting = 0  # time until which the machine may answer the handshake; 0: no handshake is in progress

    def connect(self) -> None:
        """Begin a new handshake, with the timeout of a first answer."""
        self.lost = False
        self._plant.begin(start_id(), self._plant.k)
        self._connecting = self.deadline()

    def deadline(self) -> int:
        """The monotonic time [ns] by which a machine that is asked now must have answered."""
        return self._clock() + round(self._timeout_s * 1e9)

    def fault(self, now: int | None = None) -> tuple[str, str] | None:
        """Name and text of a fault of the machine or its link, or None; judged at `now` [monotonic ns] if given."""
        remote = self._remote
        found = remote.fault(now) if remote else None
        if not self._connecting or found is not None:
            return found
        if remote is None or remote.connected():
            self._connecting = 0
            self._guard.trust_state()
        elif self._clock() > self._connecting:
            self._connecting = 0
            return "stale_state", f"the machine does not answer the handshake: {remote.no_answer_reason()}"
        return None

    def step_fault(self, deadline: int | None) -> tuple[str, str] | None:
        """As `fault`, in lockstep, for a machine that must reach its next step by the deadline [ns]; None: it has."""
        now, found = self._clock(), self._remote.fault() if self._remote else None
        if found is None and deadline is not None and now >= deadline:
            text = (
                f"no state from the machine after step {self._plant.k} within {self._timeout_s:g} s; "
                f"check that it is running"
            )
            found = ("lockstep_timeout", text)
        self.lost = found is not None
        return found
