"""A launch file as the machine's own preparation completes it: start, parameters, step."""

import logging
from typing import Any

import numpy as np
from msgspec.structs import replace

from servonode.closed_loop.launch_file import LaunchError, with_step
from servonode.closed_loop.launch_keys import AUTO, LaunchFile
from servonode.closed_loop.machine_section import initial_states, load, parameters_at
from servonode.mechanics.description import ModelError, packed
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource
from servonode.plants.prepare import Preparation, Prepared, Unprepared, Wanted

_log = logging.getLogger(__name__)


def prepared(launch: LaunchFile, source: MachineSource) -> LaunchFile:
    """The launch file with numbers where the machine chooses them; as it is for a machine that prepares nothing.

    Raises:
        LaunchError: "auto" where the machine chooses nothing, an unknown start, or what it refuses.
    """
    preparation = _preparation(launch, source)
    _check_auto(launch, source, preparation)
    if preparation is None:
        return launch
    plant = launch.plant
    given = {name: value for name, value in plant.parameters.items() if value != AUTO}
    machine = load(launch, source, "plant.parameters", given)
    initial_states(launch, machine, preparation.start)
    wanted = Wanted(
        settings=source.settings,
        parameters=parameters_at(machine, source, 0.0),
        given=frozenset(given),
        varying=frozenset(source.changes.varying),
        disturbed=frozenset(source.changes.disturbance),
        initial={name: value for name, value in plant.initial.items() if not isinstance(value, bool)},
        step=None if plant.step == AUTO else float(plant.step),
        integrator=plant.integrator,
        duration=launch.duration_ns / 1e9,
    )
    found = _asked(launch, source, preparation, wanted)
    _check(launch, machine, preparation, wanted, found)
    for note in found.notes:
        _log.warning("%s", note)
    numbers = machine.state(found.initial)[: machine.n_state].tolist()
    initial: dict[str, Any] = packed(machine.description.layout, numbers)
    on_program = {name: value for name, value in plant.initial.items() if isinstance(value, bool)}
    plant = replace(plant, initial=initial | on_program, parameters=given | dict(found.parameters))
    launch = replace(launch, plant=plant)
    return launch if found.step is None else with_step(launch, found.step)


def _check(launch: LaunchFile, machine: Machine, preparation: Preparation, wanted: Wanted, found: Prepared) -> None:
    """What a preparation gives must be states and parameters of the machine, finite, and all that was left to it.

    Raises:
        LaunchError: it is not.
    """
    complaint = _complaint(machine, preparation, wanted, found)
    if complaint:
        text = f"the preparation of {launch.plant.machine} gave {complaint}; correct its function"
        raise LaunchError(launch.file, "plant", "machine", text)


def _complaint(machine: Machine, preparation: Preparation, wanted: Wanted, found: Prepared) -> str:
    """What is wrong with what a preparation gives, empty where nothing is."""
    description = machine.description
    known = {"initial": description.state_names, "parameters": [each.name for each in description.parameters]}
    for word, names in known.items():
        for name, value in getattr(found, word).items():
            if name not in names:
                return f"{word} {name!r}, which the machine does not have"
            if isinstance(value, bool | str) or not np.isfinite(value):
                return f"{name} = {value!r}, which is no finite number"
    missing = [name for name in preparation.auto if name not in {*wanted.given, *found.parameters}]
    if missing:
        return f"no {missing[0]}, which was left to it"
    if wanted.step is None and found.step is None:
        return "no step, which was left to it"
    notes: Any = found.notes  # the letters of a text are texts too
    return "notes that are one text instead of a tuple of texts" if isinstance(notes, str) else ""


def _preparation(launch: LaunchFile, source: MachineSource) -> Preparation | None:
    try:
        return source.preparation()
    except ModelError as error:
        raise LaunchError(launch.file, "plant", "machine", str(error)) from error


def _asked(launch: LaunchFile, source: MachineSource, preparation: Preparation, wanted: Wanted) -> Prepared:
    """What the machine's function answers."""
    try:
        found = source.definition.run(lambda: preparation.prepare(wanted))
    except Unprepared as error:
        raise LaunchError(launch.file, error.section, error.key, str(error)) from error
    except ModelError as error:
        raise LaunchError(launch.file, "plant", "machine", str(error)) from error
    if not isinstance(found, Prepared):
        text = f"the preparation of {launch.plant.machine} gave {found!r}; let it return Prepared(...)"
        raise LaunchError(launch.file, "plant", "machine", text)
    return found


def _check_auto(launch: LaunchFile, source: MachineSource, preparation: Preparation | None) -> None:
    """Refuse "auto" where the machine chooses nothing."""
    plant, auto = launch.plant, preparation.auto if preparation else ()
    name = source.definition.reference
    if plant.step == AUTO and not (preparation and preparation.settles_step):
        raise LaunchError(launch.file, "plant", "step", f"{name} does not choose its step; give a number of seconds")
    wrong = [each for each, value in plant.parameters.items() if value == AUTO and each not in auto]
    if wrong:
        remedy = f'give a number; "auto" is for {", ".join(auto)}' if auto else "give a number"
        raise LaunchError(launch.file, "plant.parameters", wrong[0], f"{name} does not choose it; {remedy}")
