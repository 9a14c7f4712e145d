"""From a launch file to everything a run needs: machine, law, targets, start state, limits, all checked.

Every name and number of the launch file is checked here against the machine and the program; what does not fit
is one LaunchError, before anything moves.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.controllers import PROGRAMS, ProgramEntry, ServoLaw, load_law
from servonode.controllers.signals import ExpressionError, Signals, load_signals
from servonode.mechanics.description import ModelError
from servonode.mechanics.expression import parse
from servonode.mechanics.machine import Machine, ParameterError
from servonode.mechanics.stabilize import Gains
from servonode.nodes.examine import Examination, examine, total_delay
from servonode.nodes.gains import resolve_gains, wants_integral
from servonode.nodes.launch_file import LaunchError, check_names, per_name
from servonode.nodes.launch_keys import Controller, LaunchFile
from servonode.nodes.start import NoStart, start_on_program
from servonode.plants import PLANTS, load_machine, machine_key, model_factory
from servonode.plants.effects import ActuatorEffects, SensorEffects
from servonode.plants.simulated import SimulatedPlant

Array = npt.NDArray[np.float64]


@dataclass
class Control:
    """The controller's half of a run; arrays are reused by whoever computes with them."""

    law: ServoLaw
    signals: Signals
    gains: Gains
    examination: Examination


@dataclass(frozen=True)
class Assembly:
    """A launch file resolved: ready to simulate or to run."""

    launch: LaunchFile
    machine: Machine
    control: Control | None
    targets: Signals
    start: Array  # kernel state at t = 0
    actuator: ActuatorEffects
    sensor: SensorEffects
    limits: Array  # what the safety filter lets through, per input
    command_timeout: float | None  # wall s; None: no controller, no command is awaited

    @property
    def n_y(self) -> int:
        return self.control.law.n_y if self.control else 0

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
        )

    def goal(self, t: float) -> Array:
        """y at time t: the targets, then the program's own signals, each with its derivatives."""
        y = np.zeros(self.n_y)
        if self.control:
            self.targets.evaluate(t, y[: self.n_targets])
            self.control.signals.evaluate(t, y[self.n_targets :])
        return y

    @property
    def n_targets(self) -> int:
        return len(self.targets.names) * (self.targets.order + 1)


class ProgramRefused(LaunchError):
    """The program is stated well, but it cannot or must not run on this machine."""


def assemble(launch: LaunchFile, strict: bool = True) -> Assembly:
    """Resolve a launch file: load or build the kernels, check every name and number, examine the closed loop.

    With `strict` a refusal of the examination is raised; without, it is only kept in `control.examination`.

    Raises:
        LaunchError: something in the launch file does not fit; ProgramRefused: the examination's verdict is no.
        CacheError: the kernel cache is damaged or cannot be written.
    """
    path, plant = launch.file, launch.plant
    entry = _program_entry(launch)
    machine = _machine(launch)
    state_names, input_names = machine.description.state_names, machine.description.input_names
    check_names(path, "plant.initial", plant.initial, [*state_names, "on_program"])
    start = machine.state(_numbers(launch, plant.initial))
    control, targets = _control(launch, entry, machine) if launch.controller and entry else (None, _no_targets())
    if launch.target and control is None:
        raise LaunchError(path, "target", next(iter(launch.target)), "there is no [controller] that would use it")

    def per_input(section: str, key: str, value: Any, default: float) -> tuple[float, ...]:
        return per_name(path, section, key, value, input_names, default)

    drive = plant.actuator
    actuator = ActuatorEffects(
        limit=per_input("plant.actuator", "limit", drive.limit, np.inf),
        rate_limit=per_input("plant.actuator", "rate_limit", drive.rate_limit, np.inf),
        lag=per_input("plant.actuator", "lag", drive.lag, 0.0),
        delay=per_input("plant.actuator", "delay", drive.delay, 0.0),
        quantum=per_input("plant.actuator", "quantum", drive.quantum, 0.0),
        dead_zone=per_input("plant.actuator", "dead_zone", drive.dead_zone, 0.0),
    )
    sensor = SensorEffects(
        noise=per_name(path, "plant.sensor", "noise", plant.sensor.noise, state_names, 0.0),
        bias=per_name(path, "plant.sensor", "bias", plant.sensor.bias, state_names, 0.0),
        quantum=per_name(path, "plant.sensor", "quantum", plant.sensor.quantum, state_names, 0.0),
        delay=plant.sensor.delay,
        drop=plant.sensor.drop,
    )
    allowed = per_input("plant.safety", "limit", plant.safety.limit, np.inf)
    assembly = Assembly(
        launch=launch,
        machine=machine,
        control=control,
        targets=targets,
        start=start,
        actuator=actuator,
        sensor=sensor,
        limits=np.minimum(allowed, actuator.limit),
        command_timeout=_command_timeout(launch),
    )
    if control:
        _check_start(assembly, control)
        if strict and control.examination.refusals:
            first = control.examination.refusals[0]
            raise ProgramRefused(path, "controller", None, f"{first.subject}: {first.text}")
    return assembly


