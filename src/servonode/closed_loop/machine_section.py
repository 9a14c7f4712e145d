"""The machine's half of a launch file: where it stands, its options, parameters, drives, sensors and preparation."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from servonode.arrays import Array
from servonode.closed_loop.added_sections import beyond_defaults
from servonode.closed_loop.launch_error import KeyRefused, check_names, per_name, stated_in
from servonode.closed_loop.launch_file import with_step
from servonode.closed_loop.launch_keys import AUTO, Actuator, Controller, LaunchFile, Plant, Sensor
from servonode.controllers.engine.signals import load_signals
from servonode.definitions.references import Option, kind_of
from servonode.mechanics.changes import Changes
from servonode.mechanics.description import MachineDescription, packed
from servonode.mechanics.equilibrium import closed
from servonode.mechanics.expression import in_radians, parse
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource, find_machine
from servonode.plants.effects import ActuatorEffects, SensorEffects
from servonode.plants.keys import AddedSection
from servonode.plants.machine_files import files_with, machine_files
from servonode.plants.prepare import Preparation, Prepared, Wanted

TRIES = 8  # speeds at which the safe action is tried
INSTANTS = 1000  # at which functions of time are held against a parameter's bounds
ROUNDED = 1e-3  # m or rad by which a state of rounded numbers may miss a holonomic constraint
MOST_WAITING = 1_000_000  # plant steps that a signal may be late by
_log = logging.getLogger(__name__)


def plant_source(plant: Plant, folder: Path, more: Mapping[str, AddedSection]) -> MachineSource:
    """The machine that a launch file in a folder names, with its options and changes. more: its added sections.

    Raises:
        KeyRefused: there is no such machine, or a setting does not fit.
    """
    with stated_in("plant", "machine"):
        definition = find_machine(plant.machine, folder)
        options = definition.options
        if plant.settings and not options:
            text = f"machine {plant.machine} has no settings; remove it"
            raise KeyRefused("plant.settings", next(iter(plant.settings)), text)
        check_names("plant.settings", plant.settings, options)
        settings = chosen("plant.settings", options, plant.settings) | _file_settings(plant, more)
    varying = _functions("plant.parameters", plant.parameters)
    return MachineSource(definition, settings, Changes(varying, plant.disturbance))


def _file_settings(plant: Plant, more: Mapping[str, AddedSection]) -> dict[str, Any]:
    """What the section for a machine of a file, such as [plant.robot], states beyond its defaults.

    Raises:
        KeyRefused: one of other files states something.
    """
    reference = str(plant.machine)
    own = machine_files(reference).section if kind_of(reference) == "robot" else ""
    for name, stated in more.items():
        if name != own and beyond_defaults(stated) and (files := files_with(name)):
            text = f"machine {reference} is not read from {files.what.partition(',')[0]}; remove the section"
            raise KeyRefused(name, None, text)
    return beyond_defaults(more[own]) if own in more else {}


def believed_source(controller: Controller, plant: MachineSource) -> MachineSource:
    """The machine that the law assumes: without disturbances, with its own functions of time."""
    own = controller.parameters
    varying = {name: text for name, text in plant.changes.varying.items() if name not in own}
    return MachineSource(
        plant.definition,
        plant.settings,
        Changes(varying | _functions("controller.parameters", own), {}),
    )


def load(source: MachineSource) -> Machine:
    """The machine with its default parameters.

    Raises:
        KeyRefused: it cannot be derived.
    """
    with stated_in("plant", "machine"):
        return source.load({})


def with_given(
    source: MachineSource, machine: Machine, section: str, given: Mapping[str, float | str], duration: float
) -> Machine:
    """The machine with the parameters that are given in a section, for a run of this duration [s].

    Raises:
        KeyRefused: a parameter is unknown or out of its bounds, now or during the run.
    """
    check_names(section, given, [each.name for each in machine.description.parameters])
    numbers = {name: _constant(value) for name, value in given.items()}
    fixed = {name: value for name, value in numbers.items() if value is not None}
    with stated_in(section):
        machine = machine.with_parameters(fixed)
    varying = source.changes.varying
    if not varying:
        return machine
    signals, values = load_signals(varying, 0), np.zeros(len(varying))
    for t in np.linspace(duration, 0.0, INSTANTS):
        signals.evaluate(t, values)
        with stated_in(section, after=f" at t = {t:.4g} s"):
            machine = machine.with_parameters(dict(zip(varying, values.tolist(), strict=True)))
    return machine


def chosen(section: str, options: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, str | float | bool]:
    """The value of every option: the given one, else its default; other names of `given` are not looked at.

    Raises:
        KeyRefused: a value that the option cannot have.
    """
    values: dict[str, str | float | bool] = {}
    for name, option in options.items():
        value = given.get(name, option.default)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and isinstance(option.default, str):
            value = f"{value:g}"
        if isinstance(value, float) and isinstance(option.default, int) and value.is_integer():
            value = int(value)
        complaint = option.complaint(value)
        if complaint:
            raise KeyRefused(section, name, complaint)
        values[name] = value
    return values


def initial_states(initial: Mapping[str, Any], machine: Machine, more: Collection[str] = ()) -> dict[str, float]:
    """The states that [plant.initial] gives, vectors entry by entry; names in `more` are left to the machine.

    Raises:
        KeyRefused: a name that is not a state, or a value that it cannot have.
    """
    sizes, vectors = dict(machine.description.layout), machine.description.vectors
    check_names("plant.initial", initial, {*sizes, *more, "on_program"})
    numbers: dict[str, float] = {}
    for name, value in initial.items():
        if name in more and isinstance(value, bool):
            raise KeyRefused("plant.initial", name, f"{value!r} is neither a number nor a text; give one")
        if name == "on_program" or name in more:
            continue
        size = sizes[name]
        if size and isinstance(value, list) and len(value) == size:
            numbers |= dict(zip(vectors[name], map(float, value), strict=True))
        elif size or isinstance(value, bool | list | str):
            wanted = f"a list of {size} numbers" if size else "a number"
            raise KeyRefused("plant.initial", name, f"{value!r} is not {wanted}; give one{in_radians(value)}")
        else:
            numbers[name] = float(value)
    return numbers


def parameters_at(machine: Machine, source: MachineSource, t: float) -> dict[str, float]:
    """The machine's parameters by name at time t [s], those that vary at their value then."""
    values = np.zeros(len(source.changes.varying))
    load_signals(source.changes.varying, 0).evaluate(t, values)
    return machine.parameters | dict(zip(source.changes.varying, values.tolist(), strict=True))


