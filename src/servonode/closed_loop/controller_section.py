"""The controller's half of a launch file: program, options, parameters, signals, gains."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.gains import resolve_gains, wants_integral
from servonode.closed_loop.goals import LiveGoal, Target, live_goals, stated_goals
from servonode.closed_loop.hosts import network_delay
from servonode.closed_loop.keeping import keeping_of
from servonode.closed_loop.key_table import key_of
from servonode.closed_loop.launch_error import KeyRefused, ProgramUnfit, check_names, stated_in
from servonode.closed_loop.launch_keys import Controller, FrameGoal, LaunchFile, Plant, Times
from servonode.closed_loop.machine_section import believed_source, chosen, load, with_given
from servonode.closed_loop.parts import MachineParts, cached_property
from servonode.closed_loop.start_on_program import law_at_start, wants_program_start
from servonode.controllers import (
    PROGRAMS,
    InlineProgram,
    ProgramSource,
    ServoLaw,
    StatedProgram,
    find_program,
    load_law,
    modules_of,
    programs_of,
)
from servonode.controllers.engine.inline_program import POSTURE_RATE
from servonode.controllers.engine.keeping import Keeping
from servonode.controllers.engine.signals import Signals, load_signals
from servonode.controllers.inversion.feedforward import Feedforward
from servonode.controllers.inversion.summary import Inverted
from servonode.controllers.own.law import OwnKernel, OwnLaw
from servonode.controllers.own.source import OwnController
from servonode.errors import did_you_mean
from servonode.mechanics.description import MOST_DERIVATIVES, ProgramDescription, derivative_name
from servonode.mechanics.machine import Machine
from servonode.mechanics.stabilize import Gains
from servonode.plants import PLANTS, MachineSource

SETTINGS, WEIGHTS = "controller.settings", "controller.weights"
MOST_RESIDUALS = 50
LONGEST_DELAY = 100  # control periods; its limits take some seconds to find


@dataclass(frozen=True)
class Control:
    """The controller's half of a run."""

    stated: Controller
    times: Times
    delay: float  # control periods from a sample to its action: of command, network, drives and sensors
    source: ProgramSource
    options: dict[str, Any]
    believed: MachineSource
    law: ServoLaw
    signals: Signals | Feedforward
    targets: Signals
    gains: Gains
    live: tuple[LiveGoal, ...] = ()  # targets that come from outside, and stand at their start in `targets`
    inversion: Inverted | None = None  # the bounded solution that it follows, where it follows one
    network_delay: float = 0.0  # the network's part of `delay`, which no simulation has

    def goal(self, t: float, own: Array | None = None) -> Array:
        """y at time t [s] with the program's own states (absent: their initial values), the integrals zero."""
        return _goal(self.law, self.targets, self.signals, t, own)

    def goals(self, t: Array, own: Array) -> Array:
        """y at each of the times (n,) [s] with the program's own states (n, own); of live targets NaN."""
        part = self.law.goal_layout
        table = np.zeros((len(t), part.size))
        table[:, part.targets], table[:, part.signals] = self.targets.table(t), self.signals.table(t)
        order = self.targets.order + 1
        for each in self.live:
            first = part.targets.start + order * self.targets.names.index(each.name)
            table[:, first : first + order] = np.nan
        table[:, part.states] = own
        return table

    def continuous(self) -> "Control":
        """The control for a law that acts at once, without a period."""
        return replace(self, signals=self.signals.continuous()) if isinstance(self.signals, Feedforward) else self


def _goal(law: ServoLaw, targets: Signals, signals: Signals | Feedforward, t: float, own: Array | None = None) -> Array:
    part = law.goal_layout
    y = np.zeros(part.size)
    targets.evaluate(t, y[part.targets])
    signals.evaluate(t, y[part.signals])
    y[part.states] = law.initial_states if own is None else own
    return y


@cache
def no_targets() -> Signals:
    """The targets of a run without a controller."""
    return load_signals({}, 0)


