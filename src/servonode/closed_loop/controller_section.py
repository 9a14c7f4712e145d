"""The controller's half of a launch file: program, options, parameters, signals, gains, all checked."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.closed_loop.gains import resolve_gains, wants_integral
from servonode.closed_loop.goals import stated_goals
from servonode.closed_loop.launch_file import LaunchError, check_names, worded
from servonode.closed_loop.launch_keys import Controller, LaunchFile
from servonode.closed_loop.live_goals import LiveGoal, live_goals
from servonode.closed_loop.machine_section import believed_source, chosen, load, with_given
from servonode.closed_loop.static_checks import total_delay
from servonode.controllers import (
    PROGRAMS,
    InlineProgram,
    ProgramSource,
    ServoLaw,
    StatedProgram,
    find_program,
    load_law,
    programs_of,
)
from servonode.controllers.engine.signals import Signals, Stated, load_signals
from servonode.controllers.inversion.feedforward import Feedforward
from servonode.controllers.inversion.summary import Inverted
from servonode.errors import did_you_mean
from servonode.mechanics.machine import Machine
from servonode.mechanics.stabilize import Gains
from servonode.plants import PLANTS, MachineSource

Array = npt.NDArray[np.float64]
MOST_RESIDUALS = 50
LONGEST_DELAY = 100  # control periods; its limits take some seconds to find


@dataclass(frozen=True)
class Control:
    """The controller's half of a run."""

    source: ProgramSource
    options: dict[str, Any]
    believed: MachineSource
    law: ServoLaw
    signals: Signals | Feedforward
    targets: Signals
    gains: Gains
    given: frozenset[str]  # the program's parameters that the launch file specifies
    live: tuple[LiveGoal, ...] = ()  # targets that come over a topic, and stand at their start in `targets`
    inversion: Inverted | None = None  # the bounded solution that it follows, where it follows one

    def goal(self, t: float, own: Array | None = None) -> Array:
        """y at time t [s] with the program's own states (absent: their initial values), the integrals zero."""
        part = self.law.goal_layout
        y = np.zeros(part.size)
        self.targets.evaluate(t, y[part.targets])
        self.signals.evaluate(t, y[part.signals])
        y[part.states] = self.law.start_states if own is None else own
        return y

    def continuous(self) -> "Control":
        """The control for a law that acts at once, without a period."""
        return replace(self, signals=self.signals.continuous()) if isinstance(self.signals, Feedforward) else self


class ProgramRefused(LaunchError):
    """The program is given well, but it cannot or must not run on this machine. `law`: its law, where it has one."""

    law: ServoLaw | None = None


@cache
def no_targets() -> Signals:
    """The targets of a run without a controller."""
    return load_signals({}, 0)


def program_source(launch: LaunchFile) -> ProgramSource | None:
    """Where the program comes from, checked before anything is derived; None without a controller.

    Raises:
        LaunchError: there is no such program, or it is for another machine.
    """
    controller = launch.controller
    if controller is None:
        return None
    if controller.program is None:
        return _inline(launch, controller)
    _check_fits(launch, controller.program)
    with worded(launch.file, "controller", "program"):
        source = StatedProgram(find_program(controller.program, launch.path.parent, launch.plant.machine))
        assert source.options is not None  # read now, so that a bad one is refused before anything is derived
    return source


def _inline(launch: LaunchFile, controller: Controller) -> InlineProgram:
    if len(controller.residuals) > MOST_RESIDUALS:
        text = f"{len(controller.residuals)} residuals are given; give as many as inputs, at most {MOST_RESIDUALS}"
        raise LaunchError(launch.file, "controller.residuals", None, text)
    for name in controller.residuals:
        if not (name.isascii() and name.isidentifier()):
            text = "is not a valid name of a residual; use ASCII letters, digits and _, beginning with a letter"
            raise LaunchError(launch.file, "controller", f"residuals.{name}", text)
    wrong = next((name for name, value in controller.settings.items() if isinstance(value, bool | list)), None)
    if wrong is not None:
        text = f"{controller.settings[wrong]!r} is neither a number nor an expression of t; give one of them"
        raise LaunchError(launch.file, "controller.settings", wrong, text)
    numbers = tuple(name for name, value in controller.settings.items() if isinstance(value, int | float))
    texts = {name: str(value) for name, value in controller.settings.items() if isinstance(value, str)}
    return InlineProgram(controller.residuals, numbers, texts, tuple(launch.target))


def _check_fits(launch: LaunchFile, name: str) -> None:
    """A packaged program must be for the packaged machine; one of the user's own is not known here."""
    fitting, machine = programs_of(launch.plant.machine), launch.plant.machine
    others = [each.machine for each in PROGRAMS if each.name == name]
    if name in fitting or not others or (machine not in PLANTS and len(others) == 1):
        return
    near = did_you_mean(name, fitting)
    of = f"{name!r} is a program of {' and of '.join(map(str, others))}"
    choices = f"choose {', '.join(sorted(fitting))}"
    if machine not in PLANTS:
        choices = f'name the one meant, as "servonode.controllers.{others[0]}_{name}:program"'
    raise LaunchError(launch.file, "controller", "program", f"{of}; {near}{choices}")


@dataclass(frozen=True)
class DerivedLaw:
    """What [controller] needs to be derived: program, options, and the law on the machine that it assumes.

    Machine and law have their default parameters.
    """

    source: ProgramSource
    options: dict[str, Any]
    believed: MachineSource
    machine: Machine
    law: ServoLaw


