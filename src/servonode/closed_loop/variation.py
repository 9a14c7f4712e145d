"""A closed loop with other values for some numbers of its launch file: nothing is derived or compiled for them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from servonode.closed_loop.closed_loop import ClosedLoop, Derived, assembled, at_start, checked_start
from servonode.closed_loop.gains import gain_names, wants_integral
from servonode.closed_loop.key_table import key_of
from servonode.closed_loop.launch_error import KeyRefused, LaunchError, ProgramUnfit, check_names, worded
from servonode.closed_loop.launch_file import GOAL_SPEED, with_values
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.closed_loop.machine_section import completed

INSTEAD = "load the launch file with it (--set, or servonode.load(FILE, KEY=...))"


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
            _check_derived(closed_loop.derived, check_number(closed_loop, key), key)
        self.units = tuple(unit_of(closed_loop, key) for key in self.keys)

    def at(self, values: Sequence[float]) -> ClosedLoop:
        """The closed loop with these values of the keys, checked as a launch file is.

        Raises:
            LaunchError: they do not fit; ProgramRefused: the law fails at this initial state.
        """
        return with_numbers(self.base, dict(zip(self.keys, values, strict=True)))


def with_numbers(closed_loop: ClosedLoop, values: Mapping[str, Any]) -> ClosedLoop:
    """The closed loop with other values by dotted key, see `with_values`; parts that they do not touch are taken again.

    Nothing is derived, and the ranks of the servo-constraints are not surveyed again: where the inputs cannot realise
    the goal, the law says so during the run. The machine's safe action is not tried again either, which judges what
    follows a fault of a real machine. A function of time as a target is compiled when it is new.

    Raises:
        LaunchError: a value does not fit, as in the launch file, or is part of what is derived.
    """
    derived = closed_loop.derived
    launch = with_values(derived.stated, {key: _whole_if_it_is(value) for key, value in values.items()})
    for key in values:
        _check_derived(derived, launch, key)
    derived = replace(derived, stated=launch)
    with worded(launch.file), closed_loop.parts.taken():
        complete = completed(launch, derived.source, derived.preparation, derived.machine)
        new = assembled(derived, complete, *at_start(complete, derived.source, derived.machine))
        if new.control is not None:
            answer = checked_start(new.control, new.start)
            if answer.status:
                text = f"at the initial state {new.control.law.explain(answer)}"
                raise ProgramUnfit("plant.initial", None, text)
    return replace(new, examination=closed_loop.examination, parts=closed_loop.parts)


def _whole_if_it_is(value: Any) -> Any:
    """A whole number as one, which counts and seeds are."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53 else value


def _check_derived(derived: Derived, launch: LaunchFile, key: str) -> None:
    """Raise LaunchError where a key of this changed launch file is part of what is derived."""
    section, _, name = key.rpartition(".")
    with worded(launch.file):
        if (known := key_of(key)) and known.derived:
            table, inner = (known.table, ".".join(known.names)) if known.names else (section, name)
            raise KeyRefused(table, inner, f"is {known.derived}, which is derived; {INSTEAD}")
        functions = derived.source.changes.varying
        if section == "plant.parameters" and (name in functions or isinstance(launch.plant.parameters[name], str)):
            text = "this change needs a new derivation of the machine; replace a number by a number, or load the "
            raise KeyRefused(section, name, f"{text}launch file with it")
        law, controller = derived.law, launch.controller
        if law is None or controller is None:
            return
        if section == "controller.parameters" and name in law.believed.changes.varying:
            raise KeyRefused(section, name, f"is a function of t in the law's equations, which is derived; {INSTEAD}")
        if section == "controller.settings" and name in law.options:
            raise KeyRefused(section, name, f"is an option of the program, which is derived; {INSTEAD}")
        if controller.weights and not law.law.description.weighted:
            raise KeyRefused("controller.weights", name, f"weights are part of the law's equations; {INSTEAD}")
        if wants_integral(controller.gains) and not law.law.description.integral:
            text = f"integral action is part of the law's equations, which are derived; {INSTEAD}"
            raise KeyRefused("controller.gains", name, text)


def check_number(closed_loop: ClosedLoop, key: str) -> LaunchFile:
    """The launch file with a number at this dotted key.

    Raises:
        LaunchError: there is no such key, or it takes no number.
    """
    launch = closed_loop.derived.stated
    if key.startswith("sweep."):
        text = "belongs to the sweep itself and to none of its runs; vary a key of another section"
        raise LaunchError(launch.file, "sweep", key.removeprefix("sweep."), text)
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
    with worded(closed_loop.launch.file):
        check_names(known.table, known.names[:1], units)
    if known.unit not in ("", "SI") and "unit" not in known.unit:
        return known.unit
    return units[known.names[0]] + ("/s" if known.unit.endswith("per s") else "")


def stated_number(launch: LaunchFile, key: str) -> float | None:
    """The number at a dotted key of a launch file; None where none is stated."""
    of: Any = launch
    for name in key.split("."):
        if isinstance(of, Mapping):
            of = of.get(name)
        elif isinstance(of, list):
            of = dict(zip(map(str, range(len(of))), of, strict=True)).get(name)
        else:
            of = getattr(of, name, None)
    return of if isinstance(of, int | float) and not isinstance(of, bool) else None


def _units(closed_loop: ClosedLoop, of: str) -> dict[str, str] | None:
    """The units of what the names of a table are, by name; None: they are not known."""
    machine, control, preparation = (
        closed_loop.machine.description,
        closed_loop.control,
        closed_loop.derived.preparation,
    )
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
        case "target":
            return dict.fromkeys(program.targets, "SI")
    return None