def program_source(controller: Controller, target: Target, machine: str, folder: Path) -> ProgramSource:
    """Where the program for a machine comes from, of a launch file in a folder; checked before anything is derived.

    Raises:
        KeyRefused: there is no such program, or it is for another machine.
    """
    if controller.program is None:
        return _inline(controller, target)
    _check_fits(controller.program, machine)
    with stated_in("controller", "program"):
        definition = find_program(controller.program, folder, machine)
        source = OwnController(definition) if definition.takes_plant else StatedProgram(definition)
        assert source.options is not None  # read now, so that a bad one is refused before anything is derived
    return source


def _inline(controller: Controller, target: Target) -> InlineProgram:
    if len(controller.residuals) > MOST_RESIDUALS:
        text = f"{len(controller.residuals)} residuals are given; give as many as inputs, at most {MOST_RESIDUALS}"
        raise KeyRefused("controller.residuals", None, text)
    for name in controller.residuals:
        if not (name.isascii() and name.isidentifier()):
            text = "is not a valid name of a residual; use ASCII letters, digits and _, beginning with a letter"
            raise KeyRefused("controller", f"residuals.{name}", text)
    wrong = next((name for name, value in controller.settings.items() if isinstance(value, bool | list)), None)
    if wrong is not None:
        text = f"{controller.settings[wrong]!r} is neither a number nor an expression of t; give one of them"
        raise KeyRefused(SETTINGS, wrong, text)
    numbers = tuple(name for name, value in controller.settings.items() if isinstance(value, int | float))
    texts = {name: str(value) for name, value in controller.settings.items() if isinstance(value, str)}
    goals = {frame: _given(goal) for frame, goal in controller.goal.items()}
    joints = None if controller.posture is None else controller.posture.joints
    if controller.posture and controller.weights:
        text = "there are both weights and a posture, which choose among the inputs in two ways; give one of them"
        raise KeyRefused("controller", "posture", text)
    return InlineProgram(
        controller.residuals, numbers, texts, tuple(target), bool(controller.weights), goals, joints
    )  # fmt: skip


def unused_keys(controller: Controller | None, target: Target) -> list[str]:
    """The keys of settings and targets that no residual, goal or posture stated in the launch file contains."""
    if controller is None or controller.program is not None:
        return []
    stated: list[Any] = [each.expression for each in controller.keeps.values()]
    stated += [controller.residuals, [_given(goal) for goal in controller.goal.values()]]
    stated += [] if controller.posture is None else [controller.posture.joints]
    words = {word for text in _stated_texts(stated) for word in re.findall(r"[A-Za-z_]\w*", text)}
    orders = range(MOST_DERIVATIVES + 1)
    keys = {name: f"{SETTINGS}.{name}" for name in controller.settings} | {name: f"target.{name}" for name in target}
    return [key for name, key in keys.items() if not words & {derivative_name(name, n) for n in orders}]


def _stated_texts(value: Any) -> Iterator[str]:
    """The texts in nested mappings and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _stated_texts(each)


def _given(goal: FrameGoal) -> dict[str, Any]:
    """The keys of a frame's goal that are given."""
    stated = ((name, getattr(goal, name)) for name in goal.__struct_fields__)
    return {name: value for name, value in stated if value is not None}


def _check_fits(name: str, machine: str) -> None:
    """A packaged program must be for the packaged machine; one of the user's own is not known here."""
    fitting = programs_of(machine)
    others = [each.machine for each in PROGRAMS if each.name == name]
    if name in fitting or not others or (machine not in PLANTS and len(modules_of(name)) == 1):
        return
    near = did_you_mean(name, fitting)
    of = f"{name!r} is a program of {' and of '.join(map(str, others))}"
    choices = f"choose {', '.join(sorted(fitting))}"
    if machine not in PLANTS:
        choices = f'name the one meant, as "servonode.controllers.{others[0]}_{name}:program"'
    raise KeyRefused("controller", "program", f"{of}; {near}{choices}")


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


