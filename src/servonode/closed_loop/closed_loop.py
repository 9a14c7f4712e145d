"""From a launch file to everything a run needs: machine, law, targets, initial state, limits, all checked.

Every name and number of the launch file is checked here against the machine and the program; what does not fit
is one LaunchError, before anything moves.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from servonode.arrays import Array
from servonode.bus.fleet_memory import Member
from servonode.bus.link import check_telemetry
from servonode.bus.topology import PLANT
from servonode.closed_loop.connection import Connection, connection_of
from servonode.closed_loop.controller_section import (
    Control,
    DerivedLaw,
    derived_law,
    no_targets,
    program_source,
    resolve_control,
    unused_keys,
)
from servonode.closed_loop.device_terms import (
    check_device_law,
    check_device_readings,
    estimate_terms,
    law_terms,
    sends_readings,
)
from servonode.closed_loop.estimation import Estimation, Sensing, estimation_of, sensing_of
from servonode.closed_loop.goals import LiveGoal, jumps
from servonode.closed_loop.hosts import Computer, check_hosts, computer
from servonode.closed_loop.injections import injection
from servonode.closed_loop.inversion import examine_inversion, inverted
from servonode.closed_loop.known_code import SHIPPED, refuse_code
from servonode.closed_loop.launch_error import KeyRefused, LaunchError, ProgramUnfit, stated_in, worded
from servonode.closed_loop.launch_keys import Actuator, InjectedFault, LaunchFile
from servonode.closed_loop.machine_section import (
    actuator_effects,
    check_safe_action,
    completed,
    initial_states,
    load,
    plant_source,
    possible_start,
    preparation_of,
    sensor_effects,
    with_given,
)
from servonode.closed_loop.parts import Parts, part
from servonode.closed_loop.safety_settings import SafetySettings, check_watches, safety_settings
from servonode.closed_loop.speeds import check_speeds, drives_of, examine_speeds
from servonode.closed_loop.start_on_program import wants_program_start
from servonode.closed_loop.static_checks import (
    Examination,
    check_own,
    examine,
    examine_own,
    placed,
    singular_at_rest,
    trial,
    with_residuals,
)
from servonode.closed_loop.wanted_positions import wanted_positions, wanted_targets
from servonode.controllers.engine.layout import Answer
from servonode.controllers.engine.signals import Signals
from servonode.controllers.own.trial import Trial
from servonode.definitions.references import Definition, FunctionDefinition, names_own
from servonode.mechanics.derivation import derived_once
from servonode.mechanics.description import Quantity, Tracked
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource
from servonode.plants.drivers.driver import Driver, DriverContext, LawTerms
from servonode.plants.drivers.estimated import EstimateTerms
from servonode.plants.drivers.installed import find_driver
from servonode.plants.effect_kernels import load_effects
from servonode.plants.effects import ActuatorEffects, SensorEffects
from servonode.plants.injection import Injection, Injector
from servonode.plants.prepare import Preparation
from servonode.plants.sensors import SensorSuite
from servonode.plants.simulated import Motion, SimulatedPlant
from servonode.plants.skeleton import skeleton_views, tips
from servonode.plants.speeds import Drives, SpeedCommands, SpeedMotion
from servonode.plants.view import View
from servonode.tables import Row, Tabular, named, several, valued

if TYPE_CHECKING:
    from servonode.plants.drivers.line_traffic import Traffic

FRAME = re.compile(r"\b([A-Za-z_]\w*)\.[A-Za-z_]")  # of an expression, as in tool.x


@dataclass(frozen=True)
class Derived:
    """The compiled parts of a launch file, for whatever numbers: machine and law have their defaults."""

    stated: LaunchFile  # as it was read, before the machine prepared anything
    source: MachineSource
    preparation: Preparation | None
    machine: Machine
    law: DerivedLaw | None


@dataclass(frozen=True, repr=False)
class ClosedLoop(Tabular):
    """A launch file resolved: ready to simulate or to run.

    It has many properties because all rooms read it: each is derived from the fields where it is asked for, and none is
    stored twice.
    """

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
    own_key: str = ""  # the name of our key pair; empty: the only one that there is
    insecure: bool = False  # whether a machine may be met at tcp addresses without keys
    computer: Computer | None = None  # the part of a run on two computers that is here; None: all of it
    member: Member | None = None  # its place among the robots of one launch; None: it is alone
    parts: Parts = field(default_factory=Parts, compare=False)  # of those with other numbers

    def __reduce__(self) -> Any:
        """Pickle what was stated, of which it is resolved again, and what was chosen since."""
        functions = [each for *_, each in self.own_definitions if isinstance(each, FunctionDefinition)]
        chosen = ("safety", "readonly", "own_key", "insecure", "computer")
        return _resolved_again, (self.derived.stated, functions, {name: getattr(self, name) for name in chosen})

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
    def own_definitions(self) -> Iterator[tuple[str, str, Definition]]:
        """Section, key and definition of a machine or program that is code of the user's or a robot's file."""
        law = self.derived.law
        program = getattr(law.source, "definition", None) if law else None
        stated = (("plant", "machine", self.source.definition), ("controller", "program", program))
        for section, key, definition in stated:
            if definition is not None and definition.reference not in SHIPPED and names_own(definition.reference):
                yield section, key, definition

    @property
    def views(self) -> tuple[View, ...]:
        """How the machine is drawn: as its file says, else as the skeleton of its tree."""
        return self.source.views() or self._skeleton

    @cached_property
    def _skeleton(self) -> tuple[View, ...]:
        return skeleton_views(
            self.machine,
            self.traced,
            wanted_targets(self.launch.controller, self.targets.names),
            lambda: self._wanted_positions,
        )

    @cached_property
    def _wanted_positions(self) -> dict[str, Array]:
        return wanted_positions(self.launch, self.control, self.machine, self.start)

    @cached_property
    def traced(self) -> tuple[str, ...]:
        """The frames and links of a tree whose paths are drawn: those of goals, else its ends."""
        skeleton, controller = self.machine.description.skeleton, self.launch.controller
        if skeleton is None or self.source.definition.states("VIEW"):
            return ()
        stated = " ".join(map(str, controller.residuals.values())) if controller else ""
        named = (*(controller.goal if controller else ()), *FRAME.findall(stated))
        return tuple(dict.fromkeys(name for name in named if name in skeleton.names)) or tips(self.machine)

    @property
    def device_law(self) -> LawTerms | None:
        """On what terms the law acts that is in the machine's firmware; None: it does not, or the run only observes."""
        return None if self.readonly else law_terms(self.launch.plant, self.control, self.safety.limits.value)

    @property
    def device_estimate(self) -> EstimateTerms | None:
        """On what terms the plant node estimates the state of a machine that sends readings alone, else None."""
        return estimate_terms(self.launch.plant, self.estimation)

    @property
    def targets(self) -> Signals:
        """What [target] states of what the program asks for."""
        return self.control.targets if self.control else no_targets()

    @property
    def live(self) -> tuple[LiveGoal, ...]:
        """The targets that come from outside, or from another robot."""
        return self.control.live if self.control else ()

    def check_robots(self) -> None:
        """Raise LaunchError where a goal is the state of another robot, and the run has none."""
        for each in self.live if self.member is None else ():
            if each.state:
                text = f"{each.state!r} needs another robot; run the launch file that has both below [robots]"
                raise LaunchError(self.launch.file, f"target.{each.name}", "state", text)

    def check_known_goals(self, alone: bool = True) -> None:
        """Raise LaunchError where a goal comes from outside, which a simulation has not.

        alone: whether it has no other robots either.
        """
        if alone:
            self.check_robots()
        for each in self.live:
            if each.state:
                continue
            text = "comes from outside while a real-time run is in progress; for a simulation give it another way, as "
            key, text = "topic" if each.address else "bandwidth", f'{text}--set target.{each.name}="t"'
            raise LaunchError(self.launch.file, f"target.{each.name}", key, text)

    @property
    def connection(self) -> Connection:
        """How its driver reaches the machine."""
        return connection_of(self.launch)

    @property
    def driver(self) -> Driver:
        return self.connection.driver

    def check_keys(self, armed: bool) -> None:
        """Refuse to start where keys are missing; armed: whether the run is armed without its operator.

        Raises:
            LaunchError, KeyFileError: that is so, or the run has keys and is to be insecure.
        """
        if self.computer is None or PLANT in self.computer.nodes:
            self.connection.check_keys(
                self.machine.description.name, self.own_key, self.insecure, needless=self.computer is None
            )
        if self.computer is not None and not self.insecure:
            self.computer.check_keys(self.launch.file, self.own_key)
        if armed and (problem := self.insecure_obstacle):
            raise LaunchError(self.launch.file, "plant.device", "key", problem)

    @property
    def insecure_obstacle(self) -> str:
        """Why the machine must not be armed, with the remedy: others could command it over a network without keys."""
        computer = self.computer
        is_local = self.connection.is_local(self.machine.description.name) and (computer is None or computer.is_local)
        if not self.insecure or is_local:
            return ""
        return (
            "the run has no keys (--insecure), and others than this computer are part of it, so it is never armed; "
            "give both sides keys (servonode keys)"
        )

    @property
    def traffic(self) -> "Traffic | None":
        """The traffic of a run with a machine that speaks packets; None: it does not, or time stands still for it."""
        law, estimator = self.device_law, self.launch.estimator
        used = estimator.sensors if estimator else None
        n_sensors = len(self.machine.description.sensors if used is None else used)
        return self.connection.traffic(self.machine, law.n_goal if law else 0, n_sensors)

    def check_traffic(self) -> int:
        """Plant steps between two states of the machine, 0 where it chooses.

        Raises:
            LaunchError: its line or bus is too slow.
        """
        found = self.traffic
        if found is not None and found.line is not None and (problem := found.problem()):
            raise LaunchError(self.launch.file, "plant.device", found.line.key, problem)
        return found.state_every if found else 0

    @property
    def residuals(self) -> tuple[Quantity, ...]:
        """Of the constraints that the machine's reactions hold, then of the program."""
        own = self.control.law.description.residuals if self.control else ()
        return (*self.machine.description.stabilised, *own)

    @property
    def tracked(self) -> tuple[Tracked, ...]:
        """Those of the program's residuals that are an output less its goal."""
        return self.control.law.description.tracked if self.control else ()

    @property
    def drives(self) -> Drives | None:
        """The velocity loops of drives that take speeds; None: they take efforts."""
        return drives_of(self.launch.plant, self.machine.description)

    @property
    def sent_limits(self) -> tuple[float, ...]:
        """The largest magnitude that is sent for each input: of speeds, where the drives take speeds."""
        return self.drives.limit if self.drives else self.safety.limits.value

    def speed_commands(self) -> SpeedCommands | None:
        """What makes speeds of inputs, for drives that take speeds."""
        launch, drives = self.launch, self.drives
        if drives is None:
            return None
        period = launch.steps_per_period
        assert period is not None  # `check_speeds`
        return SpeedCommands(self.machine, launch.plant.integrator, launch.step_ns, period, drives)

    def speed_motion(self, machine: Machine, step_ns: int) -> SpeedMotion | None:
        """The simulation of drives that take speeds; None: they take efforts."""
        drives, integrator = self.drives, self.launch.plant.integrator
        return SpeedMotion(machine, integrator, step_ns, drives, self.actuator.limit) if drives else None

    def motion(self) -> Motion | None:
        """What moves the machine of a simulation, from the initial state; None: its equations under the inputs.

        Raises:
            LaunchError: the driver cannot move this machine.
        """
        launch, motion = self.launch, self.driver.motion
        if motion is None:
            return self.speed_motion(self.machine, launch.step_ns)
        stated = self.connection.stated
        context = DriverContext(
            self.machine, stated, self.start, launch.step_ns, self.plant, source=self.source, drives=self.drives,
            efforts=self.actuator.limit,
        )  # fmt: skip
        with worded(launch.file), stated_in("plant", "driver"):
            return motion(context)

    def motion_notes(self) -> Sequence[str]:
        """What the driver's simulation leaves out of the machine's file, a line each; raises as `motion`."""
        return getattr(self.motion(), "notes", ()) if self.driver.motion else ()

    def injector(self) -> Injector:
        """The faults that are injected into a run, fresh.

        Raises:
            LaunchError: one that cannot be.
        """
        launch, described = self.launch, self.machine.description
        with worded(launch.file):
            planned = [self.injection(each, f"fault.{i}") for i, each in enumerate(launch.fault)]
        signals = {"drive": described.input_names, "sensor": described.state_names}
        timeout = launch.plant.device.timeout or launch.plant.safety.command_timeout_floor
        waits = round(max(timeout, 3 * launch.times.period) / launch.times.step)
        return Injector(planned, signals, launch.times.step, launch.run.seed, waits)

    def injection(self, fault: InjectedFault, section: str = "fault") -> Injection:
        """What a fault makes fail, and when; KeyRefused where it cannot be."""
        sensors = tuple(each.description.name for each in self.sensing.effects) if self.sensing else ()
        return injection(fault, section, self.launch, self.machine.description, sensors)

    def plant(self, injector: Injector | None = None) -> SimulatedPlant:
        """A fresh plant at the initial state. injector: the faults of the run, else those of the launch file."""
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
            injector or self.injector(),
        )

    @property
    def has_own_controller(self) -> bool:
        """Whether a controller in Python gives the inputs."""
        return self.control is not None and self.control.law.description.own

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


