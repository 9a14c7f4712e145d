"""A closed loop with other values for some numbers of its launch file: nothing is derived or compiled for them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from servonode.closed_loop.added_sections import defaults, section_of
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.gains import gain_names
from servonode.closed_loop.key_table import key_of
from servonode.closed_loop.launch_error import LaunchError, check_names, naming_file
from servonode.closed_loop.launch_file import GOAL_SPEED, with_values
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.plants.keys import AddedSection


class Variation:
    """A closed loop with other values for some numbers of its launch file.

    keys: dotted, such as "plant.initial.phi", "controller.gains.lambda", "target.x", or an entry of a list by its
    place, "controller.gains.K0.0.1"; "goal.speed" is the speed of the goal's time, t -> speed t in every function of t
    of [target] and of the program's settings. units: of each key.
    """

    def __init__(self, closed_loop: ClosedLoop, keys: Sequence[str]) -> None:
        """Raises LaunchError for a key that is unknown, no number, or part of what is derived."""
        self.base, self.keys = closed_loop, tuple(keys)
        for key in self.keys:
            with naming_file(closed_loop.launch.file):
                closed_loop.check_derived(check_number(closed_loop, key), key)
        self.units = tuple(unit_of(closed_loop, key) for key in self.keys)

    def at(self, values: Sequence[float]) -> ClosedLoop:
        """The closed loop with these values of the keys, checked as a launch file is.

        Raises:
            LaunchError: they do not fit; ProgramRefused: the law fails at this initial state.
        """
        return self.base.changed(dict(zip(self.keys, values, strict=True)))


def check_number(closed_loop: ClosedLoop, key: str) -> LaunchFile:
    """The launch file with a number at this dotted key.

    Raises:
        LaunchError: there is no such key, or it takes no number.
    """
    launch = closed_loop.stated
    section, kind = section_of(key) or ("", AddedSection)
    if kind.unvaried:
        raise LaunchError(launch.file, section, key.removeprefix(f"{section}."), kind.unvaried)
    stated, known = stated_number(launch, key), key_of(key)
    value = known.example if stated is None and known else stated
    return with_values(launch, {key: 1 if value is None else value})


def unit_of(closed_loop: ClosedLoop, key: str) -> str:
    """The unit of a key that takes a number.

    Raises:
        LaunchError: a name in it is none of the machine or the program.
    """
    if key == GOAL_SPEED:
        return "1"
    known = key_of(key)
    if known is None:
        return "1"
    units = _units(closed_loop, known.of)
    if not known.names or units is None:
        return known.unit or "1"
    with naming_file(closed_loop.launch.file):
        check_names(known.table, known.names[:1], units)
    if known.unit not in ("", "SI") and "unit" not in known.unit:
        return known.unit
    _, per, time = known.unit.partition(" per ")
    return units[known.names[0]] + per.replace(" per ", "/") + time


def stated_number(launch: LaunchFile, key: str) -> float | None:
    """The number at a dotted key of a launch file; None where none is stated."""
    of, names = cast(Any, launch), key.split(".")
    if (added := section_of(key)) is not None:
        section, kind = added
        of, names = launch.more.get(section) or defaults(kind), key.removeprefix(section).split(".")[1:]
    for name in names:
        if isinstance(of, Mapping):
            of = of.get(name)
        elif isinstance(of, list):
            of = dict(zip(map(str, range(len(of))), of, strict=True)).get(name)
        else:
            of = getattr(of, name, None)
    return of if isinstance(of, int | float) and not isinstance(of, bool) else None


def _units(closed_loop: ClosedLoop, of: str) -> dict[str, str] | None:
    """The units of what the names of a table are, by name; None: they are not known."""
    machine, control = closed_loop.machine.description, closed_loop.control
    preparation = closed_loop.preparation
    states = {each.name: each.unit for each in machine.state}
    match of:
        case "input":
            return {each.name: each.unit for each in machine.inputs}
        case "weight":
            return dict.fromkeys(machine.input_names, "1")
        case "state":
            return states
        case "sensor":
            return {each.name: each.quantity.unit for each in machine.sensors}
        case "parameter":
            return {each.name: each.unit for each in machine.parameters}
        case "start":
            return dict.fromkeys((*dict(machine.layout), *(preparation.start if preparation else ())), "SI") | states
    if control is None:
        return None
    program = control.law.description
    match of:
        case "setting":
            settings = {each.name: each.unit for each in (*program.parameters, *program.signals)}
            entries = [name.rpartition("_") for name in settings]
            return {base: settings[f"{base}_{at}"] for base, _, at in entries if at.isdigit()} | settings
        case "gain":
            return dict.fromkeys(gain_names([each.name for each in program.residuals]), "1/s")
        case "keep":
            return {each.quantity.name: each.quantity.unit for each in program.keeps}
        case "target":
            return dict.fromkeys(program.targets, "SI")
    return None