class ControlParts(MachineParts):
    """The machine of a launch file with its control, of [controller] and [target]."""

    DERIVED = (*MachineParts.DERIVED, "derived_law")

    @cached_property
    def derived_law(self) -> DerivedLaw | None:
        """The law, derived and compiled, or from the cache; None without [controller].

        Raises:
            KeyRefused: something in the section does not fit; ProgramUnfit: the program cannot be derived.
        """
        controller, plant, target = self.launch.controller, self.launch.plant, self.launch.target
        if controller is None:
            return None
        source = program_source(controller, target, str(plant.machine), self.launch.path.parent)
        options = _options(controller, str(plant.machine), source)
        believed = believed_source(controller, self.source)
        machine = self.loaded if believed.changes == self.source.changes else load(believed)
        self._believed_machine(believed, machine)  # refused before anything is derived
        if isinstance(source, OwnController):
            description = source.description(tuple(target), {})
            own = OwnLaw(description, OwnKernel(source, options), machine, {})
            _check_own(controller, plant.initial)
            return DerivedLaw(source, options, believed, machine, own)
        keeping = keeping_of(controller, machine)
        stated = "program" if controller.program else "residuals" if controller.residuals else "goal"
        with stated_in("controller", stated, ProgramUnfit):
            integral, weighted = wants_integral(controller.gains), bool(controller.weights)
            law = load_law(
                source, machine, believed.key, believed.build, options, {}, controller.damping, integral, weighted,
                Keeping() if controller.inversion else keeping,  # of the law that acts
            )  # fmt: skip
        _check_weights(controller.weights, law)
        return DerivedLaw(source, options, believed, machine, law)

    def _believed_machine(self, source: MachineSource, machine: Machine) -> Machine:
        """The machine with the parameters that the law assumes."""
        controller, launch = self.launch.controller, self.launch
        assert controller is not None
        parameters, duration = launch.plant.parameters, launch.times.duration
        return self.kept.of(_with_believed, source, machine, controller.parameters, parameters, duration)

    @cached_property
    def started(self) -> tuple[Control | None, Array]:
        """The control as it begins at the initial state, and that state, moved onto the program where it is wanted.

        Raises:
            KeyRefused: something in its sections does not fit; ProgramUnfit: there is no state on the program.
        """
        launch, derived, kept = self.launch, self.derived_law, self.kept
        controller, plant, times, target = launch.controller, launch.plant, launch.times, launch.target
        if controller is None or derived is None:
            return None, self.stated_start
        machine = self._believed_machine(derived.believed, derived.machine)
        machine.steps(plant.integrator)  # loaded here, once for all nodes that are forked
        description, speed = derived.law.description, launch.goal_speed
        of_posture = {} if controller.posture is None else {POSTURE_RATE: controller.posture.rate}
        settings = kept.of(_settings, controller.settings | of_posture, derived)
        law = kept.of(_with_numbers, derived.law, machine, settings, controller.weights)
        signals = kept.of(_signals, settings, description).at_speed(speed)
        targets = kept.of(_targets, target, description).at_speed(speed)
        network = network_delay(launch)
        delay = _checked_delay(controller, plant, network, times.period, description)
        gains = kept.of(resolve_gains, controller.gains, description, times.period, delay)
        live = kept.of(live_goals, target, description, times.period, launch.run.mode)
        law = kept.of(_using, law, gains)
        law, start = kept.of(_started, law, targets, signals, settings, plant.initial, self.stated_start)
        control = Control(
            controller, times, delay, derived.source, derived.options, derived.believed, law, signals, targets, gains,
            live, network_delay=network,
        )  # fmt: skip
        return control, start

    def check_derived(self, launch: LaunchFile, key: str) -> None:
        """Raise KeyRefused where a key of this changed launch file is part of what is derived."""
        section, _, name = key.rpartition(".")
        instead = "load the launch file with it (--set, or servonode.load(FILE, KEY=...))"
        if (known := key_of(key)) and known.derived:
            table, inner = (known.table, ".".join(known.names)) if known.names else (section, name)
            raise KeyRefused(table, inner, f"is {known.derived}, which is derived; {instead}")
        functions = self.source.changes.varying
        if section == "plant.parameters" and (name in functions or isinstance(launch.plant.parameters[name], str)):
            text = "this change needs a new derivation of the machine; replace a number by a number, or load the "
            raise KeyRefused(section, name, f"{text}launch file with it")
        law, controller = self.derived_law, launch.controller
        if law is None or controller is None:
            return
        if section == "controller.parameters" and name in law.believed.changes.varying:
            raise KeyRefused(section, name, f"is a function of t in the law's equations, which is derived; {instead}")
        if section == "controller.settings" and name in law.options:
            raise KeyRefused(section, name, f"is an option of the program, which is derived; {instead}")
        if controller.weights and not law.law.description.weighted:
            raise KeyRefused("controller.weights", name, f"weights are part of the law's equations; {instead}")
        if wants_integral(controller.gains) and not law.law.description.integral:
            text = f"integral action is part of the law's equations, which are derived; {instead}"
            raise KeyRefused("controller.gains", name, text)