def resolve(launch: LaunchFile, strict: bool = True, code: bool | Mapping[str, str] = True) -> ClosedLoop:
    """Resolve a launch file: load or build the kernels, check every name and number, examine the closed loop.

    With `strict` a refusal of the examination is raised; without, it is only kept in `examination`. Without
    `code` a launch file that names Python code of its own is refused, before anything of it runs; with digests as
    `code`, by path from the launch file, unless its files below the working directory have them.

    Raises:
        LaunchError: something in the launch file does not fit; ProgramRefused: the check failed.
        CacheError: the kernel cache cannot be read or written.
    """
    plant = launch.plant
    with worded(launch.file), derived_once():
        if code is not True:
            refuse_code(launch, None if code is False else code)
        connection_of(launch).check()
        check_watches(plant, launch.run)
        check_hosts(launch)
        if launch.run.telemetry is not None and (problem := check_telemetry(launch.run.telemetry)):
            raise KeyRefused("run", "telemetry", problem)
        source = plant_source(plant, launch.path.parent)
        preparation = preparation_of(plant, source)
        machine = load(source)  # once; from here on only its parameters differ
        complete = completed(launch, source, preparation, machine)
        started = at_start(complete, source, machine)
        connection_of(launch).addresses(machine.description.name)
        law = _law(complete, source, machine)
        with _refused_with(law):
            closed_loop = assembled(Derived(launch, source, preparation, machine, law), complete, *started)
            _check_machine(closed_loop)
            closed_loop.injector()
            if strict:
                closed_loop.safety.check_limits()
            own = trial(closed_loop.control, closed_loop.start)
            if own is not None:  # what residuals there are is known only now
                assert law is not None
                law = with_residuals(law, own.residuals)
                closed_loop = assembled(Derived(launch, source, preparation, machine, law), complete, *started)
            found = examined(closed_loop, own)
            if strict and found.refusals:
                first = found.refusals[0]
                raise ProgramUnfit("controller", None, f"{first.subject}: {first.text}")
    return replace(closed_loop, examination=found)


