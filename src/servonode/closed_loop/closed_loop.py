"""From a launch file to everything a run needs: machine, law, targets, initial state, limits, all checked.

Every name and number of the launch file is checked here against the machine and the program; what does not fit
is one LaunchError, before anything moves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.bus.loopback import check_telemetry
from servonode.closed_loop.controller_section import (
    Control,
    DerivedLaw,
    ProgramRefused,
    derived_law,
    no_targets,
    program_source,
    resolve_control,
)
from servonode.closed_loop.device_law import check_device_law, law_terms
from servonode.closed_loop.device_readings import check_device_readings, estimate_terms, sends_readings
from servonode.closed_loop.driver_checks import check_driver, driver_addresses, stated
from servonode.closed_loop.effects import actuator_effects, sensor_effects
from servonode.closed_loop.estimation import Estimation, Sensing, estimation_of, sensing_of
from servonode.closed_loop.goals import jumps
from servonode.closed_loop.inversion import inverted
from servonode.closed_loop.inversion_findings import examine_inversion
from servonode.closed_loop.launch_file import LaunchError, with_values, worded
from servonode.closed_loop.launch_keys import Actuator, LaunchFile
from servonode.closed_loop.live_goals import LiveGoal
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
from servonode.closed_loop.static_checks import Examination, examine, singular_at_rest
from servonode.closed_loop.trust import refuse_code
from servonode.closed_loop.watches import check_watches
from servonode.controllers.engine.layout import Answer
from servonode.controllers.engine.signals import Signals
from servonode.mechanics.derivation import derived_once
from servonode.mechanics.description import Quantity
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource
from servonode.plants.drivers.driver import Driver, MotionContext
from servonode.plants.drivers.estimated import EstimateTerms
from servonode.plants.drivers.installed import find_driver
from servonode.plants.drivers.terms import LawTerms
from servonode.plants.effects import ActuatorEffects, SensorEffects
from servonode.plants.prepare import Preparation
from servonode.plants.sensors import SensorSuite
from servonode.plants.simulated import Motion, SimulatedPlant
from servonode.tables import Row, Tabular, named, several, valued

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Derived:
    """What of a launch file is derived and compiled, for whatever numbers: machine and law have their defaults."""

    stated: LaunchFile  # as it was read, before the machine prepared anything
    source: MachineSource
    preparation: Preparation | None
    machine: Machine
    law: DerivedLaw | None


@dataclass(frozen=True, repr=False)
class ClosedLoop(Tabular):
    """A launch file resolved: ready to simulate or to run."""

    launch: LaunchFile
    derived: Derived
    machine: Machine
    control: Control | None
    start: Array  # kernel state at t = 0
    actuator: ActuatorEffects
    sensor: SensorEffects
    safety: SafetySettings
    examination: Examination  # what was found of the loop before it moves
    sensing: Sensing | None = None  # of the simulated machine, where somebody reads its sensors
    estimation: Estimation | None = None  # on which the law works
    readonly: bool = False  # the run observes and computes, and never commands the machine

    def table(self) -> tuple[str, list[Row]]:
        """The machine with its initial state, the program with its residuals, times."""
        launch, control, described = self.launch, self.control, self.machine.description
        found = zip(described.state, self.start.tolist(), strict=False)  # the last entry is the work
        start = (valued(each.name, value, each.unit) for each, value in found)
        rows = [("machine", f"{described.name}: {described.description}"), ("initial state", several(start, 8))]
        rows += [("inputs", several(named(each.name, each.unit) for each in described.inputs))]
        if control:
            program = control.law.description
            degrees = zip(program.residuals, program.relative_degrees, strict=True)
            rows += [("program", program.name)]
            shown = (f"{named(each.name, each.unit)} of relative degree {degree}" for each, degree in degrees)
            rows += [("residuals", several(shown))]
        else:
            rows += [("program", "none: the inputs are zero" if described.inputs else "none")]
        period = f", control every {launch.period_ns / 1e9:g} s" if launch.period_ns and control else ""
        integrator = launch.plant.integrator
        rows += [
            ("time", f"{launch.duration_ns / 1e9:g} s in steps of {launch.step_ns / 1e9:g} s ({integrator}){period}")
        ]
        return f"Closed loop {launch.name}", rows

    @property
    def source(self) -> MachineSource:
        """Where the machine comes from."""
        return self.derived.source

    @property
    def device_law(self) -> LawTerms | None:
        """On what terms the law acts that is in the machine's firmware; None: it does not, or the run only observes."""
        return None if self.readonly else law_terms(self.launch, self.control, self.safety.limits.value)

    @property
    def device_estimate(self) -> EstimateTerms | None:
        """On what terms the plant node estimates the state of a machine that sends readings alone, else None."""
        return estimate_terms(self.launch, self.estimation)

    @property
    def targets(self) -> Signals:
        """What [target] states of what the program asks for."""
        return self.control.targets if self.control else no_targets()

    @property
    def live(self) -> tuple[LiveGoal, ...]:
        """The targets that come over a topic."""
        return self.control.live if self.control else ()

    def check_known_goals(self) -> None:
        """Raise LaunchError where a goal comes over a topic, which a simulation has not."""
        for each in self.live:
            text = "comes over a topic while a real-time run is in progress; for a simulation give it another way, as "
            raise LaunchError(self.launch.file, f"target.{each.name}", "topic", f'{text}--set target.{each.name}="t"')

    @property
    def driver(self) -> Driver:
        return find_driver(self.launch.plant.driver)

    @property
    def residuals(self) -> tuple[Quantity, ...]:
        """Of the constraints that the machine's reactions hold, then of the program."""
        own = self.control.law.description.residuals if self.control else ()
        return (*self.machine.description.stabilised, *own)

    def motion(self) -> Motion | None:
        """What moves the machine of a simulation, from the initial state; None: its equations.

        Raises:
            LaunchError: the driver cannot move this machine.
        """
        launch, motion = self.launch, self.driver.motion
        if motion is None:
            return None
        context = MotionContext(self.machine, self.source, self.start, launch.step_ns, stated(launch))
        with worded(launch.file, "plant", "driver"):
            return motion(context)

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
            self.motion(),
            self.suite(),
        )

    @property
    def answer_columns(self) -> list[str]:
        """The columns of the controller's record: what the law answered, then what it knew of the estimate."""
        if self.control is None:
            return ["k"]
        law = self.control.law
        more = self.estimation.columns if self.estimation else []
        return [*law.record_layout.columns(law.description), *more]

    def suite(self) -> SensorSuite | None:
        """The sensors of a simulated plant, fresh; None where nobody reads them."""
        return self.sensing.suite() if self.sensing else None

    def goal(self, t: float, own: Array | None = None) -> Array:
        """y at time t [s], see `Control.goal`; empty without a controller."""
        return self.control.goal(t, own) if self.control else np.zeros(0)


