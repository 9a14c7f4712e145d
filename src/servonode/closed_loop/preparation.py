"""A launch file as the machine's own preparation completes it: initial condition, parameters, step."""

import logging
from typing import Any

import numpy as np
from msgspec.structs import replace

from servonode.closed_loop.launch_error import KeyRefused, stated_in
from servonode.closed_loop.launch_file import with_step
from servonode.closed_loop.launch_keys import AUTO, LaunchFile, Plant
from servonode.closed_loop.machine_section import initial_states, parameters_at, with_given
from servonode.mechanics.description import packed
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource
from servonode.plants.prepare import Preparation, Prepared, Wanted

_log = logging.getLogger(__name__)


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
    found = _prepared(plant.machine, source, preparation, wanted)
    if complaint := _complaint(machine, preparation, wanted, found):
        raise KeyRefused(
            "plant", "machine", f"the preparation of {plant.machine} gave {complaint}; correct its function"
        )
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


def _prepared(machine: str, source: MachineSource, preparation: Preparation, wanted: Wanted) -> Prepared:
    """What the machine's function gives."""
    with stated_in("plant", "machine"):
        found = source.definition.run(lambda: preparation.prepare(wanted))
    if not isinstance(found, Prepared):
        text = f"the preparation of {machine} gave {found!r}; let it return Prepared(...)"
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
