"""From a launch file to everything a run needs: machine, law, targets, initial state, limits, all checked.

Every name and number of the launch file is checked here against the machine and the program; what does not fit
is one LaunchError, before anything moves.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servonode.closed_loop.controller_section import (
    Control,
    ProgramRefused,
    no_targets,
    program_source,
    resolve_control,
)
from servonode.closed_loop.driver_checks import check_driver, driver_addresses
from servonode.closed_loop.effects import actuator_effects, sensor_effects
from servonode.closed_loop.launch_file import LaunchError, worded
from servonode.closed_loop.launch_keys import Actuator, LaunchFile
from servonode.closed_loop.machine_section import (
    check_safe_action,
    initial_states,
    load,
    plant_source,
    possible_initial_state,
    with_given,
)
from servonode.closed_loop.preparation import preparation_of, prepared
from servonode.closed_loop.safety_settings import SafetySettings, safety_settings
from servonode.closed_loop.start_on_program import program_start, wants_program_start
from servonode.closed_loop.static_checks import Examination, examine
from servonode.closed_loop.trust import refuse_code
from servonode.closed_loop.watches import check_watches
from servonode.controllers.engine.signals import Signals
from servonode.mechanics.description import Quantity
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource
from servonode.plants.drivers import DRIVERS
from servonode.plants.drivers.driver import Driver
from servonode.plants.effects import ActuatorEffects, SensorEffects
from servonode.plants.simulated import SimulatedPlant

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ClosedLoop:
    """A launch file resolved: ready to simulate or to run."""

    launch: LaunchFile
    source: MachineSource
    machine: Machine
    control: Control | None
    start: Array  # kernel state at t = 0
    actuator: ActuatorEffects
    sensor: SensorEffects
    safety: SafetySettings
    examination: Examination  # what was found of the loop before it moves

    @property
    def targets(self) -> Signals:
        """What [target] states of what the program asks for."""
        return self.control.targets if self.control else no_targets()

    @property
    def driver(self) -> Driver:
        return DRIVERS[self.launch.plant.driver]

    @property
    def residuals(self) -> tuple[Quantity, ...]:
        """Of the constraints that the machine's reactions hold, then of the program."""
        own = self.control.law.description.residuals if self.control else ()
        return (*self.machine.description.stabilised, *own)

    def plant(self) -> SimulatedPlant:
        """A fresh plant at the initial state."""
        launch = self.launch
        return SimulatedPlant(
            self.machine,
            self.start,
            launch.step_ns,
            launch.plant.integrator,
            self.actuator,
            self.sensor,
            launch.run.seed,
            self.safety.plausible(own=False),
        )

    def goal(self, t: float, own: Array | None = None) -> Array:
        """y at time t [s], see `Control.goal`; empty without a controller."""
        return self.control.goal(t, own) if self.control else np.zeros(0)


def resolve(launch: LaunchFile, strict: bool = True, code: bool = True) -> ClosedLoop:
    """Resolve a launch file: load or build the kernels, check every name and number, examine the closed loop.

    With `strict` a refusal of the examination is raised; without, it is only kept in `examination`. Without
    `code` a launch file that names Python code of its own is refused, before anything of it runs.

    Raises:
        LaunchError: something in the launch file does not fit; ProgramRefused: the check failed.
        CacheError: the kernel cache is damaged or cannot be written.
    """
    if not code:
        refuse_code(launch)
    check_driver(launch)
    check_watches(launch)
    source = plant_source(launch)
    preparation = preparation_of(launch, source)
    loaded = load(launch, source)  # once; from here on only its parameters differ
    if preparation is not None:
        launch = prepared(launch, source, preparation, loaded)
    machine = with_given(launch, source, loaded, "plant.parameters", launch.plant.parameters)
    _check_inputs(launch, machine)
    driver_addresses(launch, machine.description.name)
    program = program_source(launch)
    machine.steps(launch.plant.integrator)  # loaded here, once for all nodes that are forked
    start = machine.state(initial_states(launch, machine))
    control = resolve_control(launch, program, source, loaded) if program else None
    _check_unused(launch, control)
    actuator, sensor = actuator_effects(launch, machine), sensor_effects(launch, machine)
    if control is not None:
        control, start = program_start(launch, control, start)
    safety = safety_settings(launch, machine, actuator)
    start = possible_initial_state(launch, machine, start)
    check_safe_action(launch, machine, start, np.array(safety.limits.value), safety.brake_steps)
    if strict:
        safety.check_limits(launch)
    examination = _examined(launch, control, start) if control else Examination()
    if strict and examination.refusals:
        first = examination.refusals[0]
        raise ProgramRefused(launch.file, "controller", None, f"{first.subject}: {first.text}")
    return ClosedLoop(launch, source, machine, control, start, actuator, sensor, safety, examination)


def _check_unused(launch: LaunchFile, control: Control | None) -> None:
    """Refuse what only a controller, or a program with residuals, would use."""
    again = {name: getattr(launch.supervision, name) for name in ("controller", "target")}
    if control is None and set(again.values()) != {"never"}:
        name = next(name for name, policy in again.items() if policy != "never")
        raise LaunchError(launch.file, "supervision", name, "there is no [controller], so no such node; leave it out")
    if launch.target and control is None:
        text = "there is no [controller] that would use it"
        raise LaunchError(launch.file, "target", next(iter(launch.target)), text)
    if wants_program_start(launch) and not (control and control.law.n_s):
        text = "there is no program with residuals to start on; remove it"
        raise LaunchError(launch.file, "plant.initial", "on_program", text)


def _check_inputs(launch: LaunchFile, machine: Machine) -> None:
    """Refuse a controller, and drives, for a machine that has no inputs."""
    if machine.n_inputs:
        return
    what = f"machine {machine.description.name} has no inputs"
    if launch.controller:
        raise LaunchError(launch.file, "controller", "program", f"{what}; leave [controller] out")
    if launch.plant.actuator != Actuator():
        raise LaunchError(launch.file, "plant.actuator", None, f"{what}; leave [plant.actuator] out")


def _examined(launch: LaunchFile, control: Control, start: Array) -> Examination:
    """Guards at the initial state, and the relative degrees at random states near it."""
    law, y = control.law, control.goal(0.0)
    answer = law.evaluate(0.0, start, y)
    if answer.status > 0:
        raise LaunchError(launch.file, "plant.initial", None, f"at the start {law.explain(answer)}")
    with worded(launch.file, "controller.settings"):
        law.check_parameters()
    found = examine(launch, law, control.gains, start, y)
    if answer.status and not found.refusals:  # what is refused everywhere is the better reason
        rank = [each.text for each in found.findings if each.subject == "rank" and each.level != "good"]
        text = "; ".join([f"at the start {law.explain(answer)}", *rank])
        raise ProgramRefused(launch.file, "plant.initial", None, text)
    return found