def resolve(launch: LaunchFile, strict: bool = True, code: bool = True) -> ClosedLoop:
    """Resolve a launch file: load or build the kernels, check every name and number, examine the closed loop.

    With `strict` a refusal of the examination is raised; without, it is only kept in `examination`. Without
    `code` a launch file that names Python code of its own is refused, before anything of it runs.

    Raises:
        LaunchError: something in the launch file does not fit; ProgramRefused: the check failed.
        CacheError: the kernel cache cannot be read or written.
    """
    if not code:
        refuse_code(launch)
    with derived_once():
        return _resolved(launch, strict)


def _resolved(launch: LaunchFile, strict: bool) -> ClosedLoop:
    check_driver(launch)
    check_watches(launch)
    _check_telemetry(launch)
    source = plant_source(launch)
    preparation = preparation_of(launch, source)
    loaded = load(launch, source)  # once; from here on only its parameters differ
    plant = _plant(launch, source, preparation, loaded)
    driver_addresses(launch, loaded.description.name)
    program = program_source(launch)
    law = derived_law(plant.launch, program, source, loaded) if program else None
    try:
        closed_loop = _settled(Derived(launch, source, preparation, loaded, law), plant)
        if strict:
            closed_loop.safety.check_limits(closed_loop.launch)
        found = _examined(closed_loop)
    except ProgramRefused as refusal:
        refusal.law = law.law if law else None
        raise
    if strict and found.refusals:
        first = found.refusals[0]
        raise ProgramRefused(launch.file, "controller", None, f"{first.subject}: {first.text}")
    return replace(closed_loop, examination=found)


def _check_telemetry(launch: LaunchFile) -> None:
    address = launch.run.telemetry
    if address is not None and (problem := check_telemetry(address)):
        raise LaunchError(launch.file, "run", "telemetry", problem)


def observing(closed_loop: ClosedLoop) -> ClosedLoop:
    """The closed loop as a run that never commands the machine.

    Raises:
        LaunchError: its driver cannot do without, or the machine would not move on.
    """
    launch, driver = closed_loop.launch, closed_loop.driver
    if not driver.readonly:
        text = f"{driver.name!r} does not support observing a machine without commanding it; run it without "
        raise LaunchError(launch.file, "plant", "driver", f"{text}--readonly, or give the driver readonly=True")
    if launch.run.mode == "lockstep" and not driver.simulated:
        text = "in lockstep a machine moves only after it receives an input, which --readonly never sends; use realtime"
        raise LaunchError(launch.file, "run", "mode", text)
    return replace(closed_loop, readonly=True)


def varied(
    closed_loop: ClosedLoop, initial: Mapping[str, Any], parameters: Mapping[str, Any], targets: Mapping[str, Any]
) -> ClosedLoop:
    """The closed loop with other entries in [plant.initial], [plant.parameters] and [target].

    Nothing is derived, and the ranks of the servo-constraints are not surveyed again: where the inputs cannot realise
    the goal, the law says so during the run. A function of time as a target is compiled when it is new.

    Raises:
        LaunchError: an entry does not fit, as in the launch file; a parameter that is not a number.
    """
    derived = closed_loop.derived
    launch = with_values(derived.stated, initial, parameters, targets)
    for name in parameters:
        if isinstance(launch.plant.parameters[name], str) or name in derived.source.changes.varying:
            text = (
                "this change needs a new derivation of the machine; replace a number by a number, or load the launch "
            )
            text += "file with it"
            raise LaunchError(launch.file, "plant.parameters", name, text)
    plant = _plant(launch, derived.source, derived.preparation, derived.machine)
    changed = _settled(derived, plant)
    if changed.control is not None:
        answer = _checked_start(changed.launch, changed.control, changed.start)
        if answer.status:
            text = f"at the initial state {changed.control.law.explain(answer)}"
            raise ProgramRefused(launch.file, "plant.initial", None, text)
    return replace(changed, examination=closed_loop.examination)


