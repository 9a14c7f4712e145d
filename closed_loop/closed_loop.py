"""From a launch file to everything a run needs: machine, law, targets, start state, limits, all checked.

Every name and number of the launch file is checked here against the machine and the program; what does not fit
is one LaunchError, before anything moves.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

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
from servonode.closed_loop.launch_file import LaunchError, per_name
from servonode.closed_loop.launch_keys import AUTO, Actuator, LaunchFile
from servonode.closed_loop.machine_section import check_safe_action, initial_states, load, plant_source, possible_start
from servonode.closed_loop.preparation import prepared
from servonode.closed_loop.start_on_program import NoStart, start_on_program
from servonode.closed_loop.static_checks import Examination, examine
from servonode.closed_loop.trust import refuse_code
from servonode.controllers import ServoLaw
from servonode.controllers.engine.signals import Signals
from servonode.mechanics.description import Quantity
from servonode.mechanics.machine import Machine, ParameterError
from servonode.plants import MachineSource
from servonode.plants.drivers import DRIVERS
from servonode.plants.drivers.driver import Driver
from servonode.plants.effects import ActuatorEffects, SensorEffects
from servonode.plants.limits import Limits, SoftStart
from servonode.plants.plausible import Plausible, StateLimits
from servonode.plants.simulated import SimulatedPlant

Array = npt.NDArray[np.float64]
LATENESS = 1.0  # s (wall clock) by which a simulated plant may be late
LONGEST_ANSWER = 60.0  # s (wall clock) for a first answer, or one in lockstep, of an external plant
LONGEST_TIMEOUT = 10.0  # s (wall clock); a longer command timeout is none, and must be called unsafe
MOST_WAITING = 1_000_000  # plant steps that a drive or a sensor may be late by
BRAKE_HELD_NS = 1_000_000  # the safe action is computed anew this often, or at each step where that is longer
BRAKING = 5.0  # s of the safe action after a fault, where the machine states one


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
    limits: Limits  # what the safety filter lets through
    command_timeout: float | None  # s (wall clock); None: no controller, no command is awaited
    examination: Examination = field(default_factory=Examination)  # what was found of the loop before it moves

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
        """A fresh plant at the start state."""
        launch = self.launch
        return SimulatedPlant(
            self.machine,
            self.start,
            launch.step_ns,
            launch.plant.integrator,
            self.actuator,
            self.sensor,
            launch.run.seed,
            self.plausible(own=False),
        )

    def goal(self, t: float, own: Array | None = None) -> Array:
        """y at time t [s], see `Control.goal`; empty without a controller."""
        return self.control.goal(t, own) if self.control else np.zeros(0)

    @property
    def on_fault(self) -> str:
        """What follows a fault: "stop", "wait" or "resume"; where nodes are started again the run waits."""
        chosen = self.launch.plant.safety.on_fault
        policies = self.launch.supervision
        again = {policies.plant, policies.controller, policies.target} != {"never"}
        return chosen if chosen != AUTO else "wait" if again else "stop"

    @property
    def lateness_limit(self) -> float:
        """The plant's own lateness that is a fault [s, wall clock]."""
        stated, timeout = self.launch.plant.safety.lateness_limit, self.command_timeout
        if stated is not None:
            return stated
        return LATENESS if self.driver.simulated or timeout is None else timeout

    @property
    def unlimited(self) -> tuple[str, ...]:
        """The inputs without a finite limit, of an external plant, which must have them unless called unsafe."""
        return () if self.launch.plant.safety.unsafe else self._without_limit

    @property
    def _without_limit(self) -> tuple[str, ...]:
        """The inputs without a finite limit, of an external plant."""
        if not self.driver.outside:
            return ()
        names = self.machine.description.input_names
        return tuple(name for name, most in zip(names, self.limits.value, strict=True) if not np.isfinite(most))

    @property
    def unsafe(self) -> tuple[str, ...]:
        """What plant.safety.unsafe lets happen here, each in a few words; empty where it is not set."""
        plant, run, speed = self.launch.plant, self.launch.run, self.launch.run.speed
        safety, real = plant.safety, not self.driver.simulated
        if not safety.unsafe:
            return ()
        found = [f"no limit on {', '.join(self._without_limit)}"] if self._without_limit else []
        if self.control is not None and self.command_timeout is None:
            found.append("no command watchdog")
        elif self.command_timeout is not None and self.command_timeout > LONGEST_TIMEOUT:
            found.append(f"command timeout {self.command_timeout:g} s")
        late = {"device timeout": plant.device.timeout, "lateness limit": safety.lateness_limit}
        late["frozen time"] = safety.frozen_time / speed
        found += [f"{name} {value:g} s" for name, value in late.items() if real and (value or 0.0) > LONGEST_TIMEOUT]
        if real and run.lockstep_timeout > LONGEST_ANSWER:
            found.append(f"lockstep timeout {run.lockstep_timeout:g} s")
        if real and not safety.faults:
            found.append("the machine's own faults are off")
        return tuple(found) or ("plant.safety.unsafe is set",)

    @property
    def soft_start(self) -> SoftStart:
        """What keeps a machine from lurching after an arming; the first one of a simulation is its start state."""
        safety, period_ns = self.launch.plant.safety, self.launch.period_ns
        names = self.machine.description.input_names
        stated = per_name(self.launch.file, "plant.safety", "arming_limit", safety.arming_limit, names, np.inf)
        limits = Limits(tuple(map(min, stated, self.limits.value)), self.limits.rate, self.limits.power)
        return SoftStart(
            ramp=round(safety.ramp * 1e9 / period_ns) if period_ns else 0,
            periods=round(safety.arming_time * 1e9 / period_ns) if period_ns and limits != self.limits else 0,
            limits=limits,
            at_first=not self.driver.simulated and self.launch.run.mode == "realtime",
        )

    def plausible(self, own: bool) -> Plausible | None:
        """What judges readings; None where nothing is limited. `own`: by the machine's limits where none is stated."""
        launch, described = self.launch, self.machine.description.state
        safety = launch.plant.safety
        names = self.machine.description.state_names

        def limits(key: str, stated: Any, of_machine: list[float | None]) -> tuple[float, ...]:
            known = [most if own and most is not None else np.inf for most in of_machine]
            given = per_name(launch.file, "plant.safety", key, stated, names, np.nan)
            return tuple(most if np.isnan(more) else more for most, more in zip(known, given, strict=True))

        value = limits("state_limit", safety.state_limit, [each.limit for each in described])
        rate = limits("state_rate_limit", safety.state_rate_limit, [each.rate_limit for each in described])
        found = StateLimits(names, value, rate)
        return Plausible(found, (launch.period_ns or launch.step_ns) / 1e9) if found.any else None

    @property
    def brake_steps(self) -> int:
        """Plant steps for which one evaluation of the safe action is held."""
        return max(1, BRAKE_HELD_NS // self.launch.step_ns)

    @property
    def safe_steps(self) -> int:
        """Plant steps for which the safe action acts after a fault."""
        wanted, brakes = self.launch.plant.safety.safe_time, self.machine.description.has_safe_action
        seconds = (BRAKING if brakes else 0.0) if wanted is None else wanted
        return round(seconds * 1e9 / self.launch.step_ns)


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
    _check_watches(launch)
    source = plant_source(launch)
    launch = prepared(launch, source)
    machine = load(launch, source, "plant.parameters", launch.plant.parameters)
    _check_inputs(launch, machine)
    driver_addresses(launch, machine.description.name)
    program = program_source(launch)
    machine.steps(launch.plant.integrator)  # loaded here, once for all nodes that are forked
    start = machine.state(initial_states(launch, machine))
    control = resolve_control(launch, program, source) if program else None
    _check_unused(launch, control)
    actuator, sensor = _actuator_effects(launch, machine), _sensor_effects(launch, machine)
    closed_loop = ClosedLoop(
        launch=launch,
        source=source,
        machine=machine,
        control=control,
        start=_program_start(launch, control, start) if control else start,
        actuator=actuator,
        sensor=sensor,
        limits=_limits(launch, machine, actuator),
        command_timeout=_command_timeout(launch),
    )
    _ = closed_loop.plausible(own=False), closed_loop.soft_start  # their names are checked
    closed_loop = replace(closed_loop, start=possible_start(launch, machine, closed_loop.start))
    check_safe_action(launch, machine, closed_loop.start, np.array(closed_loop.limits.value), closed_loop.brake_steps)
    if strict and closed_loop.unlimited:
        raise LaunchError(launch.file, "plant.safety", "limit", unlimited_text(closed_loop))
    if control is None:
        return closed_loop
    found = _examined(launch, control, closed_loop.start)
    if strict and found.refusals:
        first = found.refusals[0]
        raise ProgramRefused(launch.file, "controller", None, f"{first.subject}: {first.text}")
    return replace(closed_loop, examination=found)


def _check_unused(launch: LaunchFile, control: Control | None) -> None:
    """Refuse what only a controller, or a program with residuals, would use."""
    again = {name: getattr(launch.supervision, name) for name in ("controller", "target")}
    if control is None and set(again.values()) != {"never"}:
        name = next(name for name, policy in again.items() if policy != "never")
        raise LaunchError(launch.file, "supervision", name, "there is no [controller], so no such node; leave it out")
    if launch.target and control is None:
        text = "there is no [controller] that would use it"
        raise LaunchError(launch.file, "target", next(iter(launch.target)), text)
    if _wants_program_start(launch) and not (control and control.law.n_s):
        text = "there is no program with residuals to start on; remove it"
        raise LaunchError(launch.file, "plant.initial", "on_program", text)


def _actuator_effects(launch: LaunchFile, machine: Machine) -> ActuatorEffects:
    """What the drives make of commands, by input."""
    drive, names = launch.plant.actuator, machine.description.input_names

    def by_input(key: str, default: float) -> tuple[float, ...]:
        return per_name(launch.file, "plant.actuator", key, getattr(drive, key), names, default)

    effects = ActuatorEffects(
        limit=by_input("limit", np.inf),
        rate_limit=by_input("rate_limit", np.inf),
        lag=by_input("lag", 0.0),
        delay=by_input("delay", 0.0),
        quantum=by_input("quantum", 0.0),
        dead_zone=by_input("dead_zone", 0.0),
    )
    _check_delay(launch, "plant.actuator", max(effects.delay, default=0.0))
    return effects


def _sensor_effects(launch: LaunchFile, machine: Machine) -> SensorEffects:
    """What the sensors make of the state."""
    sensor, names = launch.plant.sensor, machine.description.state_names

    def by_state(key: str) -> tuple[float, ...]:
        return per_name(launch.file, "plant.sensor", key, getattr(sensor, key), names, 0.0)

    effects = SensorEffects(
        noise=by_state("noise"),
        bias=by_state("bias"),
        quantum=by_state("quantum"),
        delay=sensor.delay,
        drop=sensor.drop,
    )
    _check_delay(launch, "plant.sensor", effects.delay)
    return effects


def _limits(launch: LaunchFile, machine: Machine, actuator: ActuatorEffects) -> Limits:
    """What the safety filter lets through: at most what the drives can."""
    safety, names = launch.plant.safety, machine.description.input_names
    allowed = per_name(launch.file, "plant.safety", "limit", safety.limit, names, np.inf)
    return Limits(
        value=tuple(map(min, allowed, actuator.limit)),
        rate=per_name(launch.file, "plant.safety", "rate_limit", safety.rate_limit, names, np.inf),
        power=np.inf if safety.power_limit is None else safety.power_limit,
    )


def unlimited_text(closed_loop: ClosedLoop) -> str:
    """Why an external plant is not armed without limits, and the remedy."""
    names = closed_loop.unlimited
    example = ", ".join(f"{name} = 0.5" for name in names)
    text = (
        f"there is none for {', '.join(names)}, and one wrong reading of an external plant may ask for any torque; give"
    )
    return f"{text} limit = {{ {example} }} with what the machine stands, or say plant.safety.unsafe = true"


def _check_delay(launch: LaunchFile, section: str, delay: float) -> None:
    """Refuse a delay [s] of more steps than are kept in memory."""
    step = launch.step_ns / 1e9
    if delay > MOST_WAITING * step:
        text = f"{delay:g} s are {delay / step:.3g} plant steps of {step:g} s, of which at most {MOST_WAITING:.0e} can "
        raise LaunchError(launch.file, section, "delay", f"{text}wait; give at most {MOST_WAITING * step:g}")


def _check_inputs(launch: LaunchFile, machine: Machine) -> None:
    """Refuse a controller, and drives, for a machine that has no inputs."""
    if machine.n_inputs:
        return
    what = f"machine {machine.description.name} has no inputs"
    if launch.controller:
        raise LaunchError(launch.file, "controller", "program", f"{what}; leave [controller] out")
    if launch.plant.actuator != Actuator():
        raise LaunchError(launch.file, "plant.actuator", None, f"{what}; leave [plant.actuator] out")


def _command_timeout(launch: LaunchFile) -> float | None:
    """W [s, wall clock]: max(3 periods, the floor) unless stated [plant s]; None without a controller, or if unsafe.

    Raises:
        LaunchError: a timeout that is none, without `unsafe`.
    """
    if launch.period_ns is None:
        return None
    safety, speed = launch.plant.safety, launch.run.speed
    stated = safety.command_timeout
    if stated is not None:
        if not (0 < stated / speed <= LONGEST_TIMEOUT or safety.unsafe):
            raise _unwatched(launch, "plant.safety", "command_timeout", stated, LONGEST_TIMEOUT * speed)
        if 0 < stated < launch.period_ns / 1e9:
            text = (
                f"{stated:g} s is shorter than a control period of {launch.period_ns / 1e9:g} s: no command could be "
            )
            raise LaunchError(launch.file, "plant.safety", "command_timeout", f"{text}in time; give more")
        return stated / speed or None
    if safety.command_timeout_floor > LONGEST_TIMEOUT and not safety.unsafe:
        raise _unwatched(launch, "plant.safety", "command_timeout_floor", safety.command_timeout_floor)
    return max(3 * launch.period_ns / 1e9 / speed, safety.command_timeout_floor)


def _check_watches(launch: LaunchFile) -> None:
    """Refuse times beyond which nobody would notice that an external plant, or the plant itself, is lost."""
    plant, speed = launch.plant, launch.run.speed
    if DRIVERS[plant.driver].simulated or plant.safety.unsafe:
        return
    watches = (
        ("plant.device", "timeout", plant.device.timeout, LONGEST_TIMEOUT),
        ("plant.safety", "lateness_limit", plant.safety.lateness_limit, LONGEST_TIMEOUT),
        ("plant.safety", "frozen_time", plant.safety.frozen_time, LONGEST_TIMEOUT * speed),
        ("run", "lockstep_timeout", launch.run.lockstep_timeout, LONGEST_ANSWER),
    )
    for section, key, value, longest in watches:
        if value is not None and value > longest:
            raise _unwatched(launch, section, key, value, longest)
    if not plant.safety.faults:
        text = "false takes the watch over tilt, fall and lost contact away from a machine; leave it out, "
        raise LaunchError(launch.file, "plant.safety", "faults", f"{text}or say so with plant.safety.unsafe = true")


def _unwatched(
    launch: LaunchFile, section: str, key: str, value: float, longest: float = LONGEST_TIMEOUT
) -> LaunchError:
    text = f"{value:g} s would leave the machine without a watch; give more than 0 and at most {longest:g} s, "
    return LaunchError(launch.file, section, key, f"{text}or say so with plant.safety.unsafe = true")


def _program_start(launch: LaunchFile, control: Control, start: Array) -> Array:
    """The start, on the program where that is wanted; the law takes the parameters that are found at it."""
    law = control.law
    law.start(0.0, start, control.goal(0.0), control.given)
    _check_parameters(launch, law, control.given)  # those that are given, before anything is computed with them
    if not _wants_program_start(launch):
        return start
    given = list(initial_states(launch, law.machine))
    try:
        for _ in range(2):  # the program's own states start where the machine does
            start = start_on_program(law, start, control.goal(0.0), given)
            law.start_own_states(0.0, start, control.goal(0.0))
    except NoStart as error:
        raise ProgramRefused(launch.file, "plant.initial", "on_program", str(error)) from error
    return start


def _examined(launch: LaunchFile, control: Control, start: Array) -> Examination:
    """Guards at the start, and the relative degrees at random states near it."""
    law, y = control.law, control.goal(0.0)
    answer = law.evaluate(0.0, start, y)
    if answer.status > 0:
        raise LaunchError(launch.file, "plant.initial", None, f"at the start {law.explain(answer)}")
    _check_parameters(launch, law, law.parameters)
    found = examine(launch, law, control.gains, start, y)
    if answer.status and not found.refusals:  # what is refused everywhere is the better reason
        rank = [each.text for each in found.findings if each.subject == "rank" and each.level != "good"]
        text = "; ".join([f"at the start {law.explain(answer)}", *rank])
        raise ProgramRefused(launch.file, "plant.initial", None, text)
    return found


def _check_parameters(launch: LaunchFile, law: ServoLaw, names: Collection[str]) -> None:
    """Check the bounds of the program's parameters of these names."""
    try:
        law.check_parameters(names)
    except ParameterError as error:
        raise LaunchError(launch.file, "controller.settings", error.name, str(error)) from error


def _wants_program_start(launch: LaunchFile) -> bool:
    wanted = launch.plant.initial.get("on_program", False)
    if not isinstance(wanted, bool):
        raise LaunchError(launch.file, "plant.initial", "on_program", f"{wanted!r} is not true or false; give one")
    return wanted