def _check_own(controller: Controller, initial: Mapping[str, Any]) -> None:
    """Refuse what only a law that servonode derives can have.

    Raises:
        KeyRefused: something of it is stated.
    """
    name = f"{controller.program} is a controller in Python"
    instead = "give what it needs as arguments with defaults of its class or function, which [controller.settings] sets"
    if controller.gains:
        raise KeyRefused("controller.gains", next(iter(controller.gains)), f"{name}: it has no gains here; {instead}")
    if controller.damping:
        text = f"{name}, which solves no equations for its inputs here; leave it out"
        raise KeyRefused("controller", "damping", text)
    for key in ("limits", "conflict", "keep", "priority"):
        if (stated := getattr(controller, key)) not in ("clip", "yield", {}):
            entry = f"{key}.{next(iter(stated))}" if isinstance(stated, dict) else key
            text = f"{name}: what it gives is the input, which nothing is kept by; leave it out, or keep it there"
            raise KeyRefused("controller", entry, text)
    if controller.inversion is not None:
        text = f"{name}, and the bounded solution is that of a program's residuals; leave the section out"
        raise KeyRefused("controller.inversion", None, text)
    if wants_program_start(initial):
        text = f"{name}, whose residuals are only watched; give the initial state in numbers"
        raise KeyRefused("plant.initial", "on_program", text)


def _check_weights(weights: Mapping[str, float], law: ServoLaw) -> None:
    """Refuse weights of what is no input, that are not above 0, or that choose nothing."""
    check_names(WEIGHTS, weights, law.machine.description.input_names)
    for name, value in weights.items():
        if not 0 < value < np.inf:
            raise KeyRefused(WEIGHTS, name, f"{value:g} is not a weight; give a number above 0")
    if weights and not law.description.weighted:
        text = f"program {law.description.name} leaves no choice among the inputs that a weight could make; leave it "
        raise KeyRefused(WEIGHTS, next(iter(weights)), f"{text}out, or complete the program by least_norm=True")


def _with_believed(
    source: MachineSource,
    machine: Machine,
    own: Mapping[str, float],
    of_plant: Mapping[str, float | str],
    duration: float,
) -> Machine:
    """The machine with the parameters that the law assumes, for a run of this duration [s]."""
    return with_given(source, machine, "controller.parameters", {**of_plant, **own}, duration)


def _with_numbers(
    law: ServoLaw, machine: Machine, settings: Mapping[str, Any], weights: Mapping[str, float]
) -> ServoLaw:
    """The law on its believed machine, with the settings that are its parameters, and with the inputs' weights."""
    names = [each.name for each in law.description.parameters]
    _check_weights(weights, law)
    law = law.on(machine, _numbers(settings, names))
    return law.weighing(weights) if weights else law


def _using(law: ServoLaw, gains: Gains) -> ServoLaw:
    """The law with these gains."""
    law = law.with_parameters({})
    law.use(gains)
    return law


def _started(
    law: ServoLaw, targets: Signals, signals: Signals, settings: Mapping[str, Any], initial: Mapping[str, Any], x: Array
) -> tuple[ServoLaw, Array]:
    """The law as it starts at an initial state, and that state, on the program if wanted."""
    return law_at_start(law, lambda law: _goal(law, targets, signals, 0.0), frozenset(settings), initial, x)


def _settings(given: Mapping[str, Any], derived: DerivedLaw) -> dict[str, Any]:
    """The settings that are not options, lists entry by entry; all that the program needs, and none that it has not."""
    description = derived.law.description
    names = [each.name for each in description.parameters]
    stated = {name: value for name, value in given.items() if name not in derived.options}
    settings = _unpacked(stated, names)
    check_names(SETTINGS, settings, [*derived.source.options, *names, *(each.name for each in description.signals)])
    for name in description.required:
        if name not in settings:
            quantity = next(each for each in description.parameters if each.name == name)
            text = f"is missing: program {description.name} needs it ({quantity.description}); give it "
            raise KeyRefused(SETTINGS, name, f"{text}[{quantity.unit}]")
    return settings


