"""The controller's half of a launch file: program, options, parameters, signals, gains, all checked."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from servonode.controllers import PROGRAMS, ProgramEntry, ServoLaw, load_law
from servonode.controllers.signals import ExpressionError, Signals, load_signals
from servonode.mechanics.description import ModelError
from servonode.mechanics.expression import parse
from servonode.mechanics.machine import Machine, ParameterError
from servonode.mechanics.stabilize import Gains
from servonode.nodes.examine import Examination, total_delay
from servonode.nodes.gains import resolve_gains, wants_integral
from servonode.nodes.launch_file import LaunchError, check_names
from servonode.nodes.launch_keys import Controller, LaunchFile
from servonode.plants import PLANTS, machine_key, model_factory

LONGEST_DELAY = 200  # control periods


@dataclass
class Control:
    """The controller's half of a run; arrays are reused by whoever computes with them."""

    law: ServoLaw
    signals: Signals
    gains: Gains
    examination: Examination


class ProgramRefused(LaunchError):
    """The program is stated well, but it cannot or must not run on this machine."""


def choices(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}choose {', '.join(sorted(known))}"


def with_parameters(launch: LaunchFile, section: str, machine: Machine, given: Mapping[str, float]) -> Machine:
    check_names(launch.file, section, given, [each.name for each in machine.description.parameters])
    try:
        return machine.with_parameters(given)
    except ParameterError as error:
        raise LaunchError(launch.file, section, error.name, str(error)) from error


def no_targets() -> Signals:
    return load_signals({}, 0)


def program_entry(launch: LaunchFile) -> ProgramEntry | None:
    """The program's entry, checked before anything is derived."""
    if launch.controller is None:
        return None
    name = launch.controller.program
    fitting = [each for each, entry in PROGRAMS.items() if entry.machine in (None, launch.plant.machine)]
    if name not in PROGRAMS:
        text = f"{name!r} is unknown; {choices(name, fitting or PROGRAMS)}"
        raise LaunchError(launch.file, "controller", "program", text)
    if name not in fitting and launch.plant.machine in PLANTS:
        text = f"{name!r} is a program of {PROGRAMS[name].machine}; {choices(name, fitting)}"
        raise LaunchError(launch.file, "controller", "program", text)
    return PROGRAMS[name]


def resolve_control(launch: LaunchFile, entry: ProgramEntry, machine: Machine) -> tuple[Control, Signals]:
    """The law with its signals and gains, and the targets, of a launch file's [controller] and [target]."""
    controller, path = launch.controller, launch.file
    assert controller is not None
    options = _options(launch, entry, controller)
    believed = with_parameters(launch, "controller.parameters", machine, controller.parameters)
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
    given = {name: value for name, value in controller.settings.items() if name not in options}
    settings = _unpacked(launch, given, parameter_names)
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
    delay = total_delay(launch)
    if delay > LONGEST_DELAY or controller.delay > LONGEST_DELAY:
        text = f"{max(delay, controller.delay):g} periods from sample to action are too many; at most {LONGEST_DELAY}"
        raise LaunchError(path, "controller", "delay", text)
    gains = resolve_gains(launch, description, delay)
    law.use(gains)
    return Control(law, signals, gains, Examination()), targets


def _unpacked(launch: LaunchFile, settings: Mapping[str, Any], parameters: Collection[str]) -> dict[str, Any]:
    """Lists as one setting an entry: point = [1, 2] becomes point_0 = 1, point_1 = 2."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        entries = [each for each in parameters if each.rpartition("_")[0] == name and each.rpartition("_")[2].isdigit()]
        if entries and (not isinstance(value, list) or len(value) != len(entries)):
            text = f"{value!r} is not a list of {len(entries)} numbers; give one, as {[0.0] * len(entries)}"
            raise LaunchError(launch.file, "controller.settings", name, text)
        flat |= dict(zip(entries, value, strict=True)) if entries else {name: value}
    return flat


def _options(launch: LaunchFile, entry: ProgramEntry, controller: Controller) -> dict[str, str]:
    options = {name: known[0] for name, known in entry.options.items()}
    implied = {setting: choice for setting, choice in entry.implied.items() if setting in controller.settings}
    for option, chosen in implied.values():
        conflict = [setting for setting, choice in implied.items() if choice[0] == option and choice[1] != chosen]
        if conflict:
            kinds = ", ".join(f"{setting} belongs to a {choice[1]}" for setting, choice in implied.items())
            raise LaunchError(launch.file, "controller.settings", conflict[0], f"{kinds}; give one kind of {option}")
        options[option] = chosen
    for name, known in entry.options.items():
        value = controller.settings.get(name, options[name])
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = f"{value:g}"
        if value not in known:
            text = f"{value!r} is unknown; {choices(str(value), known)}"
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