def possible_start(machine: Machine, start: Array, faults: bool) -> tuple[Machine, Array]:
    """The machine as it is assembled at an initial state, and that state.

    The state is moved onto the holonomic constraints where it misses them by rounding. faults: whether the machine's
    own faults are looked at.

    Raises:
        KeyRefused: it violates a constraint, or the machine has no finite motion there.
    """
    start = _on_constraints(machine, start)
    machine = machine.assembled_at(start)
    fault = machine.fault(0.0, start) if faults else None
    if fault:
        text = f"the initial state violates a fault condition: {fault.text}; choose another one, or set "
        raise KeyRefused("plant.initial", None, f"{text}plant.safety.faults = false")
    rates = machine.derivatives(0.0, start, np.zeros(machine.n_inputs))
    slopes = machine.margin_rates(0.0, start, rates)
    for i, margin in enumerate(machine.margins(0.0, start).tolist()):
        if machine.kernel.holds(i, margin) and (margin > 0 or slopes[i] >= 0):  # else it leaves the far side at once
            jump, where = machine.description.jumps[i]
            text = f"the initial state is beyond the jump {jump!r}, which acts where {where} begins: it is {margin:g} "
            raise KeyRefused("plant.initial", None, f"{text}there; begin on the other side")
    if np.isfinite(rates).all():
        return machine, start
    description = machine.description
    names = [_rate_name(name) for name in (*description.state_names, "energy")]
    wrong = ", ".join(f"{name} = {rate}" for name, rate in zip(names, rates, strict=True) if not np.isfinite(rate))
    place = description.places.get(_culprit(machine, start, rates), description.places.get("model", ""))
    text = f"at this initial state the machine has no finite motion ({wrong}); {place}: a division by zero or the "
    text += "root of a negative number there; correct it, or choose another initial state"
    raise KeyRefused("plant.initial", None, text)