def _checked_delay(
    controller: Controller, plant: Plant, network: float, period: float, program: ProgramDescription
) -> float:
    """The control periods from a sample to its action: those of command, network, drives and sensors."""
    drive = plant.actuator.delay
    slowest = max(drive.values(), default=0.0) if isinstance(drive, dict) else (drive or 0.0)
    commanded = 0 if controller.predictor else controller.delay
    delay = commanded + network + (slowest + plant.sensor.delay) / period
    if program.states and controller.predictor:
        text = f"program {program.name} has states of its own, which the predictor does not compute; set it to false"
        raise KeyRefused("controller", "predictor", text)
    if network > LONGEST_DELAY:
        text = f"{network + controller.delay:g} control periods from a state to its command are too many; give at most "
        raise KeyRefused("hosts", "delay", f"{text}{LONGEST_DELAY} of them")
    if delay > LONGEST_DELAY or controller.delay > LONGEST_DELAY:
        text = f"{max(delay, controller.delay):g} periods from sample to action are too many; give at most "
        raise KeyRefused("controller", "delay", f"{text}{LONGEST_DELAY}")
    return delay


def _unpacked(settings: Mapping[str, Any], parameters: Collection[str]) -> dict[str, Any]:
    """Lists as one setting an entry: point = [1, 2] becomes point_0 = 1, point_1 = 2."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        entries = [each for each in parameters if each.rpartition("_")[0] == name and each.rpartition("_")[2].isdigit()]
        if entries and (not isinstance(value, list) or len(value) != len(entries)):
            text = f"{value!r} is not a list of {len(entries)} numbers; give one, as {[0.0] * len(entries)}"
            raise KeyRefused(SETTINGS, name, text)
        flat |= dict(zip(entries, value, strict=True)) if entries else {name: value}
    return flat


def _options(controller: Controller, machine: str, source: ProgramSource) -> dict[str, Any]:
    """The options of the program; some settings choose one, as `radius` chooses path = "circle"."""
    packaged = isinstance(source, StatedProgram) and source.definition.reference == source.name
    entry = programs_of(machine).get(source.name) if packaged else None
    implied = {each: choice for each, choice in entry.implied.items() if each in controller.settings} if entry else {}
    for option, wanted in implied.values():
        conflict = [setting for setting, choice in implied.items() if choice[0] == option and choice[1] != wanted]
        if conflict:
            kinds = ", ".join(f"{setting} belongs to a {choice[1]}" for setting, choice in implied.items())
            raise KeyRefused(SETTINGS, conflict[0], f"{kinds}; give one kind of {option}")
    return chosen(SETTINGS, source.options, dict(implied.values()) | controller.settings)


def _numbers(settings: Mapping[str, Any], names: Collection[str]) -> dict[str, float]:
    """The settings of these names, which are parameters of the program."""
    given = {name: settings[name] for name in names if name in settings}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise KeyRefused(SETTINGS, name, f"{value!r} is not a number; give one")
    return {name: float(value) for name, value in given.items()}


def _texts(settings: Mapping[str, Any], program: ProgramDescription) -> dict[str, str | float]:
    """The program's functions of time, with its defaults where none is given."""
    names = [each.name for each in program.signals]
    texts = dict(zip(names, program.signal_defaults, strict=True)) | {
        name: settings[name] for name in names if name in settings
    }
    for name, value in texts.items():
        if isinstance(value, (bool, list)):
            raise KeyRefused(SETTINGS, name, f"{value!r} is not an expression; give a number or a text of t")
    return texts


def _signals(settings: Mapping[str, Any], program: ProgramDescription) -> Signals:
    """The program's own functions of time."""
    with stated_in(SETTINGS):
        return load_signals(_texts(settings, program), program.signal_order)


def _targets(target: Target, program: ProgramDescription) -> Signals:
    """The goals of [target]."""
    with stated_in("target"):
        return load_signals(stated_goals(target, program), program.target_order)