def _choices(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}choose {', '.join(sorted(known))}"


def _machine(launch: LaunchFile) -> Machine:
    plant, path = launch.plant, launch.file
    if plant.machine not in PLANTS:
        raise LaunchError(path, "plant", "machine", f"{plant.machine!r} is unknown; {_choices(plant.machine, PLANTS)}")
    if plant.settings:
        name = next(iter(plant.settings))
        raise LaunchError(path, "plant.settings", name, f"machine {plant.machine} has no settings; remove it")
    machine = load_machine(plant.machine, {}, {})
    return _with_parameters(launch, "plant.parameters", machine, plant.parameters)


def _with_parameters(launch: LaunchFile, section: str, machine: Machine, given: Mapping[str, float]) -> Machine:
    check_names(launch.file, section, given, [each.name for each in machine.description.parameters])
    try:
        return machine.with_parameters(given)
    except ParameterError as error:
        raise LaunchError(launch.file, section, error.name, str(error)) from error


def _numbers(launch: LaunchFile, initial: Mapping[str, Any]) -> dict[str, float]:
    numbers = {name: value for name, value in initial.items() if name != "on_program"}
    for name, value in numbers.items():
        if isinstance(value, (bool, list)):
            raise LaunchError(launch.file, "plant.initial", name, f"{value!r} is not a number; give one")
    return numbers


def _no_targets() -> Signals:
    return load_signals({}, 0)


def _program_entry(launch: LaunchFile) -> ProgramEntry | None:
    """The program's entry, checked before anything is derived."""
    if launch.controller is None:
        return None
    name = launch.controller.program
    fitting = [each for each, entry in PROGRAMS.items() if entry.machine in (None, launch.plant.machine)]
    if name not in PROGRAMS:
        text = f"{name!r} is unknown; {_choices(name, fitting or PROGRAMS)}"
        raise LaunchError(launch.file, "controller", "program", text)
    if name not in fitting and launch.plant.machine in PLANTS:
        text = f"{name!r} is a program of {PROGRAMS[name].machine}; {_choices(name, fitting)}"
        raise LaunchError(launch.file, "controller", "program", text)
    return PROGRAMS[name]


def _control(launch: LaunchFile, entry: ProgramEntry, machine: Machine) -> tuple[Control, Signals]:
    controller, path = launch.controller, launch.file
    assert controller is not None
    options = _options(launch, entry, controller)
    believed = _with_parameters(launch, "controller.parameters", machine, controller.parameters)
    key = machine_key(launch.plant.machine, {})
    build: Callable[[], Any] = lambda: model_factory(launch.plant.machine)()  # noqa: E731
    integral = wants_integral(launch)
    try:
        law = load_law(controller.program, believed, key, build, options, {}, controller.damping, integral)
    except ModelError as error:
        raise ProgramRefused(path, "controller", "program", str(error)) from error
    description = law.description
    parameter_names = [each.name for each in description.parameters]
    signal_names = [each.name for each in description.signals]
    settings = _unpacked({name: value for name, value in controller.settings.items() if name not in options})
    check_names(path, "controller.settings", settings, [*entry.options, *parameter_names, *signal_names])
    law.parameters |= _program_parameters(launch, {n: settings[n] for n in parameter_names if n in settings})
    defaults = dict(zip(signal_names, description.signal_defaults, strict=True))
    texts = {name: _text(launch, "controller.settings", name, settings.get(name, defaults[name])) for name in defaults}
    signals = _signals(launch, "controller.settings", texts, description.signal_order)
    check_names(path, "target", launch.target, description.targets)
    for name in description.targets:
        if name not in launch.target:
            text = f'is missing: program {description.name} needs it; give an expression of t, for example "0.3*t"'
            raise LaunchError(path, "target", name, text)
    ordered = {name: launch.target[name] for name in description.targets}
    targets = _signals(launch, "target", ordered, description.target_order)
    gains = resolve_gains(launch, description, total_delay(launch))
    law.use(gains)
    return Control(law, signals, gains, Examination()), targets