def derived_law(launch: LaunchFile, source: ProgramSource, plant: MachineSource, machine: Machine) -> DerivedLaw:
    """The law of [controller], derived and compiled, or from the cache; `machine` is the plant's.

    Raises:
        LaunchError: something in the section does not fit; ProgramRefused: the program cannot be derived.
    """
    controller = launch.controller
    assert controller is not None
    options = _options(launch, source, controller)
    believed = believed_source(launch, plant)
    machine = machine if believed.changes == plant.changes else load(launch, believed)
    _believed(launch, believed, machine)  # refused before anything is derived
    return DerivedLaw(source, options, believed, machine, _law(launch, source, options, believed, machine))


def _believed(launch: LaunchFile, source: MachineSource, machine: Machine) -> Machine:
    """The machine with the parameters that the law assumes."""
    assert launch.controller is not None
    parameters = launch.plant.parameters | launch.controller.parameters
    return with_given(launch, source, machine, "controller.parameters", parameters)


def resolve_control(launch: LaunchFile, derived: DerivedLaw) -> Control:
    """The law with its parameters, signals, targets and gains, of a launch file's [controller] and [target].

    Raises:
        LaunchError: something in these sections does not fit.
    """
    controller, path = launch.controller, launch.file
    assert controller is not None
    options, source = derived.options, derived.source
    machine = _believed(launch, derived.believed, derived.machine)
    machine.steps(launch.plant.integrator)
    law = derived.law.on(machine)
    description = law.description
    parameter_names = [each.name for each in description.parameters]
    signal_names = [each.name for each in description.signals]
    stated = {name: value for name, value in controller.settings.items() if name not in options}
    settings = _unpacked(launch, stated, parameter_names)
    check_names(path, "controller.settings", settings, [*source.options, *parameter_names, *signal_names])
    for name in description.required:
        if name not in settings:
            quantity = next(each for each in description.parameters if each.name == name)
            text = (
                f"is missing: program {description.name} needs it ({quantity.description}); give it [{quantity.unit}]"
            )
            raise LaunchError(path, "controller.settings", name, text)
    law = law.with_parameters(_numbers(launch, {n: settings[n] for n in parameter_names if n in settings}))
    defaults = dict(zip(signal_names, description.signal_defaults, strict=True))
    texts = {name: _text(launch, "controller.settings", name, settings.get(name, defaults[name])) for name in defaults}
    signals = _signals(launch, "controller.settings", texts, description.signal_order)
    targets = _signals(launch, "target", stated_goals(launch, description), description.target_order)
    delay = total_delay(launch)
    if description.states and controller.predictor:
        text = (
            f"program {description.name} has states of its own, which the predictor does not compute; set it to false"
        )
        raise LaunchError(path, "controller", "predictor", text)
    if delay > LONGEST_DELAY or controller.delay > LONGEST_DELAY:
        text = (
            f"{max(delay, controller.delay):g} periods from sample to action are too many; give at most {LONGEST_DELAY}"
        )
        raise LaunchError(path, "controller", "delay", text)
    gains = resolve_gains(launch, description, delay)
    law.use(gains)
    given = frozenset(settings) & frozenset(parameter_names)
    live = live_goals(launch, description)
    return Control(source, options, derived.believed, law, signals, targets, gains, given, live)


def _law(
    launch: LaunchFile, source: ProgramSource, options: dict[str, Any], believed: MachineSource, machine: Machine
) -> ServoLaw:
    controller = launch.controller
    assert controller is not None
    with worded(launch.file, "controller", "residuals" if controller.residuals else "program", ProgramRefused):
        return load_law(
            source, machine, believed.key, believed.build, options, {}, controller.damping, wants_integral(launch)
        )


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


def _options(launch: LaunchFile, source: ProgramSource, controller: Controller) -> dict[str, Any]:
    """The options of the program; some settings choose one, as `radius` chooses path = "circle"."""
    packaged = isinstance(source, StatedProgram) and source.definition.reference == source.name
    entry = programs_of(launch.plant.machine).get(source.name) if packaged else None
    implied = {each: choice for each, choice in entry.implied.items() if each in controller.settings} if entry else {}
    for option, wanted in implied.values():
        conflict = [setting for setting, choice in implied.items() if choice[0] == option and choice[1] != wanted]
        if conflict:
            kinds = ", ".join(f"{setting} belongs to a {choice[1]}" for setting, choice in implied.items())
            raise LaunchError(launch.file, "controller.settings", conflict[0], f"{kinds}; give one kind of {option}")
    return chosen(launch, "controller.settings", source.options, dict(implied.values()) | controller.settings)


def _numbers(launch: LaunchFile, given: Mapping[str, Any]) -> dict[str, float]:
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise LaunchError(launch.file, "controller.settings", name, f"{value!r} is not a number; give one")
    return {name: float(value) for name, value in given.items()}


def _text(launch: LaunchFile, section: str, name: str, value: Any) -> str | float:
    if isinstance(value, (bool, list)):
        raise LaunchError(launch.file, section, name, f"{value!r} is not an expression; give a number or a text of t")
    result: str | float = value
    return result


def _signals(launch: LaunchFile, section: str, stated: Mapping[str, Stated], order: int) -> Signals:
    with worded(launch.file, section):
        return load_signals(stated, order)