def check_safe_action(machine: Machine, start: Array, limits: Array, steps: int, step_ns: int, integrator: str) -> None:
    """Try the machine's own safe action at a few speeds: held over `steps` it must take energy out.

    The speeds are random ones, and those at which the inputs put in the most power: among several brakes one that
    drives is outweighed almost everywhere else.

    Raises:
        KeyRefused: it adds energy, as a brake does that is too strong for the step.
    """
    description = machine.description
    if not description.has_safe_action:
        return
    rng = np.random.default_rng(0)
    moving = [description.state_names.index(name) for name in description.velocities]
    advance = machine.advancer(integrator)

    def energy_after(x: Array, u: Array) -> float:
        x = x.copy()
        advance(0, steps, step_ns, x, u, machine.c)
        return machine.energy(steps * step_ns / 1e9, x)

    tried = [rng.normal(size=len(moving)) for _ in range(TRIES)]
    for change in (*tried, *_most_driving(machine, start, moving)):
        x = start.copy()
        x[moving] += change
        kinetic, potential = machine.energies(0.0, x)
        u = np.clip(machine.safe_input(0.0, x), -limits, limits)
        free = energy_after(x, np.zeros(machine.n_inputs))  # the integrator's own error is not the brake's
        if not energy_after(x, u) <= max(kinetic + potential, free) + 1e-9 * kinetic:
            text = f"the safe action of {description.name}, held over {steps * step_ns / 1e9:g} s, adds "
            text += "energy instead of removing it; shorten the step or reduce the brake's coefficient"
            raise KeyRefused("plant", "step", text)


def _most_driving(machine: Machine, start: Array, moving: list[int]) -> list[Array]:
    """Velocities (n_v,), added to the initial ones, at which the safe inputs' power is largest; from rest both ways.

    At a pose the power of a linear brake is a quadratic form in the velocities, whose extremes are eigenvectors.
    """

    def power(v: Array) -> float:
        x = start.copy()
        x[moving] = v
        return float(machine.safe_input(0.0, x) @ machine.input_rates(0.0, x))

    units = np.eye(len(moving))
    form = np.array([[(power(a + b) - power(a - b)) / 4 for b in units] for a in units])
    if not np.isfinite(form).all():
        return []
    worst = np.linalg.eigh((form + form.T) / 2)[1][:, -1]
    return [worst - start[moving], -worst - start[moving]]


def _rate_name(name: str) -> str:
    """`psi` -> `psi_dot`, `psi_dot` -> `psi_ddot`."""
    return f"{name.removesuffix('_dot')}_ddot" if name.endswith("_dot") else f"{name}_dot"


def _culprit(machine: Machine, start: Array, rates: Array) -> str:
    """Which expression of the machine is not finite at the initial state."""
    description = machine.description
    for name, rate in zip(description.state_names, rates, strict=False):
        if name in description.coordinates and not np.isfinite(rate):
            return name
    kinetic, potential = machine.energies(0.0, start)
    if not np.isfinite(kinetic) or not _inertia_is_finite(machine, start):
        return "kinetic"
    return "dissipation" if np.isfinite(potential) else "potential"


def _inertia_is_finite(machine: Machine, start: Array) -> bool:
    """Whether each velocity of one by itself has a finite kinetic energy at the initial state."""
    for name in machine.description.velocities:
        x = start.copy()
        for other in machine.description.velocities:
            x[machine.description.state_names.index(other)] = float(other == name)
        if not np.isfinite(machine.energies(0.0, x)[0]):
            return False
    return True