@dataclass(frozen=True)
class _Plant:
    """The machine with its parameters and initial state, and the launch file as the machine has completed it."""

    launch: LaunchFile
    machine: Machine
    start: Array


def _plant(launch: LaunchFile, source: MachineSource, preparation: Preparation | None, loaded: Machine) -> _Plant:
    if preparation is not None:
        launch = prepared(launch, source, preparation, loaded)
    machine = with_given(launch, source, loaded, "plant.parameters", launch.plant.parameters)
    _check_inputs(launch, machine)
    machine.steps(launch.plant.integrator)  # loaded here, once for all nodes that are forked
    return _Plant(launch, machine, machine.state(initial_states(launch, machine)))


def _settled(derived: Derived, plant: _Plant) -> ClosedLoop:
    """Everything but the examination of the closed loop."""
    launch, machine, start = plant.launch, plant.machine, plant.start
    control = resolve_control(launch, derived.law) if derived.law else None
    _check_unused(launch, control)
    actuator, sensor = actuator_effects(launch, machine), sensor_effects(launch, machine)
    if control is not None:
        control, start = program_start(launch, control, start)
        if launch.controller and launch.controller.inversion is not None:
            control, start = inverted(launch, control, start)
    safety = safety_settings(launch, machine, actuator)
    start = possible_initial_state(launch, machine, start)
    check_safe_action(launch, machine, start, np.array(safety.limits.value), safety.brake_steps)
    sensing = sensing_of(launch, derived.source, machine)
    estimation = estimation_of(launch, control, start, sends_readings(launch))
    check_device_readings(launch, estimation)
    settled = ClosedLoop(
        launch, derived, machine, control, start, actuator, sensor, safety, Examination(), sensing, estimation
    )
    check_device_law(launch, control, estimation)
    settled.motion()  # what cannot be moved is refused here, before anything runs
    return settled


def _check_unused(launch: LaunchFile, control: Control | None) -> None:
    """Refuse what only a controller, or a program with residuals, would use."""
    again = {name: getattr(launch.supervision, name) for name in ("controller", "target")}
    if control is None and set(again.values()) != {"never"}:
        name = next(name for name, policy in again.items() if policy != "never")
        raise LaunchError(
            launch.file, "supervision", name, "there is no [controller], so there is no such node; leave it out"
        )
    if launch.target and control is None:
        text = "there is no [controller] that would use it"
        raise LaunchError(launch.file, "target", next(iter(launch.target)), text)
    if wants_program_start(launch) and not (control and control.law.n_s):
        text = "there is no program with residuals that could set the initial state; remove it"
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


def _checked_start(launch: LaunchFile, control: Control, start: Array) -> Answer:
    """The law's answer to the initial state, which no guard of the program refuses."""
    answer = control.law.evaluate(0.0, start, control.goal(0.0))
    if answer.status > 0:
        raise LaunchError(launch.file, "plant.initial", None, f"at the initial state {control.law.explain(answer)}")
    with worded(launch.file, "controller.settings"):
        control.law.check_parameters()
    return answer


def _at_rest(launch: LaunchFile) -> str:
    """What helps where the law is singular at each state of rest."""
    text = "nor at any state of rest: choose another output, or state the inputs by inputs= of a program"
    moving = "; a goal that never stops can be followed from a start on it, on_program = true in [plant.initial]"
    return text + ("" if wants_program_start(launch) else moving)


def _examined(closed_loop: ClosedLoop) -> Examination:
    """Guards at the initial state, and the relative degrees at random states near it."""
    launch, control, start = closed_loop.launch, closed_loop.control, closed_loop.start
    if control is None:
        return Examination()
    answer = _checked_start(launch, control, start)
    if control.inversion is not None:
        return examine_inversion(launch, control, np.array(closed_loop.safety.limits.value))
    found = examine(launch, control.law, control.gains, start, control.goal(0.0))
    if answer.status and not found.refusals:  # what is refused everywhere is the better reason
        rank = [each.text for each in found.findings if each.subject == "rank" and each.level != "good"]
        text = "; ".join([f"at the initial state {control.law.explain(answer)}", *rank])
        if singular_at_rest(control.law, start, control.goal(0.0)):
            text = f"at the initial state {control.law.explain(answer, _at_rest(launch))}"
        raise ProgramRefused(launch.file, "plant.initial", None, text)
    for each in control.live:
        found.add("good", "goal", each.remark)
    for text in jumps(launch, control.targets):
        found.add("warn", "goal", text)
    return found
