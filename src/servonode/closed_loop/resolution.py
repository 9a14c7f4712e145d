"""The parts of a resolved launch file beside machine and control: safety, drives, sensors, faults, simulation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from servonode.arrays import Array
from servonode.bus.link import check_telemetry
from servonode.bus.topology import NODES, PLANT, RELAY
from servonode.closed_loop.connection import Connection, connection_of
from servonode.closed_loop.controller_section import Control, ControlParts, no_targets, unused_keys
from servonode.closed_loop.device_terms import (
    check_device_law,
    check_device_readings,
    check_speeds,
    drives_of,
    examine_speeds,
    sends_readings,
)
from servonode.closed_loop.estimation import Estimation, Sensing, estimation_of, sensing_of
from servonode.closed_loop.goals import LiveGoal, jumps
from servonode.closed_loop.hosts import check_hosts
from servonode.closed_loop.inversion import examine_inversion, inverted
from servonode.closed_loop.keeping import too_fast, where_kept, with_keeping
from servonode.closed_loop.launch_error import KeyRefused, ProgramUnfit, choices, naming_file, stated_in, unknown
from servonode.closed_loop.launch_keys import LARGEST, InjectedFault, LaunchFile
from servonode.closed_loop.machine_section import (
    MOST_WAITING,
    actuator_effects,
    check_safe_action,
    possible_start,
    sensor_effects,
)
from servonode.closed_loop.parts import cached_property
from servonode.closed_loop.safety_settings import SafetySettings, check_watches, safety_settings
from servonode.closed_loop.start_on_program import wants_program_start
from servonode.closed_loop.static_checks import Examination, examine, examine_own, placed, singular_at_rest
from servonode.controllers.engine.layout import Answer
from servonode.controllers.engine.signals import Signals
from servonode.controllers.own.trial import Trial
from servonode.mechanics.description import MachineDescription, Quantity, Tracked
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.driver import Driver, DriverContext
from servonode.plants.drivers.installed import find_driver
from servonode.plants.effects import ActuatorEffects, SensorEffects
from servonode.plants.injection import DIRECTIONS, KINDS, SIZES, Injection, Injector
from servonode.plants.sensors import SensorSuite
from servonode.plants.servos import Servo, input_of
from servonode.plants.simulated import Motion, SimulatedPlant
from servonode.plants.speeds import Drives, SpeedCommands, SpeedMotion

LONGEST_STALL = 60.0  # s of a node


class Resolution(ControlParts):
    """All parts of a launch file."""

    @cached_property
    def _followed(self) -> tuple[Control | None, Array]:
        """The control, along the bounded solution where there is one, and the initial state."""
        launch, (control, start) = self.launch, self.started
        stated = launch.controller and launch.controller.inversion
        if control is None or not stated:
            return control, start
        return inverted(control, stated, launch.target, launch.plant, start, not self.is_variation)

    @cached_property
    def actuator(self) -> ActuatorEffects:
        """What the drives make of commands."""
        launch = self.launch
        described = self.given_machine.description
        return self.kept.of(actuator_effects, launch.plant.actuator, described, launch.times.step)

    @cached_property
    def sensor(self) -> SensorEffects:
        """What the sensors make of the state."""
        launch = self.launch
        return self.kept.of(sensor_effects, launch.plant.sensor, self.given_machine.description, launch.times.step)

    @cached_property
    def drives(self) -> Drives | None:
        """The velocity loops of drives that take speeds; None: they take efforts."""
        return self.kept.of(drives_of, self.launch.plant, self.given_machine.description)

    @cached_property
    def servos(self) -> Mapping[str, Servo]:
        """The servos of a machine, by their inputs; empty where equations move it or they are told speeds."""
        if (self.driver.simulated and not self.driver.servos) or self.launch.plant.command == "velocity":
            return {}
        inputs = self.given_machine.description.input_names
        found = {input_of(name, inputs): servo for name, servo in self.source.servos().items()}
        return {name: servo for name, servo in found.items() if name}

    @property
    def servo_obstacle(self) -> str:
        """Why the machine must not be armed, with the remedy: its servos cannot be told what they should do."""
        if not self.servos or self.driver.servos:
            return ""
        text = f"{', '.join(self.servos)}: servos, which hold places or speeds, and driver {self.driver.name} sends "
        text += 'forces alone; if the drives take these, set [plant.robot] ignore = ["servo"], in Python '
        return f"{text}no SERVOS"

    @cached_property
    def safety(self) -> SafetySettings:
        """What stands between the commands and the machine."""
        launch, plant = self.launch, self.launch.plant
        return self.kept.of(
            safety_settings, plant.safety, plant.device, self.driver, launch.run, launch.supervision, launch.times,
            self.given_machine.description, self.actuator, self.drives,
        )  # fmt: skip

    @cached_property
    def _possible(self) -> tuple[Machine, Array]:
        _, start = self._followed
        return self.kept.of(possible_start, self.given_machine, start, self.launch.plant.safety.faults)

    @cached_property
    def machine(self) -> Machine:
        """The machine as it is assembled at its initial state."""
        return self._possible[0]

    @cached_property
    def start(self) -> Array:
        """Its kernel state at t = 0."""
        return self._possible[1]

    @cached_property
    def control(self) -> Control | None:
        """The controller's half of the run; None: the inputs are zero."""
        control, _ = self._followed
        if control is None:
            return None
        timing, limits = (control.times.period, control.delay), self.safety.limits.value
        law = with_keeping(control.law, control.stated, timing, limits, self.start, control.goal(0.0))
        return placed(replace(control, law=law), self.launch, self.safety, self.start)

    @property
    def known_control(self) -> Control:
        """The same, of what is known to have one."""
        assert self.control is not None
        return self.control

    @cached_property
    def sensing(self) -> Sensing | None:
        """The sensors of the simulated machine, where somebody reads them."""
        launch = self.launch
        if launch.estimator is None and not launch.plant.sensors:
            return None
        section = "estimator" if launch.estimator else "plant.sensors"
        return sensing_of(launch.plant, self.source, self.machine, launch.times, launch.run.seed, section)

    @cached_property
    def estimation(self) -> Estimation | None:
        """The estimator on which the law works; None without one."""
        launch, control = self.launch, self.control
        if launch.estimator is None:
            return None
        if control is None:
            text = "there is no [controller] that would use the estimate; add one, or leave [estimator] out"
            raise KeyRefused("estimator", None, text)
        if launch.supervision.controller != "never" and not sends_readings(launch.plant):
            text = "a controller that is restarted has lost its estimate, and would take the machine to be at its "
            raise KeyRefused("supervision", "controller", f'{text}initial state; give "never" with [estimator]')
        return estimation_of(launch.estimator, control, launch.plant, launch.run, self.start)

    @property
    def connection(self) -> Connection:
        """How its driver reaches the machine."""
        return connection_of(self.launch)

    @property
    def driver(self) -> Driver:
        return self.connection.driver

    @property
    def targets(self) -> Signals:
        """What [target] states of what the program asks for."""
        return self.control.targets if self.control else no_targets()

    @property
    def live(self) -> tuple[LiveGoal, ...]:
        """The targets that come from outside, or from another robot."""
        return self.control.live if self.control else ()

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
    def keeps(self) -> tuple[Quantity, ...]:
        """What the law keeps at or above zero."""
        return tuple(each.quantity for each in self.control.law.description.keeps) if self.control else ()

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

    def goal(self, t: float, own: Array | None = None) -> Array:
        """y at time t [s], see `Control.goal`; empty without a controller."""
        return self.control.goal(t, own) if self.control else np.zeros(0)

    def check_stated(self) -> None:
        """Refuse what is stated without regard to the law: first what needs no machine to be refused."""
        launch = self.stated
        connection_of(launch).check()
        check_watches(launch.plant, launch.run)
        check_hosts(launch)
        if launch.run.telemetry is not None and (problem := check_telemetry(launch.run.telemetry)):
            raise KeyRefused("run", "telemetry", problem)
        machine, _ = self.given_machine, self.stated_start
        self.connection.addresses(machine.description.name)

    def check_parts(self) -> None:
        """Make all parts, in the order in which they are refused.

        Raises:
            KeyRefused: something does not fit; ProgramUnfit: of the program.
        """
        launch = self.launch
        _ = self.stated_start
        self._check_unused()
        _ = self._followed, self.actuator, self.sensor, self.safety, self.machine, self.control, self.sensing
        check_device_readings(launch.plant, launch.supervision.plant != "never", self.estimation)
        check_device_law(launch.plant, self.control, self.estimation)

    def _check_unused(self) -> None:
        """Refuse what only a controller, or a program with residuals, would use."""
        launch, law = self.launch, self.derived_law
        again = {name: getattr(launch.supervision, name) for name in ("controller", "target")}
        if law is None and set(again.values()) != {"never"}:
            name = next(name for name, policy in again.items() if policy != "never")
            raise KeyRefused("supervision", name, "there is no [controller], so there is no such node; leave it out")
        if launch.target and law is None:
            raise KeyRefused("target", next(iter(launch.target)), "there is no [controller] that would use it")
        if wants_program_start(launch.plant.initial) and not (law and law.law.n_s):
            text = "there is no program with residuals that could set the initial state; remove it"
            raise KeyRefused("plant.initial", "on_program", text)

    def check_machine(self) -> None:
        """Refuse a machine whose safe action adds energy, and one that its driver cannot move, before anything runs."""
        launch, safety = self.launch, self.safety
        limits = np.array(safety.limits.value)
        integrator, step_ns = launch.plant.integrator, launch.step_ns
        check_safe_action(self.machine, self.start, limits, safety.brake_steps, step_ns, integrator)
        with naming_file(launch.file):
            check_speeds(launch, self.machine, self.start)
        self.motion()

    def checked_start(self) -> Answer | None:
        """The law's answer to the initial state, which no guard of the program refuses; None without a law."""
        control, start = self.control, self.start
        if control is None:
            return None
        law = control.law
        answer = law.answer() if law.description.own else law.evaluate(0.0, start, control.goal(0.0))
        if answer.status > 0:
            violated = answer.status > len(law.description.guards) and not self.is_variation
            more = where_kept(law, start, control.goal(0.0)) if violated else ""
            raise KeyRefused("plant.initial", None, f"at the initial state {law.explain(answer)}{more}")
        with stated_in("controller.settings"):
            law.check_parameters()
        return answer

    def examined(self, own: Trial | None = None) -> Examination:
        """Guards at the initial state, and the relative degrees at random states near it.

        own: what a controller in Python gave at that state.
        """
        launch, control, start, answer = self.launch, self.control, self.start, self.checked_start()
        if control is None or answer is None:
            return Examination()
        if control.inversion is not None:
            return examine_inversion(control, np.array(self.safety.limits.value))
        found = examine(control, start) if own is None else examine_own(control, own, launch.run.mode)
        for name, text in too_fast(control.law, start, control.goal(0.0)):
            found.add("refuse", f"keep {name}", text)
        if answer.status and not found.refusals:  # what is refused everywhere is the better reason
            rank = [each.text for each in found.findings if each.subject == "rank" and each.level != "good"]
            text = "; ".join([f"at the initial state {control.law.explain(answer)}", *rank])
            if singular_at_rest(control.law, start, control.goal(0.0)):
                remedy = "nor at any state of rest: choose another output, or state the inputs by inputs= of a program"
                if not wants_program_start(launch.plant.initial):
                    remedy += "; a goal that never stops can be followed from a start on it, on_program = true in "
                    remedy += "[plant.initial]"
                text = f"at the initial state {control.law.explain(answer, remedy)}"
            raise ProgramUnfit("plant.initial", None, text)
        if self.drives is not None:
            examine_speeds(self.drives, self.machine, control.times.period, found)
        for each in control.live:
            found.add("good", "goal", each.remark)
            if each.is_unbounded:
                text = f"{each.name} has neither range nor rate: one wrong value moves the machine as far as "
                found.add("warn", "goal", f"{text}plant.safety lets it; give one of them")
        described = control.law.description
        if described.limited and not described.keeps and not np.isfinite(self.safety.limits.value).any():
            text = "no input has a limit that controller.limits could keep; give one in [plant.actuator] or "
            found.add("warn", "limits", f"{text}[plant.safety], or leave it out")
        for key in unused_keys(launch.controller, launch.target):
            found.add("warn", "goal", f"{key} is used by no residual")
        for text in jumps(launch.target, control.targets, launch.times.duration):
            found.add("warn", "goal", text)
        return found

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
        with naming_file(launch.file), stated_in("plant", "driver"):
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
        with naming_file(launch.file):
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

    def suite(self) -> SensorSuite | None:
        """The sensors of a simulated plant, fresh; None where nobody reads them."""
        return self.sensing.suite() if self.sensing else None