def _on_constraints(machine: Machine, start: Array) -> Array:
    missed = machine.position_residual(0.0, start)
    if not np.max(np.abs(missed), initial=0.0) > 0.0:
        return start
    if machine.description.independent:
        return _closed_loops(machine, start)
    near = machine.projected(0.0, start)
    reached = np.max(np.abs(machine.position_residual(0.0, near))) < 1e-9
    if reached and np.max(np.abs(near - start)) <= ROUNDED:
        return near
    names = machine.description.held
    worst = int(np.argmax(np.abs(missed)))
    there = "; no state nearby satisfies it, choose another initial state"
    if reached:
        shown = zip(machine.description.state_names, near, start, strict=False)
        there = "; nearby holds " + ", ".join(f"{name} = {a:.6g}" for name, a, b in shown if abs(a - b) > 1e-12)
    text = (
        f"the initial state violates the constraint {names[worst]}, whose expression is "
        f"{missed[worst]:.4g} instead of 0"
    )
    raise KeyRefused("plant.initial", None, text + there)


def _closed_loops(machine: Machine, start: Array) -> Array:
    """The start with its loops closed: the dependent coordinates that are given are where the search begins."""
    found = closed(machine, 0.0, start)
    if found is not None:
        return found
    description, values = machine.description, dict(zip(machine.description.state_names, start, strict=False))
    kept, begun = (
        ", ".join(f"{q} = {values[q]:.6g}" for q in description.coordinates if (q in description.independent) == wanted)
        for wanted in (True, False)
    )
    text = f"with {kept} the loops ({', '.join(description.held)}) cannot be closed, looked for from {begun}; give "
    raise KeyRefused("plant.initial", None, f"{text}these near the closed loop, or other lengths or {kept}")


def _functions(section: str, given: Mapping[str, float | str]) -> dict[str, str | float]:
    """The parameters that are functions of time."""
    texts: dict[str, str | float] = {}
    for name, value in given.items():
        if value == AUTO:
            continue
        with stated_in(section, name, before=f"{value!r} is neither a number nor a function of t: "):
            constant = _constant(value)
        if constant is None:
            texts[name] = value
    return texts


def _constant(value: float | str) -> float | None:
    """The number, also of a text such as "pi/4"; None for a function of time."""
    return parse(value).constant() if isinstance(value, str) else float(value)


def actuator_effects(drive: Actuator, machine: MachineDescription, step: float) -> ActuatorEffects:
    """What the drives make of commands, by input; step [s]: of the plant.

    Raises:
        KeyRefused: a name that is no input, or a delay of too many steps.
    """
    absent = {"limit": np.inf, "rate_limit": np.inf}
    effects = ActuatorEffects(
        **{
            key: per_name("plant.actuator", key, getattr(drive, key), machine.input_names, absent.get(key, 0.0))
            for key in (each.name for each in fields(ActuatorEffects))
        }
    )
    _check_delay("plant.actuator", max(effects.delay, default=0.0), step)
    return effects


def sensor_effects(sensor: Sensor, machine: MachineDescription, step: float) -> SensorEffects:
    """What the sensors make of the state; step [s]: of the plant.

    Raises:
        KeyRefused: a name that is not a state, or a delay of too many steps.
    """
    by_state = {
        key: per_name("plant.sensor", key, getattr(sensor, key), machine.state_names, 0.0)
        for key in ("noise", "bias", "quantum")
    }
    effects = SensorEffects(**by_state, delay=sensor.delay, drop=sensor.drop)
    _check_delay("plant.sensor", effects.delay, step)
    return effects


def _check_delay(section: str, delay: float, step: float) -> None:
    """Refuse a delay [s] of more steps than are kept in memory."""
    if delay > MOST_WAITING * step:
        text = f"{delay:g} s are {delay / step:.3g} plant steps of {step:g} s, of which at most {MOST_WAITING:.0e} can "
        raise KeyRefused(section, "delay", f"{text}wait; give at most {MOST_WAITING * step:g}")


def preparation_of(plant: Plant, source: MachineSource) -> Preparation | None:
    """What the machine finds out itself, if anything.

    Raises:
        KeyRefused: "auto" where the machine chooses nothing.
    """
    with stated_in("plant", "machine"):
        preparation = source.preparation()
    _check_auto(plant, source, preparation)
    return preparation