def _unpacked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Lists as one setting an entry: point = [1, 2] becomes point_0 = 1, point_1 = 2."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= {f"{name}_{i}": each for i, each in enumerate(value)} if isinstance(value, list) else {name: value}
    return flat


def _options(launch: LaunchFile, entry: ProgramEntry, controller: Controller) -> dict[str, str]:
    options = {name: choices[0] for name, choices in entry.options.items()}
    options |= dict(choice for setting, choice in entry.implied.items() if setting in controller.settings)
    for name, choices in entry.options.items():
        value = controller.settings.get(name, options[name])
        if value not in choices:
            text = f"{value!r} is unknown; {_choices(str(value), choices)}"
            raise LaunchError(launch.file, "controller.settings", name, text)
        options[name] = str(value)
    return options


def _program_parameters(launch: LaunchFile, given: Mapping[str, Any]) -> dict[str, float]:
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise LaunchError(launch.file, "controller.settings", name, f"{value!r} is not a number; give one")
    return {name: float(value) for name, value in given.items()}


def _text(launch: LaunchFile, section: str, name: str, value: Any) -> str | float:
    if isinstance(value, (bool, list)):
        raise LaunchError(launch.file, section, name, f"{value!r} is no expression; give a number or a text of t")
    result: str | float = value
    return result


def _signals(launch: LaunchFile, section: str, texts: Mapping[str, str | float], order: int) -> Signals:
    for name, text in texts.items():
        try:
            parse(text).require_derivatives(order, name)
        except ExpressionError as error:
            raise LaunchError(launch.file, section, name, str(error)) from error
    return load_signals(texts, order)


def _command_timeout(launch: LaunchFile) -> float | None:
    """W [wall s]: max(3 periods, the floor) unless stated [plant s]; None without a controller."""
    if launch.period_ns is None:
        return None
    safety = launch.plant.safety
    if safety.command_timeout is not None:
        return safety.command_timeout / launch.run.speed
    return max(3 * launch.period_ns / 1e9 / launch.run.speed, safety.command_timeout_floor)


def _check_start(assembly: Assembly, control: Control) -> None:
    """Parameters that are found at the start, guards at the start, and the degrees at random states."""
    launch, law = assembly.launch, control.law
    assert launch.controller is not None
    y = assembly.goal(0.0)
    if _wants_program_start(launch):
        given = [name for name in launch.plant.initial if name != "on_program"]
        try:
            assembly.start[:] = start_on_program(law, assembly.start, y, given)
        except NoStart as error:
            raise LaunchError(launch.file, "plant.initial", "on_program", str(error)) from error
    law.start(0.0, assembly.start, y, launch.controller.settings)
    status = law.compute(0.0, assembly.start, y)
    if status > 0:
        raise LaunchError(launch.file, "plant.initial", None, f"at the start {law.explain(status)}")
    try:
        law.check_parameters()
    except ParameterError as error:
        raise LaunchError(launch.file, "controller.settings", error.name, str(error)) from error
    control.examination = examine(launch, law, control.gains, assembly.start, y)
    if status:
        rank = [each.text for each in control.examination.findings if each.subject == "rank" and each.level != "good"]
        text = "; ".join([f"at the start {law.explain(status)}", *rank])
        raise ProgramRefused(launch.file, "plant.initial", None, text)


def _wants_program_start(launch: LaunchFile) -> bool:
    wanted = launch.plant.initial.get("on_program", False)
    if not isinstance(wanted, bool):
        raise LaunchError(launch.file, "plant.initial", "on_program", f"{wanted!r} is not true or false; give one")
    return wanted
