"""The machine's half of a launch file: where it stands, its options, parameters and changes, all checked."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.closed_loop.launch_file import LaunchError, check_names, worded
from servonode.closed_loop.launch_keys import AUTO, LaunchFile
from servonode.controllers.engine.signals import load_signals
from servonode.definitions.references import Option
from servonode.mechanics.changes import Changes
from servonode.mechanics.closure import closed
from servonode.mechanics.expression import parse
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource, find_machine

Array = npt.NDArray[np.float64]
TRIES = 8  # speeds at which the safe action is tried
INSTANTS = 1000  # at which functions of time are held against a parameter's bounds
ROUNDED = 1e-3  # m or rad by which a state of rounded numbers may miss a holonomic constraint


def plant_source(launch: LaunchFile) -> MachineSource:
    """The machine that the launch file names, with its options and changes.

    Raises:
        LaunchError: there is no such machine, or a setting does not fit.
    """
    plant = launch.plant
    with worded(launch.file, "plant", "machine"):
        definition = find_machine(plant.machine, launch.path.parent)
        settings = chosen(launch, "plant.settings", definition.options, plant.settings)
    varying = _functions(launch, "plant.parameters", plant.parameters)
    return MachineSource(definition, settings, Changes(varying, plant.disturbance))


def believed_source(launch: LaunchFile, plant: MachineSource) -> MachineSource:
    """The machine that the law assumes: without disturbances, with its own functions of time."""
    assert launch.controller is not None
    own = launch.controller.parameters
    varying = {name: text for name, text in plant.changes.varying.items() if name not in own}
    return MachineSource(
        plant.definition,
        plant.settings,
        Changes(varying | _functions(launch, "controller.parameters", own), {}),
    )


def load(launch: LaunchFile, source: MachineSource) -> Machine:
    """The machine with its default parameters.

    Raises:
        LaunchError: it cannot be derived.
    """
    with worded(launch.file, "plant", "machine"):
        return source.load({})


def with_given(
    launch: LaunchFile, source: MachineSource, machine: Machine, section: str, given: Mapping[str, float | str]
) -> Machine:
    """The machine with the parameters that are given in a section.

    Raises:
        LaunchError: a parameter is unknown or out of its bounds, now or during the run.
    """
    check_names(launch.file, section, given, [each.name for each in machine.description.parameters])
    numbers = {name: _constant(value) for name, value in given.items()}
    fixed = {name: value for name, value in numbers.items() if value is not None}
    with worded(launch.file, section):
        machine = machine.with_parameters(fixed)
    varying = source.changes.varying
    signals, values = load_signals(varying, 0), np.zeros(len(varying))
    for t in np.linspace(launch.duration_ns / 1e9, 0.0, INSTANTS) if varying else ():
        signals.evaluate(t, values)
        with worded(launch.file, section, after=f" at t = {t:.4g} s"):
            machine = machine.with_parameters(dict(zip(varying, values.tolist(), strict=True)))
    return machine


def chosen(
    launch: LaunchFile, section: str, options: Mapping[str, Option], given: Mapping[str, Any]
) -> dict[str, str | float | bool]:
    """The value of every option: the given one, else its default; other names of `given` are not looked at.

    Raises:
        LaunchError: a value that the option cannot have, or in [plant.settings] an unknown name.
    """
    if section == "plant.settings":
        if given and not options:
            text = f"machine {launch.plant.machine} has no settings; remove it"
            raise LaunchError(launch.file, section, next(iter(given)), text)
        check_names(launch.file, section, given, options)
    values: dict[str, str | float | bool] = {}
    for name, option in options.items():
        value = given.get(name, option.default)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and isinstance(option.default, str):
            value = f"{value:g}"
        if isinstance(value, float) and isinstance(option.default, int) and value.is_integer():
            value = int(value)
        complaint = option.complaint(value)
        if complaint:
            raise LaunchError(launch.file, section, name, complaint)
        values[name] = value
    return values


def initial_states(launch: LaunchFile, machine: Machine, more: Collection[str] = ()) -> dict[str, float]:
    """The states that [plant.initial] gives, vectors entry by entry; names in `more` are left to the machine.

    Raises:
        LaunchError: a name that is not a state, or a value that it cannot have.
    """
    sizes, vectors = dict(machine.description.layout), machine.description.vectors
    check_names(launch.file, "plant.initial", launch.plant.initial, {*sizes, *more, "on_program"})
    numbers: dict[str, float] = {}
    for name, value in launch.plant.initial.items():
        if name in more and isinstance(value, bool):
            raise LaunchError(launch.file, "plant.initial", name, f"{value!r} is neither a number nor a text; give one")
        if name == "on_program" or name in more:
            continue
        size = sizes[name]
        if size and isinstance(value, list) and len(value) == size:
            numbers |= dict(zip(vectors[name], map(float, value), strict=True))
        elif size or isinstance(value, bool | list | str):
            wanted = f"a list of {size} numbers" if size else "a number"
            raise LaunchError(launch.file, "plant.initial", name, f"{value!r} is not {wanted}; give one")
        else:
            numbers[name] = float(value)
    return numbers


def parameters_at(machine: Machine, source: MachineSource, t: float) -> dict[str, float]:
    """The machine's parameters by name at time t [s], those that vary at their value then."""
    values = np.zeros(len(source.changes.varying))
    load_signals(source.changes.varying, 0).evaluate(t, values)
    return machine.parameters | dict(zip(source.changes.varying, values.tolist(), strict=True))


