"""The keys of a launch file whose numbers can vary: whether a key is one, and its unit."""

from collections.abc import Mapping
from typing import Any

from msgspec import inspect
from msgspec.structs import fields

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.gains import gain_names
from servonode.closed_loop.launch_error import LaunchError, check_names, worded
from servonode.closed_loop.launch_file import GOAL_SPEED, with_values
from servonode.closed_loop.launch_keys import LaunchFile

PLAUSIBLE = (1, 0.5, 0)  # of which each key that takes a number takes one


def check_number(closed_loop: ClosedLoop, key: str) -> LaunchFile:
    """The launch file with a number at this dotted key.

    Raises:
        LaunchError: there is no such key, or it takes no number.
    """
    launch, refusals = closed_loop.derived.stated, list[LaunchError]()
    if key.startswith("sweep."):
        text = "belongs to the sweep itself and to none of its runs; vary a key of another section"
        raise LaunchError(launch.file, "sweep", key.removeprefix("sweep."), text)
    stated = stated_number(launch, key)
    for value in (1 if stated is None else stated, *PLAUSIBLE):
        try:
            return with_values(launch, {key: value})
        except LaunchError as error:
            refusals.append(error)
    raise refusals[0]


def unit_of(closed_loop: ClosedLoop, key: str) -> str:
    """The unit of a key that takes a number.

    Raises:
        LaunchError: a name in it is none of the machine or the program.
    """
    if key == GOAL_SPEED:
        return "1"
    launch = closed_loop.derived.stated
    section, unit, names = _of_key(launch, key)
    if not names:
        return unit or "1"
    known = _named(closed_loop).get(section)
    if known is None:
        return unit or "1"
    with worded(launch.file):
        check_names(section, names[:1], known)
    return known[names[0]] + ("/s" if unit.endswith("per s") else "")


def _of_key(launch: LaunchFile, key: str) -> tuple[str, str, list[str]]:
    """The section or table that a key leads to, the unit that its annotation states, and the names within."""
    of: Any = launch
    path, names = list[str](), key.split(".")
    while hasattr(type(of), "__struct_fields__"):
        path.append(names.pop(0))
        field = next(field for field in fields(type(of)) if field.name == path[-1])
        of = getattr(of, path[-1])
    extra = getattr(inspect.type_info(field.type), "extra", None) or {}
    return ".".join(path), str(extra.get("unit", "")), names


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


def _named(closed_loop: ClosedLoop) -> Mapping[str, dict[str, str]]:
    """The units of what tables by name may hold, by table."""
    machine, control = closed_loop.machine.description, closed_loop.control
    preparation = closed_loop.derived.preparation
    states = {each.name: each.unit for each in machine.state}
    inputs = {each.name: each.unit for each in machine.inputs}
    parameters = {each.name: each.unit for each in machine.parameters}
    starts = dict.fromkeys((*dict(machine.layout), *(preparation.start if preparation else ())), "SI")
    found = {"plant.parameters": parameters, "controller.parameters": parameters, "plant.initial": starts | states}
    found |= {f"plant.actuator.{key}": inputs for key in ("limit", "rate_limit", "quantum", "dead_zone")}
    found |= {f"plant.actuator.{key}": dict.fromkeys(inputs, "s") for key in ("lag", "delay")}
    found |= {f"plant.safety.{key}": inputs for key in ("limit", "rate_limit", "arming_limit")}
    found["controller.weights"] = dict.fromkeys(inputs, "1")
    found |= {f"plant.sensor.{key}": states for key in ("noise", "bias", "quantum")}
    found |= {f"plant.safety.{key}": states for key in ("state_limit", "state_rate_limit")}
    if control is not None:
        program = control.law.description
        settings = {each.name: each.unit for each in (*program.parameters, *program.signals)}
        lists = {name.rpartition("_")[0]: unit for name, unit in settings.items() if name.rpartition("_")[2].isdigit()}
        found["controller.settings"] = lists | settings
        found["controller.gains"] = dict.fromkeys(gain_names([each.name for each in program.residuals]), "1/s")
        found["target"] = dict.fromkeys(program.targets, "SI")
    return found