def injection(
    fault: InjectedFault, section: str, launch: LaunchFile, machine: MachineDescription, sensors: tuple[str, ...]
) -> Injection:
    """The fault that a section states. sensors: of the machine, where somebody reads them.

    Raises:
        KeyRefused: it cannot be.
    """
    if fault.kind not in KINDS[fault.on]:
        text = f"{fault.kind} is no fault of a {fault.on}; choose {choices(KINDS[fault.on])}"
        raise KeyRefused(section, "kind", text)
    if fault.at >= launch.times.duration:
        text = f"{fault.at:g} s is not within the run of {launch.times.duration:g} s; give less"
        raise KeyRefused(section, "at", text)
    _check_hardware(fault, section, launch)
    step = launch.times.step
    begin = round(fault.at / step)
    end = float("inf") if fault.duration is None else begin + max(round(fault.duration / step), 1)
    return Injection(
        fault.on, fault.kind, _names(fault, section, launch, machine, sensors), begin, end, _size(fault, section, step)
    )


def _check_hardware(fault: InjectedFault, section: str, launch: LaunchFile) -> None:
    """Refuse what a machine that is no simulation cannot do, or is not to do by accident."""
    if not find_driver(launch.plant.driver).outside:
        return
    if fault.on in ("drive", "sensor"):
        text = f"a {fault.on} of a machine behind driver {launch.plant.driver} cannot be made to fail from here; "
        raise KeyRefused(section, "on", f'{text}choose link or node, or take driver = "simulated"')
    if not fault.hardware:
        text = f"driver {launch.plant.driver} may move a real machine; say hardware = true if this fault is meant"
        raise KeyRefused(section, "hardware", f"{text} for it")