def _resolved_again(stated: LaunchFile, functions: Sequence[Definition], chosen: Mapping[str, Any]) -> ClosedLoop:  # noqa: ARG001
    """A closed loop of a pickle. functions: those that the launch file refers to; unpickling has made them known."""
    return replace(resolve(stated, strict=False), **chosen)


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


def begun(closed_loop: ClosedLoop) -> ClosedLoop:
    """The closed loop with the law of one run, which a controller in Python has for itself."""
    control = closed_loop.control
    return replace(closed_loop, control=replace(control, law=control.law.begin())) if control else closed_loop


def with_keys(closed_loop: ClosedLoop, own_key: str, insecure: bool) -> ClosedLoop:
    """The closed loop as a run with this key pair of ours, or with none: then every status says so."""
    safety = closed_loop.safety
    if insecure:
        where = "machine" if closed_loop.computer is None else "other computer"
        safety = replace(safety, unsafe=(*safety.unsafe, f"the link to the {where} has no keys (--insecure)"))
    return replace(closed_loop, own_key=own_key, insecure=insecure, safety=safety)


def on_computer(closed_loop: ClosedLoop, on: str | None) -> ClosedLoop:
    """The closed loop with the part of its run that is on this computer, which `on` names if it listens.

    Raises:
        LaunchError: [hosts] has no such computer.
    """
    return replace(closed_loop, computer=computer(closed_loop.launch, on))


