"""A closed loop with other values for some numbers of its launch file: nothing is derived or compiled for them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from servonode.closed_loop.closed_loop import ClosedLoop, Derived, assembled, at_start, checked_start
from servonode.closed_loop.gains import wants_integral
from servonode.closed_loop.launch_error import KeyRefused, ProgramUnfit, worded
from servonode.closed_loop.launch_file import with_values
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.closed_loop.preparation import completed
from servonode.closed_loop.stages import Kept
from servonode.closed_loop.variation_keys import check_number, unit_of

INSTEAD = "load the launch file with it (--set, or servonode.load(FILE, KEY=...))"
DERIVED = {
    "plant.settings": "an option of the machine",
    "plant.disturbance": "part of the machine's equations",
    "controller.residuals": "part of the law's equations",
    "controller.damping": "part of the compiled law",
}


class Variation:
    """A closed loop with other values for some numbers of its launch file.

    keys: dotted, such as "plant.initial.phi", "controller.gains.lambda", "target.x", or an entry of a list by its
    place, "controller.gains.K0.0.1"; "goal.speed" is the speed of the goal's time, t -> speed t in every function of t
    of [target] and of the program's settings. units: of each key.
    """

    def __init__(self, closed_loop: ClosedLoop, keys: Sequence[str]) -> None:
        """Raises LaunchError for a key that is unknown, no number, or part of what is derived."""
        self.base, self.keys, self._kept = closed_loop, tuple(keys), Kept()
        for key in self.keys:
            _check_derived(closed_loop.derived, check_number(closed_loop, key), key)
        self.units = tuple(unit_of(closed_loop, key) for key in self.keys)

    def at(self, values: Sequence[float]) -> ClosedLoop:
        """The closed loop with these values of the keys, checked as a launch file is.

        Raises:
            LaunchError: they do not fit; ProgramRefused: the law fails at this initial state.
        """
        return varied(self.base, dict(zip(self.keys, values, strict=True)), self._kept)


def varied(closed_loop: ClosedLoop, values: Mapping[str, Any], kept: Kept) -> ClosedLoop:
    """The closed loop with other values by dotted key, see `with_values`; kept: of other variations of it.

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
    with worded(launch.file):
        complete = completed(launch, derived.source, derived.preparation, derived.machine)
        started = at_start(complete, derived.source, derived.machine, kept)
        changed = assembled(derived, complete, *started, kept)
        if changed.control is not None:
            answer = checked_start(changed.control, changed.start)
            if answer.status:
                text = f"at the initial state {changed.control.law.explain(answer)}"
                raise ProgramUnfit("plant.initial", None, text)
    return replace(changed, examination=closed_loop.examination)


def _whole_if_it_is(value: Any) -> Any:
    """A whole number as one, which counts and seeds are."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53 else value


def _check_derived(derived: Derived, launch: LaunchFile, key: str) -> None:
    """Raise LaunchError where a key of this changed launch file is part of what is derived."""
    section, _, name = key.rpartition(".")
    with worded(launch.file):
        for part, what in DERIVED.items():
            if f"{key}.".startswith(f"{part}."):
                inner = key.removeprefix(part).strip(".") or part.rpartition(".")[2]
                raise KeyRefused(part if part != key else section, inner, f"is {what}, which is derived; {INSTEAD}")
        if section == "plant.parameters" and _is_function(derived, launch, name):
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


def _is_function(derived: Derived, launch: LaunchFile, name: str) -> bool:
    """Whether a parameter of the plant is a function of time, or was one."""
    return isinstance(launch.plant.parameters[name], str) or name in derived.source.changes.varying