def _names(
    fault: InjectedFault, section: str, launch: LaunchFile, machine: MachineDescription, sensors: tuple[str, ...]
) -> tuple[str, ...]:
    """What fails: the name that is stated, else each there is."""
    nodes = tuple(node for node in NODES if node != RELAY) if launch.controller else (PLANT,)
    known = {
        "drive": machine.input_names,
        "sensor": (*sensors, *machine.state_names),
        "link": DIRECTIONS,
        "node": nodes,
    }[fault.on]
    if fault.name is not None:
        if fault.name not in known:
            raise KeyRefused(section, "name", unknown(f"{fault.name} is no {fault.on}", fault.name, known))
        return (fault.name,)
    if fault.on == "node":
        raise KeyRefused(section, "name", f"missing; name the node that fails: {choices(known)}")
    return sensors or known if fault.on == "sensor" else known


def _size(fault: InjectedFault, section: str, step: float) -> float:
    """How large it is; 0 where its kind has no size."""
    if fault.kind == "stall" and not 0.0 < (fault.duration or 0.0) <= LONGEST_STALL:
        raise KeyRefused(section, "duration", f"give for how long the node stalls, at most {LONGEST_STALL:g} s")
    wanted = fault.kind in SIZES and (fault.on, fault.kind) != ("link", "garbage")
    if not wanted:
        if fault.size is not None:
            raise KeyRefused(section, "size", f"{fault.kind} of a {fault.on} has no size; leave it out")
        return 0.0
    size = fault.size or 0.0
    if not size > 0.0:
        raise KeyRefused(section, "size", f"give {SIZES[fault.kind]}, above 0")
    most = 1.0 if fault.kind == "drop" else MOST_WAITING * step if fault.kind == "delayed" else LARGEST
    if not size <= most:
        raise KeyRefused(section, "size", f"{size:g} is more than {most:g}; give {SIZES[fault.kind]}")
    return size