def completed(
    launch: LaunchFile, source: MachineSource, preparation: Preparation | None, machine: Machine
) -> LaunchFile:
    """The launch file with numbers where the machine, of any parameters, chooses them.

    Raises:
        KeyRefused: an unknown name in [plant.initial], or what the machine refuses.
    """
    if preparation is None:
        return launch
    plant = launch.plant
    given = {name: value for name, value in plant.parameters.items() if value != AUTO}
    machine = with_given(source, machine, "plant.parameters", given, launch.times.duration)
    initial_states(plant.initial, machine, preparation.start)
    wanted = Wanted(
        settings=source.settings,
        parameters=parameters_at(machine, source, 0.0),
        given=frozenset(given),
        varying=frozenset(source.changes.varying),
        disturbed=frozenset(source.changes.disturbance),
        initial={name: value for name, value in plant.initial.items() if not isinstance(value, bool)},
        step=None if plant.step == AUTO else float(plant.step),
        integrator=plant.integrator,
        duration=launch.times.duration,
    )
    found = _prepared(source, preparation, wanted)
    if complaint := _complaint(machine, preparation, wanted, found):
        text = f"the preparation of {plant.machine} gave {complaint}; correct its function"
        raise KeyRefused("plant", "machine", text)
    for note in found.notes:
        _log.warning("%s", note)
    numbers = machine.state(found.initial)[: machine.n_state].tolist()
    initial: dict[str, Any] = packed(machine.description.layout, numbers)
    on_program = {name: value for name, value in plant.initial.items() if isinstance(value, bool)}
    plant = replace(plant, initial=initial | on_program, parameters=given | dict(found.parameters))
    launch = replace(launch, plant=plant)
    return launch if found.step is None else with_step(launch, found.step)


def _complaint(machine: Machine, preparation: Preparation, wanted: Wanted, found: Prepared) -> str:
    """What is wrong with what a preparation gives, empty where nothing is.

    It must give states and parameters of the machine, finite, and all that was left to it.
    """
    description = machine.description
    known = {"initial": description.state_names, "parameters": [each.name for each in description.parameters]}
    for word, names in known.items():
        for name, value in getattr(found, word).items():
            if name not in names:
                return f"{word} {name!r}, which the machine does not have"
            if isinstance(value, bool | str) or not np.isfinite(value):
                return f"{name} = {value!r}, which is not a finite number"
    missing = [name for name in preparation.auto if name not in {*wanted.given, *found.parameters}]
    if missing:
        return f"no {missing[0]}, which was left to it"
    if wanted.step is None and found.step is None:
        return "no step, which was left to it"
    notes: Any = found.notes  # the letters of a text are texts too
    return "notes that are one text instead of a tuple of texts" if isinstance(notes, str) else ""


def _prepared(source: MachineSource, preparation: Preparation, wanted: Wanted) -> Prepared:
    """What the machine's function gives."""
    with stated_in("plant", "machine"):
        found = source.definition.run(lambda: preparation.prepare(wanted))
    if not isinstance(found, Prepared):
        text = f"the preparation of {source.definition.reference} gave {found!r}; let it return Prepared(...)"
        raise KeyRefused("plant", "machine", text)
    return found


def _check_auto(plant: Plant, source: MachineSource, preparation: Preparation | None) -> None:
    """Refuse "auto" where the machine chooses nothing."""
    auto = preparation.auto if preparation else ()
    name = source.definition.reference
    if plant.step == AUTO and not (preparation and preparation.settles_step):
        raise KeyRefused("plant", "step", f"{name} does not choose its step; give a number of seconds")
    wrong = [each for each, value in plant.parameters.items() if value == AUTO and each not in auto]
    if wrong:
        remedy = f'give a number; "auto" is for {", ".join(auto)}' if auto else "give a number"
        raise KeyRefused("plant.parameters", wrong[0], f"{name} does not choose it; {remedy}")