def possible_initial_state(launch: LaunchFile, machine: Machine, start: Array) -> Array:
    """The initial state, on the holonomic constraints where it misses them by rounding.

    Raises:
        LaunchError: it violates a constraint, or the machine has no finite motion there.
    """
    start = _on_constraints(launch, machine, start)
    machine.keep_assembly(start)
    fault = machine.fault(0.0, start) if launch.plant.safety.faults else None
    if fault:
        text = (
            f"the initial state violates a fault condition: {fault}; choose another one, or set "
            f"plant.safety.faults = false"
        )
        raise LaunchError(launch.file, "plant.initial", None, text)
    rates = machine.derivatives(0.0, start, np.zeros(machine.n_inputs))
    if np.isfinite(rates).all():
        return start
    description = machine.description
    names = [_rate_name(name) for name in (*description.state_names, "energy")]
    wrong = ", ".join(f"{name} = {rate}" for name, rate in zip(names, rates, strict=True) if not np.isfinite(rate))
    place = description.places.get(_culprit(machine, start, rates), description.places.get("model", ""))
    raise LaunchError(
        launch.file,
        "plant.initial",
        None,
        f"at this initial state the machine has no finite motion ({wrong}); {place}: a division by "
        f"zero or the root of a "
        "negative number there; correct it, or choose another initial state",
    )


def check_safe_action(launch: LaunchFile, machine: Machine, start: Array, limits: Array, steps: int) -> None:
    """Try the machine's own safe action at a few speeds: held over `steps` it must take energy out.

    The speeds are random ones, and those at which the inputs put in the most power: among several brakes one that
    drives is outweighed almost everywhere else.

    Raises:
        LaunchError: it adds energy, as a brake does that is too strong for the step.
    """
    description = machine.description
    if not description.has_safe_action:
        return
    rng, step = np.random.default_rng(0), launch.step_ns
    moving = [description.state_names.index(name) for name in description.velocities]
    advance = machine.advancer(launch.plant.integrator)

    def energy_after(x: Array, u: Array) -> float:
        x = x.copy()
        advance(0, steps, step, x, u, machine.c)
        return machine.energy(steps * step / 1e9, x)

    tried = [rng.normal(size=len(moving)) for _ in range(TRIES)]
    for change in (*tried, *_most_driving(machine, start, moving)):
        x = start.copy()
        x[moving] += change
        kinetic, potential = machine.energies(0.0, x)
        u = np.clip(machine.safe_input(0.0, x), -limits, limits)
        free = energy_after(x, np.zeros(machine.n_inputs))  # the integrator's own error is not the brake's
        if not energy_after(x, u) <= max(kinetic + potential, free) + 1e-9 * kinetic:
            text = f"the safe action of {description.name}, held over {steps * step / 1e9:g} s, adds energy instead of "
            raise LaunchError(
                launch.file, "plant", "step", f"{text}removing it; shorten the step or reduce the brake's coefficient"
            )


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


def _on_constraints(launch: LaunchFile, machine: Machine, start: Array) -> Array:
    missed = machine.position_residual(0.0, start)
    if not np.max(np.abs(missed), initial=0.0) > 0.0:
        return start
    if machine.description.independent:
        return _closed_loops(launch, machine, start)
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
    raise LaunchError(launch.file, "plant.initial", None, text + there)


def _closed_loops(launch: LaunchFile, machine: Machine, start: Array) -> Array:
    """The start with its loops closed: the dependent coordinates that are given are where the search begins."""
    found = closed(machine, 0.0, start)
    if found is not None:
        return found
    description, values = machine.description, dict(zip(machine.description.state_names, start, strict=False))
    kept, begun = (
        ", ".join(f"{q} = {values[q]:.6g}" for q in description.coordinates if (q in description.independent) == wanted)
        for wanted in (True, False)
    )
    text = (
        f"with {kept} the loops ({', '.join(description.held)}) cannot be closed, looked for from {begun}; give these"
    )
    raise LaunchError(launch.file, "plant.initial", None, f"{text} near the closed loop, or other lengths or {kept}")


def _functions(launch: LaunchFile, section: str, given: Mapping[str, float | str]) -> dict[str, str | float]:
    """The parameters that are functions of time."""
    texts: dict[str, str | float] = {}
    for name, value in given.items():
        if value == AUTO:
            continue
        with worded(launch.file, section, name, before=f"{value!r} is neither a number nor a function of t: "):
            constant = _constant(value)
        if constant is None:
            texts[name] = value
    return texts


def _constant(value: float | str) -> float | None:
    """The number, also of a text such as "pi/4"; None for a function of time."""
    return parse(value).constant() if isinstance(value, str) else float(value)