def at_start(launch: LaunchFile, source: MachineSource, loaded: Machine) -> tuple[Machine, Array]:
    """The machine with its parameters, and its initial state, of a completed launch file."""
    plant = launch.plant
    machine = _with_parameters(source, loaded, plant.parameters, launch.times.duration)
    if not machine.n_inputs:
        what = f"machine {machine.description.name} has no inputs"
        if launch.controller:
            raise KeyRefused("controller", "program", f"{what}; leave [controller] out")
        if plant.actuator != Actuator():
            raise KeyRefused("plant.actuator", None, f"{what}; leave [plant.actuator] out")
    machine.steps(plant.integrator)  # loaded here, once for all nodes that are forked
    load_effects(machine.n_state, machine.n_inputs)
    return machine, _stated_start(machine, plant.initial)


@part
def _with_parameters(
    source: MachineSource, loaded: Machine, parameters: Mapping[str, float | str], duration: float
) -> Machine:
    return with_given(source, loaded, "plant.parameters", parameters, duration)


@part
def _stated_start(machine: Machine, initial: Mapping[str, Any]) -> Array:
    return machine.state(initial_states(initial, machine))


def _law(launch: LaunchFile, source: MachineSource, machine: Machine) -> DerivedLaw | None:
    """The law of [controller], for whatever numbers; None without that section."""
    controller, plant = launch.controller, launch.plant
    if controller is None:
        return None
    program = program_source(controller, launch.target, plant.machine, launch.path.parent)
    law = derived_law(controller, plant, launch.target, launch.times.duration, program, source, machine)
    if law.law.description.own:
        check_own(controller, launch)
    return law


@contextmanager
def _refused_with(law: DerivedLaw | None) -> Iterator[None]:
    """A program that is refused within is refused with its law."""
    try:
        yield
    except ProgramUnfit as refusal:
        refusal.law = law.law if law else None
        raise


def assembled(derived: Derived, launch: LaunchFile, machine: Machine, start: Array) -> ClosedLoop:
    """The closed loop, not yet examined, of the compiled parts and a completed launch file."""
    plant, controller, times, described = launch.plant, launch.controller, launch.times, machine.description
    _check_unused(launch, derived.law)
    control = None
    if controller is not None and derived.law is not None:
        control, start = resolve_control(derived.law, controller, launch, start)
        if controller.inversion is not None:
            control, start = inverted(control, controller.inversion, launch.target, plant, start)
    actuator = actuator_effects(plant.actuator, described, times.step)
    sensor = sensor_effects(plant.sensor, described, times.step)
    driver, run, supervision = find_driver(plant.driver), launch.run, launch.supervision
    drives = drives_of(plant, described)
    safety = safety_settings(plant.safety, plant.device, driver, run, supervision, times, described, actuator, drives)
    machine, start = possible_start(machine, start, plant.safety.faults)
    control = placed(control, launch, safety, start) if control else None
    sensing = None
    if launch.estimator is not None or plant.sensors:  # somebody reads them
        section = "estimator" if launch.estimator else "plant.sensors"
        sensing = sensing_of(plant, derived.source, machine, times, launch.run.seed, section)
    estimation = _estimation(launch, control, start)
    check_device_readings(plant, supervision.plant != "never", estimation)
    check_device_law(plant, control, estimation)
    return ClosedLoop(
        launch, derived, machine, control, start, actuator, sensor, safety, Examination(), sensing, estimation
    )


def _check_machine(closed_loop: ClosedLoop) -> None:
    """Refuse a machine whose safe action adds energy, and one that its driver cannot move, before anything runs."""
    launch, safety = closed_loop.launch, closed_loop.safety
    limits = np.array(safety.limits.value)
    integrator, step_ns = launch.plant.integrator, launch.step_ns
    check_safe_action(closed_loop.machine, closed_loop.start, limits, safety.brake_steps, step_ns, integrator)
    with worded(launch.file):
        check_speeds(launch, closed_loop.machine, closed_loop.start)
    closed_loop.motion()


def _check_unused(launch: LaunchFile, law: DerivedLaw | None) -> None:
    """Refuse what only a controller, or a program with residuals, would use."""
    again = {name: getattr(launch.supervision, name) for name in ("controller", "target")}
    if law is None and set(again.values()) != {"never"}:
        name = next(name for name, policy in again.items() if policy != "never")
        raise KeyRefused("supervision", name, "there is no [controller], so there is no such node; leave it out")
    if launch.target and law is None:
        raise KeyRefused("target", next(iter(launch.target)), "there is no [controller] that would use it")
    if wants_program_start(launch.plant.initial) and not (law and law.law.n_s):
        text = "there is no program with residuals that could set the initial state; remove it"
        raise KeyRefused("plant.initial", "on_program", text)


def _estimation(launch: LaunchFile, control: Control | None, start: Array) -> Estimation | None:
    """The estimator of [estimator]; None without that section."""
    if launch.estimator is None:
        return None
    if control is None:
        text = "there is no [controller] that would use the estimate; add one, or leave [estimator] out"
        raise KeyRefused("estimator", None, text)
    if launch.supervision.controller != "never" and not sends_readings(launch.plant):
        text = "a controller that is restarted has lost its estimate, and would take the machine to be at its initial "
        raise KeyRefused("supervision", "controller", f'{text}state; give "never" with [estimator]')
    return estimation_of(launch.estimator, control, launch.plant, launch.run, start)


def checked_start(control: Control, start: Array) -> Answer:
    """The law's answer to the initial state, which no guard of the program refuses."""
    law = control.law
    answer = law.answer() if law.description.own else law.evaluate(0.0, start, control.goal(0.0))
    if answer.status > 0:
        raise KeyRefused("plant.initial", None, f"at the initial state {control.law.explain(answer)}")
    with stated_in("controller.settings"):
        control.law.check_parameters()
    return answer


def _at_rest(on_program: bool) -> str:
    """What helps where the law is singular at each state of rest."""
    text = "nor at any state of rest: choose another output, or state the inputs by inputs= of a program"
    moving = "; a goal that never stops can be followed from a start on it, on_program = true in [plant.initial]"
    return text + ("" if on_program else moving)


def examined(closed_loop: ClosedLoop, own: Trial | None = None) -> Examination:
    """Guards at the initial state, and the relative degrees at random states near it.

    own: what a controller in Python gave at that state.
    """
    launch, control, start = closed_loop.launch, closed_loop.control, closed_loop.start
    if control is None:
        return Examination()
    answer = checked_start(control, start)
    if control.inversion is not None:
        return examine_inversion(control, np.array(closed_loop.safety.limits.value))
    found = examine(control, start) if own is None else examine_own(control, own, launch.run.mode)
    if answer.status and not found.refusals:  # what is refused everywhere is the better reason
        rank = [each.text for each in found.findings if each.subject == "rank" and each.level != "good"]
        text = "; ".join([f"at the initial state {control.law.explain(answer)}", *rank])
        if singular_at_rest(control.law, start, control.goal(0.0)):
            remedy = _at_rest(wants_program_start(launch.plant.initial))
            text = f"at the initial state {control.law.explain(answer, remedy)}"
        raise ProgramUnfit("plant.initial", None, text)
    if closed_loop.drives is not None:
        examine_speeds(closed_loop.drives, closed_loop.machine, control.times.period, found)
    for each in control.live:
        found.add("good", "goal", each.remark)
        if each.is_unbounded:
            text = f"{each.name} has neither range nor rate: one wrong value moves the machine as far as plant.safety "
            found.add("warn", "goal", f"{text}lets it; give one of them")
    for key in unused_keys(launch.controller, launch.target):
        found.add("warn", "goal", f"{key} is used by no residual")
    for text in jumps(launch.target, control.targets, launch.times.duration):
        found.add("warn", "goal", text)
    return found
